"""The file of restarts, the pauses before them, and what operators read of both."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from barnabas.supervisor import process_table
from barnabas.supervisor.process_table import ProcessIdentity, read_pid_file, write_pid_file
from barnabas.supervisor.restart_events import (
    DIED,
    FAILED,
    FILE_BYTES_MAX,
    RESTARTED,
    UNWRITTEN_MAX,
    RestartEvent,
    RestartEvents,
    read_restart_events,
)
from barnabas.supervisor.watched import CALM_MS, DELAY_MS_MAX, Watched
from barnabas_cli.local.restarts import REPEATED, notices_of, problems_of, restarts_of

HOUR_MS = 3_600_000
NOW_MS = 100 * HOUR_MS


def event(number: int, what: str = DIED, why: str = "killed by signal 9 (SIGKILL)") -> RestartEvent:
    return RestartEvent(number, "gateway", what, why)


def full_disk(*_: Any) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_the_file_is_bounded_and_keeps_the_newest(tmp_path: Path) -> None:
    path = tmp_path / "restarts.jsonl"
    events = RestartEvents(str(path))
    for number in range(3000):
        events.add(event(number, why="x" * 10_000))
        assert path.stat().st_size < FILE_BYTES_MAX + 2_000
    kept = [each.time_ms for each in read_restart_events(path)]
    assert kept == list(range(kept[0], 3000))
    assert len(kept) > 100


def test_what_a_full_disk_does_not_take_is_written_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "restarts.jsonl"
    events = RestartEvents(str(path))
    with monkeypatch.context() as full:
        full.setattr(os, "write", full_disk)
        for number in range(UNWRITTEN_MAX + 10):
            events.add(event(number))
    assert events.has_unwritten
    assert read_restart_events(path) == []
    events.write()
    assert not events.has_unwritten
    assert [each.time_ms for each in read_restart_events(path)] == list(range(10, UNWRITTEN_MAX + 10))


def test_a_line_that_was_written_in_part_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "restarts.jsonl"
    events = RestartEvents(str(path))
    write = os.write
    with monkeypatch.context() as nearly_full:
        nearly_full.setattr(os, "write", lambda descriptor, line: write(descriptor, line[:7]))
        events.add(event(1))
    assert path.read_bytes() == b""
    events.write()
    assert read_restart_events(path) == [event(1)]


def test_lines_that_are_no_events_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "restarts.jsonl"
    RestartEvents(str(path)).add(event(1))
    with path.open("ab") as file:
        file.write(b'\xff\n[]\n{"service": "gateway"}\n{"torn')
    assert read_restart_events(path) == [event(1)]
    assert read_restart_events(tmp_path / "none") == []


def test_a_pid_file_is_replaced_on_a_full_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "gateway.pid"
    before, after = ProcessIdentity(1_234_567, 99_999, "boot"), ProcessIdentity(12, 100_000, "boot")
    write_pid_file(path, before)
    monkeypatch.setattr(process_table.os, "replace", full_disk)
    write_pid_file(path, after)
    assert read_pid_file(path) == after
    with pytest.raises(OSError, match="No such file"):
        write_pid_file(tmp_path / "new.pid", after)


@pytest.mark.parametrize("content", [b"", b"7", b"[]", b"null", b'{"pid": "x"}', b"\xff"])
def test_a_pid_file_that_is_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "gateway.pid"
    path.write_bytes(content)
    assert read_pid_file(path) is None


def test_pauses_double_and_are_forgotten_after_a_calm_time() -> None:
    watched = Watched("gateway", [], {}, "", "")
    now_ms, delays = 0, []
    for _ in range(12):
        watched.put_off(now_ms)
        delays.append(watched.delay_ms)
        assert watched.due_ms == now_ms + watched.delay_ms
        now_ms = watched.due_ms
    assert delays == [100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, DELAY_MS_MAX, DELAY_MS_MAX, DELAY_MS_MAX]
    for lived_ms, delay_ms in ((CALM_MS - 1, DELAY_MS_MAX), (CALM_MS, 100)):
        watched.since_ms = now_ms
        now_ms += lived_ms
        watched.pidfd = os.pidfd_open(os.getpid())
        watched.end(now_ms)
        assert watched.delay_ms == delay_ms


def test_a_restart_is_a_notice_for_an_hour() -> None:
    events = [event(NOW_MS - 2), event(NOW_MS - 1, RESTARTED, "")]
    expected = (
        "gateway was restarted once in the last hour, last at 1970-01-05 03:59:59 UTC: killed by signal 9 (SIGKILL)"
    )
    assert notices_of(restarts_of(events, NOW_MS)) == [expected]
    assert problems_of(restarts_of(events, NOW_MS)) == []
    assert restarts_of(events, NOW_MS + HOUR_MS) == {}


def test_a_service_that_keeps_dying_is_a_problem() -> None:
    pair = [event(NOW_MS - 2, DIED, "exited with code 1")._replace(last_line="no disk left"), event(NOW_MS, RESTARTED)]
    found = restarts_of(pair * REPEATED, NOW_MS)
    assert notices_of(found) == []
    (problem,) = problems_of(found)
    assert problem.startswith("gateway keeps dying: restarted 5 times in ten minutes, last at ")
    assert problem.endswith("exited with code 1; last log line: no disk left")


def test_a_service_that_can_not_be_started_is_neither_running_nor_restarted() -> None:
    found = restarts_of([event(NOW_MS - 3), event(NOW_MS - 1, FAILED, "/etcd: No such file or directory")], NOW_MS)
    assert notices_of(found) == []
    assert found["gateway"].last_why == "can't be started: /etcd: No such file or directory"
