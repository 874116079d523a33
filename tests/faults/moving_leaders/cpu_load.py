"""Load on the processors that comes and goes: `python -m tests.faults.moving_leaders.cpu_load SEED`, one loop.

It is busy and idle in turn, for times that the seed decides, until standard input ends.
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from typing import Final

from barnabas_cli.local.services import service_environment

LOOPS: Final = 2
_TURN_SECONDS: Final = (0.1, 3.0)


def cpu_load(seed: int) -> ExitStack:
    """LOOPS of them, until the context is left."""
    stack = ExitStack()
    for number in range(LOOPS):
        loop = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "tests.faults.moving_leaders.cpu_load", str(seed * LOOPS + number)],
                stdin=subprocess.PIPE,
                env=service_environment(),
                start_new_session=True,
            )
        )
        assert loop.stdin is not None
        stack.callback(loop.stdin.close)
    return stack


def _main(seed: int) -> None:
    ended = threading.Event()

    def wait_for_end_of_input() -> None:
        sys.stdin.buffer.read()
        ended.set()

    threading.Thread(target=wait_for_end_of_input, daemon=True).start()
    chance = random.Random(seed)
    while not ended.wait(chance.uniform(*_TURN_SECONDS)):
        busy_until = time.monotonic() + chance.uniform(*_TURN_SECONDS)
        while time.monotonic() < busy_until and not ended.is_set():
            sum(range(10_000))


if __name__ == "__main__":
    _main(int(sys.argv[1]))
