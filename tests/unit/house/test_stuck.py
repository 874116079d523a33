"""A test that can't be ended by an exception is named and shown, and the others run on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    ("fixture", "body"),
    [("", "for_ever()"), ("never_torn_down", "pass"), ("never_torn_down", "assert False")],
    ids=["its call", "its end", "the end of one that has failed"],
)
def test_a_stuck_test_costs_its_worker_and_is_named(tmp_path: Path, fixture: str, body: str) -> None:
    (tmp_path / "test_it.py").write_text(HANGS.format(fixture=fixture, body=body))
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
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 1, ended.stdout
    assert "crashed while running 'test_it.py::test_stuck'" in ended.stdout
    passed = 3 if (fixture, body) == ("never_torn_down", "pass") else 2
    assert f"{passed} passed" in ended.stdout
    assert "in for_ever" in ended.stderr
