"""The acceptor spawns its processors as soon as it has started: what only they need is not on the way there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_acceptor_does_not_load_what_serves_requests() -> None:
    look = "import sys, barnabas_gateway.__main__; print('barnabas_gateway.core.processor' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
