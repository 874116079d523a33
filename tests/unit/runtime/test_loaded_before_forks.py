"""A service forks its first children when their code is loaded and no thread runs: with a thread it would not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("service", "code_of_child"),
    [
        ("barnabas_gateway", "barnabas_gateway.core.processor"),
        ("barnabas_logstore", "barnabas_logstore.control"),
    ],
)
def test_code_of_children_is_loaded_without_a_thread(service: str, code_of_child: str) -> None:
    look = f"import os, sys, {service}.__main__; print({code_of_child!r} in sys.modules, os.listdir('/proc/self/task'))"
    done = subprocess.run([sys.executable, "-c", look], cwd=ROOT, capture_output=True, text=True, check=True)
    is_loaded, tasks = done.stdout.split(maxsplit=1)
    assert is_loaded == "True"
    assert tasks.count("'") == 2, f"threads run before the fork: {tasks}"
