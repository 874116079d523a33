"""Histories on disk, and what errors prove."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.faults.history import Guarantee, Operation, Recorder, Type, outcome_of, paths_of, read


def test_what_is_recorded_is_read_in_the_order_in_which_it_happened(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a.jsonl", 7) as first, Recorder(tmp_path / "b.jsonl", 8) as second:
        first.open("a/1", Guarantee.IDEMPOTENT)
        first.record("a/1", Type.INVOKE, "send", value="v", partition=2)
        second.record("b/1", Type.OK, "poll", value=[(0, "v"), (1, "w")], partition=2, epoch=4)
        first.record("a/1", Type.OK, "send", value="v", partition=2, offset=0)
        second.fault("kill -9 etcd")
    operations = read(paths_of(tmp_path))
    assert [(each.proc, each.type, each.f) for each in operations] == [
        ("a/1", Type.OK, "open"),
        ("a/1", Type.INVOKE, "send"),
        ("b/1", Type.OK, "poll"),
        ("a/1", Type.OK, "send"),
        ("nemesis", Type.INFO, "fault"),
    ]
    assert operations[0].seed == 7
    assert operations[2].value == [(0, "v"), (1, "w")]
    assert operations[2].epoch == 4
    assert operations[3].offset == 0


def test_a_line_without_its_end_is_no_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with Recorder(path, 1) as recorder:
        recorder.record("a/1", Type.OK, "assign", partition=0, offset=5)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:20])
    assert len(read([path])) == 1


def test_a_line_that_is_no_event_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"proc": "a/1", "type": "perhaps", "f": "send", "ts": 1}\n')
    with pytest.raises(msgspec.ValidationError):
        read([path])


def test_what_says_nothing_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with Recorder(path, 1) as recorder:
        recorder.record("a/1", Type.OK, "assign", partition=0, offset=0)
    assert set(msgspec.json.decode(path.read_bytes())) == {"proc", "type", "f", "ts", "partition", "offset"}
    assert isinstance(read([path])[0], Operation)


@pytest.mark.parametrize(
    "error",
    ["NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "REQUEST_TIMED_OUT", "_TRANSPORT", "_MSG_TIMED_OUT"],
)
def test_errors_that_prove_nothing(error: str) -> None:
    assert outcome_of(error, may_have_been_sent_before=False) is Type.INFO


def test_a_refusal_before_the_append_proves_only_its_own_attempt() -> None:
    assert outcome_of("NOT_ENOUGH_REPLICAS", may_have_been_sent_before=False) is Type.FAIL
    assert outcome_of("NOT_ENOUGH_REPLICAS", may_have_been_sent_before=True) is Type.INFO
    assert outcome_of("MESSAGE_TOO_LARGE", may_have_been_sent_before=True) is Type.FAIL
