"""Children that were forked ahead: they are as those that are spawned, and die with their parent."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tests.unit.runtime import forking_parent_of_test as parent

SECONDS_MAX = 30.0


def run(case: object) -> subprocess.CompletedProcess[str]:
    assert callable(case)
    return subprocess.run(
        [sys.executable, "-m", parent.__name__, case.__name__],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


def test_forked_children_take_their_arguments_and_end_as_spawned_ones() -> None:
    done = run(parent.two_ahead_and_a_third)
    assert done.stdout.splitlines() == [
        "first a b child_of_test False",
        "second child_of_test False",
        "third child_of_test True",
        "7 -9 0",
    ], done.stderr
    assert done.returncode == 0


def test_a_child_that_died_while_it_waited_is_found_dead_and_the_next_one_begins() -> None:
    done = run(parent.one_died_while_it_waited)
    assert done.stdout.splitlines() == ["-9", "second 0"], done.stderr


def test_a_process_with_a_thread_forks_no_children() -> None:
    assert run(parent.beside_a_thread).stdout.splitlines() == ["True 0"]


def test_forked_children_end_with_their_parent_also_those_that_never_began() -> None:
    done = run(parent.end_with_one_that_begins_and_one_that_waits)
    assert done.returncode == -9
    pids = done.stdout.split()
    assert len(pids) == 2
    deadline = time.monotonic() + SECONDS_MAX
    while any(_runs(pid) for pid in pids):
        assert time.monotonic() < deadline, pids
        time.sleep(0.01)


def _runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
