"""When `make up` compiles the cores beside the cluster, what it says, and how that ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from barnabas.cores import COMPILED, INTERPRETED
from scripts.compiled.beside import Circumstances, decide
from scripts.compiled.lock import LOCK, should_end, sole_build, try_lock
from tests.releases import ROOT
from tests.unit.compiled.a_checkout import FAILS, HANGS, SOURCE, SUCCEEDS, Checkout

BEGINS = (
    "compiling the cores beside the cluster, at idle priority, some minutes (build/compiled.log); "
    "the next `make up` moves the services onto them one by one\n"
)
FAILED = (
    "services run plain modules: the cores could not be compiled (build/compiled.log); `make compiled` tries it again\n"
)
UNDER_WAY = "the cores are still being compiled beside the cluster (build/compiled.log)\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Checkout]:
    made = Checkout(tmp_path / "checkout")
    yield made
    made.kill()


def circumstances(
    wanted: str = "", ci: str = "", is_current: bool = False, lacks: str = "", has_failed: bool = False
) -> Circumstances:
    return Circumstances(wanted, ci, is_current, lacks, has_failed)


@pytest.mark.parametrize(
    ("found", "builds", "says"),
    [
        (circumstances(), True, ""),
        (circumstances(is_current=True), False, ""),
        (circumstances(wanted=INTERPRETED), False, ""),
        (circumstances(wanted=COMPILED), False, ""),
        (circumstances(ci="true"), False, ""),
        (circumstances(ci="true", lacks="compiled: no C compiler"), False, ""),
        (circumstances(wanted=INTERPRETED, has_failed=True), False, ""),
        (circumstances(lacks="compiled: no C compiler"), False, "services run plain modules: no C compiler"),
        (circumstances(has_failed=True), False, FAILED.rstrip()),
        (circumstances(is_current=True, lacks="compiled: no C compiler", has_failed=True), False, ""),
    ],
)
def test_what_is_decided(found: Circumstances, builds: bool, says: str) -> None:
    decision = decide(found)
    assert (decision.builds, decision.says) == (builds, says)


def test_a_build_ends_in_what_the_next_process_takes(checkout: Checkout) -> None:
    checkout.build_by(SUCCEEDS)
    assert checkout.beside() == BEGINS
    checkout.wait_until_ended()
    assert "built with --holds-lock --jobs" in checkout.log
    assert checkout.beside() == "", "it is current"
    (checkout.root / SOURCE).write_text("first = 2\n")
    assert checkout.beside() == BEGINS


def test_a_second_one_does_not_begin_beside_the_first(checkout: Checkout) -> None:
    checkout.build_by(HANGS)
    assert checkout.beside() == BEGINS
    checkout.wait_for_log("hangs")
    before = sorted(checkout.processes())
    assert checkout.beside() == UNDER_WAY
    assert sorted(checkout.processes()) == before


def test_it_gives_way_to_all_else() -> None:
    ask = (
        "import os; from scripts.compiled.beside import _give_way; _give_way(); "
        "print(os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0))"
    )
    done = subprocess.run(
        [sys.executable, "-c", ask], cwd=ROOT, capture_output=True, text=True, check=True, start_new_session=True
    )
    assert done.stdout in (f"19 {os.SCHED_IDLE}\n", f"19 {os.SCHED_OTHER}\n")


def test_it_is_a_session_of_its_own_that_holds_no_pipe_of_make(checkout: Checkout) -> None:
    checkout.build_by(HANGS)
    checkout.beside()
    checkout.wait_for_log("hangs")
    for pid in checkout.processes():
        assert os.getsid(pid) != os.getsid(0)
        # A process that is just being started holds one of subprocess's own until it runs its program.
        deadline_s = time.monotonic() + 10
        while any(target.startswith("pipe:") for target in held_by(pid)):
            assert time.monotonic() < deadline_s, held_by(pid)
            time.sleep(0.02)


def held_by(pid: int) -> set[str]:
    """Return what the descriptors of a process are open to; one may be closed meanwhile."""
    targets = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            targets.add(os.readlink(each))
    return targets


def test_one_that_failed_is_said_once_and_not_tried_again_with_the_same_sources(checkout: Checkout) -> None:
    checkout.build_by(FAILS)
    assert checkout.beside() == BEGINS
    checkout.wait_until_ended()
    assert "no memory left" in checkout.log
    assert checkout.beside() == FAILED
    assert checkout.beside() == ""
    (checkout.root / SOURCE).write_text("first = 2\n")
    assert checkout.beside() == BEGINS
    checkout.wait_until_ended()
    assert checkout.beside() == FAILED


def test_what_lacks_is_said_once(checkout: Checkout) -> None:
    checkout.build_by(SUCCEEDS)
    said = checkout.beside(CC="/nowhere/cc")
    assert said.startswith("services run plain modules: no C compiler '/nowhere/cc' on PATH: install one")
    assert checkout.beside(CC="/nowhere/cc") == ""
    assert checkout.beside() == BEGINS


def test_one_that_was_killed_leaves_nothing_that_keeps_the_next_from_beginning(checkout: Checkout) -> None:
    checkout.build_by(HANGS)
    checkout.beside()
    checkout.wait_for_log("hangs")
    checkout.kill()
    checkout.build_by(SUCCEEDS)
    assert checkout.beside() == BEGINS
    checkout.wait_until_ended()
    assert checkout.beside() == ""


def test_clean_ends_it_with_all_its_processes_and_the_next_up_begins_another(checkout: Checkout) -> None:
    assert checkout.beside("--stop") == ""
    checkout.build_by(HANGS)
    checkout.beside()
    checkout.wait_for_log("hangs")
    assert checkout.beside("--stop") == "the build of the cores was ended\n"
    checkout.wait_until_ended()
    assert "ended before it was done" in checkout.log
    assert checkout.beside("--stop") == ""
    assert checkout.beside() == BEGINS, "what was ended has not failed"


def test_a_termination_ends_its_children_too(checkout: Checkout) -> None:
    checkout.build_by(HANGS)
    checkout.beside()
    checkout.wait_for_log("hangs")
    (leader,) = [pid for pid in checkout.processes() if os.getsid(pid) == pid and "--holds\0" in _arguments(pid)]
    os.kill(leader, signal.SIGTERM)
    checkout.wait_until_ended()


def _arguments(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def test_it_ends_when_the_checkout_is_deleted(checkout: Checkout) -> None:
    checkout.build_by(HANGS)
    checkout.beside()
    checkout.wait_for_log("hangs")
    shutil.rmtree(checkout.root)
    checkout.wait_until_ended()
    assert not checkout.root.exists()


def test_what_is_asked_for_ends_a_build_beside_a_cluster_and_takes_its_place(checkout: Checkout) -> None:
    checkout.build_by(HANGS)
    checkout.beside()
    checkout.wait_for_log("hangs")
    build = checkout.root / "build"
    with sole_build(build):
        checkout.wait_until_ended()
        assert try_lock(build) is None
    free = try_lock(build)
    assert free is not None
    os.close(free)


def test_a_lock_ends_with_its_last_process(tmp_path: Path) -> None:
    descriptor = try_lock(tmp_path)
    assert descriptor is not None
    assert not should_end(tmp_path, descriptor)
    holder = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[descriptor])
    assert holder.stdin is not None
    os.close(descriptor)
    assert try_lock(tmp_path) is None
    holder.stdin.close()
    holder.wait()
    descriptor = try_lock(tmp_path)
    assert descriptor is not None
    (tmp_path / LOCK).unlink()
    assert should_end(tmp_path, descriptor)
    os.close(descriptor)
