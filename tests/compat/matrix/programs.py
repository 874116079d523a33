"""Runs one program of the matrix and reads what it says; `tests.compat.matrix.python.checks` has the lines."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Report:
    """What a client has shown, or why it was not asked."""

    version: str = ""
    results: dict[str, str] = field(default_factory=dict)
    """Capability to the reason of its failure; empty where it works."""
    lacking: list[str] = field(default_factory=list)
    """What the client has no call for, where its program says so."""
    skipped: str = ""
    seconds: int = 0

    @property
    def failed(self) -> dict[str, str]:
        return {capability: why for capability, why in self.results.items() if why}


def run_program(argv: list[str], cwd: Path, log: Path, seconds_max: int, environment: dict[str, str]) -> Report:
    """Run it to its end, or until its time is over; nothing that it has started outlives it."""
    begin = time.monotonic()
    code = run_logged(argv, cwd, log, seconds_max, environment)
    if code is None:
        end = f"the program was not done after {seconds_max} s"
    else:
        end = f"the program ended with {code} before it came to this"
    report = read_report(log.read_text(errors="replace").splitlines(), end)
    report.seconds = round(time.monotonic() - begin)
    return report


def run_logged(argv: list[str], cwd: Path, log: Path, seconds_max: float, environment: dict[str, str]) -> int | None:
    """Return the exit code, or None if its time was over before. What it writes is in `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        try:
            return process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _kill_session(process)


def read_report(lines: list[str], end: str) -> Report:
    """`end` is why what was planned and never reported has failed."""
    report = Report()
    for line in lines:
        word, _, rest = line.partition(" ")
        match word:
            case "version":
                report.version = rest
            case "lacks":
                report.lacking = rest.split()
            case "plan":
                report.results = dict.fromkeys(rest.split(), end)
            case "ok" if rest in report.results:
                report.results[rest] = ""
            case "failed" if rest.partition(":")[0] in report.results:
                capability, _, why = rest.partition(":")
                report.results[capability] = why.strip() or "no reason given"
            case _:
                pass
    if not report.results:
        last = next((line for line in reversed(lines) if line.strip()), "it said nothing")
        report.results = {"start": f"no plan; its last line: {last[:300]}"}
    return report


def _kill_session(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
