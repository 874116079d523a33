"""A group of ten through a restart of one process of each role; `make rolling-groups` restarts all of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.deep]

ROOT = Path(__file__).parents[2]
RUN_SECONDS_MAX = 500
RESTARTS = 5
RECORDS_MIN = 1000


@pytest.mark.timeout(RUN_SECONDS_MAX + 30)
@pytest.mark.parametrize(
    "how",
    [
        pytest.param(
            (),
            id="stopped",
            marks=pytest.mark.minutes(
                "five restarts, each until the group has gone on; killed, the same processes do more harm in "
                "test_rolling_groups itself"
            ),
        ),
        pytest.param(("--kill",), id="killed"),
    ],
)
def test_no_record_is_skipped(how: tuple[str, ...], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.rolling_groups", "--short", "--times", "1", *how],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    last = re.fullmatch(
        r"(\d+) restarts, (\d+) acknowledged, lost 0, duplicated 0; read (\d+) times in \d+ generations, (\d+) of them "
        r"again; skipped 0, jumped 0, repeated 0, two owners 0, old generation 0, unowned 0, diverged 0",
        done.stdout.splitlines()[-1],
    )
    assert last is not None, done.stdout
    restarts, acknowledged, reads, again = map(int, last.groups())
    assert restarts == RESTARTS
    assert reads - again >= acknowledged >= RECORDS_MIN
