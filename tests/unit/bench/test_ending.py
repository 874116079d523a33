"""A bench that is stopped leaves no cluster behind."""

from __future__ import annotations

import ast
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench.ending import ENDED_BY_SIGTERM

ROOT = Path(__file__).parents[3]

_BENCH = """
import sys, time
from bench.ending import end_in_order

end_in_order()
try:
    print("measuring", flush=True)
    time.sleep(600)
finally:
    print("stopping", flush=True)
    sys.stdin.readline()
    print("stopped", flush=True)
"""


@pytest.mark.parametrize(
    ("ends", "status"), [(signal.SIGTERM, ENDED_BY_SIGTERM), (signal.SIGINT, -signal.SIGINT)], ids=["SIGTERM", "Ctrl-C"]
)
@pytest.mark.parametrize("again", [signal.SIGTERM, signal.SIGINT], ids=["then SIGTERM", "then Ctrl-C"])
def test_what_was_started_is_stopped_though_another_signal_comes(
    ends: signal.Signals, status: int, again: signal.Signals
) -> None:
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", _BENCH]
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as bench:
        assert bench.stdin is not None
        assert bench.stdout is not None
        assert bench.stdout.readline() == "measuring\n"
        bench.send_signal(ends)
        assert bench.stdout.readline() == "stopping\n"
        bench.send_signal(again)
        reported, _ = bench.communicate("\n", timeout=60)
        assert (reported, bench.returncode) == ("stopped\n", status)


def _mains() -> list[Path]:
    """Of every bench that starts clusters, by itself or by what it imports of `bench`."""
    return [path for path in sorted((ROOT / "bench").rglob("*.py")) if _is_started_by_people(path) and _starts(path)]


def _is_started_by_people(path: Path) -> bool:
    return any(
        isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"
        for node in ast.parse(path.read_text()).body
    )


_STARTERS = {"barnabas_cli.local.cluster", "tests.integration.running_cluster", "bench.sides", "bench.failover.trio"}


def _imports(path: Path) -> set[str]:
    return {
        node.module
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module is not None
    }


def _starts(path: Path, seen: frozenset[Path] = frozenset()) -> bool:
    imported = _imports(path)
    if not imported.isdisjoint(_STARTERS):
        return True
    rooms = [ROOT / f"{module.replace('.', '/')}.py" for module in imported if module.startswith("bench.")]
    return any(_starts(room, seen | {path}) for room in rooms if room.exists() and room not in seen)


def test_every_bench_that_starts_clusters_ends_in_order() -> None:
    mains = _mains()
    assert len(mains) >= 8, mains
    forgetful = [str(path.relative_to(ROOT)) for path in mains if "end_in_order()" not in path.read_text()]
    assert forgetful == []
