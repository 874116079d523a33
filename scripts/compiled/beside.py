"""Compile the cores beside a running cluster, at idle priority: `make up` begins it once a client can produce.

    python -m scripts.compiled.beside           # begin, unless there is a reason not to
    python -m scripts.compiled.beside --stop    # end what is under way

The build is a session of its own, which outlives `make` and `make down`, for an hour at most. It ends when `make
compiled` or `make clean` wants it to, and when the checkout is deleted. What it needs besides a compiler it installs
itself, into an environment in `build`, since that of a cluster has no mypy. It writes nothing but below `build` and to
the cache of builds.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from barnabas.cores import INTERPRETED, ROOT, VARIABLE, digest, find_build, problem_of
from scripts.compiled.compiler import find_compiler
from scripts.compiled.lock import end_build, should_end, try_lock

BUILD = ROOT / "build"
LOG, FAILED, SAID = "compiled.log", "compiled.failed", "compiled.said"
"""Files there: the build's output, what was last tried in vain, and what was last said of why there is no build."""

SECONDS_MAX = 3600.0
_POLL_SECONDS = 0.25
_ENDED = -1
_OOM_SCORE_ADJ = "800"
"""Where memory lacks, the kernel ends the build, and no service."""


@dataclass(slots=True, frozen=True)
class Circumstances:
    """What decides whether to build."""

    wanted: str
    """BARNABAS_CORES."""
    ci: str
    """CI, which every system of continuous integration sets."""
    is_current: bool
    """Whether a process that starts now can take build/compiled."""
    lacks: str
    """What there is not of a compiler and Python's headers, as a message; empty if both are there."""
    has_failed: bool
    """Whether a build of the same sources has failed."""


@dataclass(slots=True, frozen=True)
class Decision:
    builds: bool
    says: str = ""
    """Why there will be no binary, for users who may want one."""


def decide(found: Circumstances) -> Decision:
    if found.wanted or found.ci or found.is_current:
        return Decision(builds=False)
    if found.lacks:
        return Decision(builds=False, says=f"services run plain modules: {found.lacks.removeprefix('compiled: ')}")
    if found.has_failed:
        return Decision(
            builds=False,
            says=f"services run plain modules: the cores could not be compiled (build/{LOG}); "
            "`make compiled` tries it again",
        )
    return Decision(builds=True)


def circumstances(environment: Mapping[str, str], build: Path = BUILD) -> Circumstances:
    failed = _read(build / FAILED)
    return Circumstances(
        wanted=environment.get(VARIABLE, ""),
        ci=environment.get("CI", ""),
        is_current=not problem_of(find_build([build / "compiled"])),
        lacks=_lacks(),
        has_failed=bool(failed) and failed == _attempt(),
    )


def _lacks() -> str:
    try:
        find_compiler()
    except SystemExit as error:
        return str(error)
    return ""


def _attempt() -> str:
    """Return what a build is made of: one that has failed is not tried again with the same."""
    from scripts.compiled.sources import SEEN  # it loads all codecs, which a current build does not need

    return digest((*SEEN, "scripts/compiled"))


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def begin(build: Path = BUILD) -> None:
    """Begin a build if `decide` says so, and say what `make up` should tell."""
    decision = decide(circumstances(os.environ, build))
    if not decision.builds:
        if decision.says and _read(build / SAID) != decision.says:
            print(decision.says)
            build.mkdir(exist_ok=True)
            (build / SAID).write_text(decision.says)
        return
    descriptor = try_lock(build)
    if descriptor is None:
        print(f"the cores are still being compiled beside the cluster (build/{LOG})")
        return
    (build / SAID).unlink(missing_ok=True)
    with (build / LOG).open("wb") as log:
        subprocess.Popen(
            [sys.executable, "-m", "scripts.compiled.beside", "--holds", str(descriptor)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=ROOT,
            env={**os.environ, VARIABLE: INTERPRETED},
            pass_fds=[descriptor],
            start_new_session=True,
        )
    print(
        f"compiling the cores beside the cluster, at idle priority, some minutes (build/{LOG}); "
        "the next `make up` moves the services onto them one by one"
    )


class Job:
    """The build itself, as a process of its own that holds the lock."""

    def __init__(self, descriptor: int, build: Path = BUILD) -> None:
        self._descriptor = descriptor
        self._build = build
        self._deadline = time.monotonic() + SECONDS_MAX

    def run(self) -> None:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        attempt = _attempt()
        outcome, python = 0, sys.executable
        if importlib.util.find_spec("mypyc") is None:
            outcome, python = self._run(["scripts/setup", "compiler"]), str(self._build / "compiler/bin/python")
        if outcome == 0:
            jobs = max(1, (os.cpu_count() or 1) // 2)
            holds = ["--holds-lock", "--jobs", str(jobs)]
            outcome = self._run([python, "-m", "scripts.compiled", *holds])
        if outcome == 0:
            (self._build / FAILED).unlink(missing_ok=True)
            print("compiled: the next `make up` moves the services onto them", flush=True)
        elif outcome != _ENDED:
            print("compiled: it failed, and is not tried again beside a cluster until a source changes", flush=True)
            (self._build / FAILED).write_text(attempt)

    def _run(self, command: list[str]) -> int:
        """Return the exit code, or _ENDED if it was ended before. This process stays as it is, to see at once that it
        should end, also where all processors are busy.
        """
        child = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHON": sys.executable},
            pass_fds=[self._descriptor],
            start_new_session=True,
            preexec_fn=_give_way,
        )
        if shutil.which("ionice"):
            subprocess.run(["ionice", "-c", "3", "-p", str(child.pid)], check=False)
        try:
            while True:
                try:
                    return child.wait(_POLL_SECONDS)
                except subprocess.TimeoutExpired:
                    if should_end(self._build, self._descriptor) or time.monotonic() > self._deadline:
                        print("compiled: ended before it was done", flush=True)
                        return _ENDED
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()


def _give_way() -> None:
    """Run only when no other process wants to. Each of these is refused somewhere, and then the others have to do."""
    os.nice(19)
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text("19")  # where a session counts as a whole; this is one of its own
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE_ADJ)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compile the cores beside a running cluster.")
    parser.add_argument("--stop", action="store_true", help="end a build that is under way")
    parser.add_argument("--holds", type=int, metavar="DESCRIPTOR", help="build, holding the lock by this descriptor")
    arguments = parser.parse_args()
    if arguments.stop:
        if end_build(BUILD):
            print("the build of the cores was ended")
    elif arguments.holds is not None:
        Job(arguments.holds).run()
    else:
        try:
            begin()
        except OSError as error:
            print(f"the cores can't be compiled beside the cluster: {error}")


if __name__ == "__main__":
    main()
