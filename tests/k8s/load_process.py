"""The load of `tests.k8s.load` as a process of its own, and what it reports."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
_FAULTS = ("lost", "duplicated", "unseen", "errors")


@dataclass
class Report:
    """What a load reports; `problems` is empty when clients noticed nothing."""

    figures: dict[str, Any]

    @property
    def problems(self) -> list[str]:
        seen = {name: self.figures[name] for name in _FAULTS}
        return [f"{name}: {len(cases)} ({cases[:3]})" for name, cases in seen.items() if cases]

    def __str__(self) -> str:
        figures = self.figures
        retried = ", ".join(f"{name} {count}" for name, count in sorted(figures["retried"].items())) or "none"
        return (
            f"{figures['acknowledged']} of {figures['produced']} records acknowledged; lost {len(figures['lost'])}, "
            f"twice in the log {len(figures['duplicated'])}, unseen by the group {len(figures['unseen'])}, "
            f"errors {len(figures['errors'])}; delivered again to the group {figures['redelivered']}, "
            f"errors that the clients recovered from: {retried}; "
            f"longest time without an acknowledgement {figures['longest_silence_s']} s"
        )


@contextmanager
def running_load(bootstrap: str, topic: str, prefix: Sequence[str] = ()) -> Generator[list[Report]]:
    """Run clients that never stop while the block runs; the one report is there afterwards.

    `prefix` is the command that runs another one where the brokers are reached.
    """
    command = [*prefix, sys.executable, "-m", "tests.k8s.load", bootstrap, topic]
    pipe = subprocess.PIPE
    reports: list[Report] = []
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=_ROOT) as process:
        try:
            time.sleep(5)
            yield reports
            time.sleep(3)
            output, errors = process.communicate("", timeout=400)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise AssertionError(f"the load failed: {errors[-600:]}")
    reports.append(Report(json.loads(output)))


def clean(reports: list[Report]) -> str:
    """Return the report in words. Raises AssertionError: something was lost, doubled, unseen or refused."""
    (report,) = reports
    assert report.figures["acknowledged"] > 0
    assert not report.problems, f"{'; '.join(report.problems)}; {report}"
    return str(report)
