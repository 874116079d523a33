"""How long tests take: a plugin of pytest that saves it in `tests/durations.tsv`, and what reads that ledger.

`make durations` measures the whole of `make test`. The ledger has every module, and each case that takes over a second.
A case of `make test` that does so needs a reason in `tests/durations-reasons.tsv`, for itself or for its module.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

import pytest

CASE_SECONDS_MAX = 1.0
LEDGER = Path(__file__).with_name("durations.tsv")
REASONS = Path(__file__).with_name("durations-reasons.tsv")


def read_ledger(path: Path = LEDGER) -> dict[str, float]:
    """Return the seconds by module (`tests/a.py`) and by case (`tests/a.py::test_b[1]`)."""
    seconds = {}
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            took, _, name = line.partition("\t")
            seconds[name] = float(took)
    return seconds


def read_reasons() -> dict[str, str]:
    """Return the reasons by module, or by case without its parameters."""
    return dict(line.split("\t", 1) for line in REASONS.read_text().splitlines() if not line.startswith("#"))


def reason_of(case: str, reasons: dict[str, str]) -> str | None:
    """Return why a case may take over a second, or None."""
    return reasons.get(case.partition("[")[0], reasons.get(case.partition("::")[0]))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--ledger-of",
        choices=("wall", "cpu"),
        default="wall",
        help="what the ledger of durations has: wall seconds, or on a busy machine CPU seconds, without the waits",
    )


def _cpu_s() -> float:
    """Of this process and of those of its children that have ended."""
    children = getrusage(RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


class Durations:
    """Measures in each process that runs tests, and adds up in the one that reports."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._seconds: Counter[str] = Counter()
        self._cpu_before_s = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Iterator[None]:
        self._cpu_before_s = _cpu_s()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Iterator[None]:
        report = yield
        now_s = _cpu_s()
        report.cpu_s = now_s - self._cpu_before_s
        self._cpu_before_s = now_s
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        seconds = report.cpu_s if self._config.getoption("--ledger-of") == "cpu" else report.duration
        self._seconds[report.nodeid] += seconds
        self._seconds[report.nodeid.partition("::")[0]] += seconds

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Replace what was measured again, and keep the rest of the ledger."""
        if hasattr(self._config, "workerinput"):
            return
        modules = {name for name in self._seconds if "::" not in name}
        kept = {} if not LEDGER.exists() else read_ledger()
        kept = {name: seconds for name, seconds in kept.items() if name.partition("::")[0] not in modules}
        measured = {
            name: seconds for name, seconds in self._seconds.items() if name in modules or seconds > CASE_SECONDS_MAX
        }
        kind = "CPU seconds, without waits," if self._config.getoption("--ledger-of") == "cpu" else "Seconds"
        lines = [f"# {kind} of modules, and of cases over {CASE_SECONDS_MAX:.0f} s: `make durations` writes this file."]
        lines += [f"{seconds:.1f}\t{name}" for name, seconds in sorted({**kept, **measured}.items())]
        LEDGER.write_text("\n".join(lines) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Durations(config))
