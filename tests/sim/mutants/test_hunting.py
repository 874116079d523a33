"""A named test sees a mutant when it fails, and in no other way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def failure_of(tmp_path: Path, body: str, name: str = "test_it") -> subprocess.CompletedProcess[str]:
    """In a process of its own: pytest doesn't run within pytest."""
    path = tmp_path / "test_named.py"
    path.write_text(body)
    code = f"from tests.sim.mutants.hunting import failure_of; print(repr(failure_of({str(path) + '::' + name!r})))"
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_test_that_passes_has_seen_nothing(tmp_path: Path) -> None:
    assert failure_of(tmp_path, "def test_it():\n    pass\n").stdout == "''\n"


def test_a_failure_is_reported_with_its_place(tmp_path: Path) -> None:
    found = failure_of(tmp_path, "def test_it():\n    assert 1 == 2, 'so it is seen'\n").stdout
    assert "so it is seen" in found
    assert "(test_named.py:2)" in found


def test_a_test_that_is_not_there_or_is_skipped_is_no_verdict(tmp_path: Path) -> None:
    absent = failure_of(tmp_path, "def test_it():\n    pass\n", "test_another")
    skipped = failure_of(tmp_path, "import pytest\n\n\ndef test_it():\n    pytest.skip('not here')\n")
    assert (absent.returncode, absent.stdout) == (1, "")
    assert (skipped.returncode, skipped.stdout) == (1, "")
    assert "nothing of" in skipped.stderr


def test_every_mutant_finds_what_it_breaks() -> None:
    """One whose target has another name by now would end a whole run of them, at the end of an hour."""
    code = "from tests.sim.mutants import MUTANTS\nfor each in MUTANTS.values():\n    each.plant()\n"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
