"""How a bench ends early: on SIGTERM or Ctrl-C it stops what it has started, as it does at its end."""

from __future__ import annotations

import signal
import sys
from types import FrameType

ENDED_BY_SIGTERM = 128 + signal.SIGTERM
"""The exit status, as a shell has it of who is killed by that signal."""


def end_in_order() -> None:
    """Make SIGTERM and Ctrl-C leave every `with` and `finally` of the main thread. Programs that start clusters call
    this first: clusters are separate sessions, and would not be stopped otherwise.
    """
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, _end)


def _end(number: int, frame: FrameType | None) -> None:
    # The one who asks again, as `timeout` and impatient people do, must not cut the stopping short. To be ignored would
    # pass on to processes that are started meanwhile; a handler does not.
    signal.signal(signal.SIGTERM, _go_on)
    signal.signal(signal.SIGINT, _go_on)
    print("asked to end: stopping what was started", file=sys.stderr, flush=True)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(ENDED_BY_SIGTERM)


def _go_on(number: int, frame: FrameType | None) -> None:
    """It is being stopped already."""
