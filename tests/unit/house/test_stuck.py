"""A test that can't be ended by an exception is named and shown, and the others run on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
HANGS = """
import threading, time
import pytest

def for_ever():
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass

@pytest.fixture
def never_torn_down():
    yield
    for_ever()

def test_before():
    pass

def test_stuck({fixture}):
    {body}

def test_after():
    pass
"""


STUCK = {
    "call": ("", "for_ever()"),
    "end": ("never_torn_down", "pass"),
    "end_of_one_that_has_failed": ("never_torn_down", "assert False"),
}


def test_a_stuck_test_costs_its_worker_and_is_named(tmp_path: Path) -> None:
    """In its call, at its end, and at the end of one that has failed."""
    for name, (fixture, body) in STUCK.items():
        (tmp_path / f"test_{name}.py").write_text(HANGS.format(fixture=fixture, body=body))
    (tmp_path / "pytest.ini").write_text("[pytest]\ntimeout = 1\nstuck_grace_s = 1\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.stuck",
        "-c",
        tmp_path / "pytest.ini",
        "-q",
        "-n",
        "1",
        tmp_path,
    ]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=100)
    assert ended.returncode == 1, ended.stdout
    for name in STUCK:
        assert f"crashed while running 'test_{name}.py::test_stuck'" in ended.stdout
    assert "7 passed" in ended.stdout, "those before and after each, and the call of one that is stuck at its end"
    assert ended.stderr.count("in for_ever") == len(STUCK)
