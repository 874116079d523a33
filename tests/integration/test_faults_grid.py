"""A short grid of real faults on a whole cluster, with a cut where this machine allows network namespaces; and that
nothing of a run is left behind when it is killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from barnabas_cli.local.processes import read_pid_file, session_members

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.deep]

ROOT = Path(__file__).parents[2]
CUT = "isolate-leader"
MORE = "kill-leader,stop-leader,kill-everything"
SECONDS = 8
GRID_SECONDS_MAX = 400
CLEAN_SECONDS_MAX = 60.0


@pytest.mark.timeout(GRID_SECONDS_MAX + 30)
@pytest.mark.parametrize(
    "cells",
    [
        CUT,
        pytest.param(
            MORE,
            marks=pytest.mark.minutes(
                "three faults, each until all is in sync again; test_rolling_kills and test_blackout kill the same "
                "processes, tests/sim stops leaders and cuts links"
            ),
        ),
    ],
)
def test_short_grid(cells: str, tmp_path: Path) -> None:
    done = _play("tests.faults", cells, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    last = re.fullmatch(r"(\d+) cells, lost 0, duplicated 0, reordered 0", done.stdout.splitlines()[-1])
    assert last is not None, done.stdout
    skips_the_cut = CUT in cells and "no network namespaces" in done.stdout
    assert int(last[1]) == len(cells.split(",")) - skips_the_cut
    assert list(tmp_path.glob("barnabas-faults-*")) == []


@pytest.mark.timeout(GRID_SECONDS_MAX + 30)
def test_transactions_while_their_coordinator_is_killed(tmp_path: Path) -> None:
    done = _play("tests.faults.transactions", "kill-coordinator", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith(
        "1 cells with transactions, lost 0, doubled 0, dirty 0, other anomalies 0"
    )


@pytest.mark.timeout(GRID_SECONDS_MAX)
def test_nothing_outlives_a_run_that_is_killed(tmp_path: Path) -> None:
    run = subprocess.Popen(
        [sys.executable, "-m", "tests.faults", "--cells", "kill-leader"],
        cwd=ROOT,
        env=_environment(tmp_path),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None
    lines = iter(run.stdout.readline, "")
    try:
        assert any(line.startswith("started in") for line in lines)
        (directory,) = tmp_path.glob("barnabas-faults-*")
        identities = list(filter(None, map(read_pid_file, (directory / "run").glob("*.pid"))))
        assert all(map(session_members, identities))
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait()
        run.stdout.close()

    deadline = time.monotonic() + CLEAN_SECONDS_MAX
    while directory.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not directory.exists()
    assert not any(map(session_members, identities))
    assert list(Path("/run/netns").glob(f"bf{directory.name[-8:]}-*")) == []
    assert str(directory) not in Path("/proc/mounts").read_text()


def _play(module: str, cells: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run these cells for a short time each."""
    argv = ["--cells", cells, "--seconds", str(SECONDS), "--keep", str(directory / "kept")]
    return subprocess.run(
        [sys.executable, "-m", module, *argv],
        cwd=ROOT,
        env=_environment(directory),
        capture_output=True,
        text=True,
        timeout=GRID_SECONDS_MAX,
        check=False,
    )


def _environment(directory: Path) -> dict[str, str]:
    """Everything that a run makes is made below the directory."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(directory)}
