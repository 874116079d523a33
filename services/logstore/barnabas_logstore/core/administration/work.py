"""The work of an administrative call: a generator that does a little and pauses."""

from __future__ import annotations

from collections.abc import Generator
from enum import Enum
from typing import TypeAlias

from barnabas.cluster.administration import AdministrationResponse


class Pause(Enum):
    """Why a call is not answered yet."""

    MORE = "a piece is done: other calls run, then the next piece"
    WAITING = "for a disk, for followers or for its deadline: resumed by `Administration.poke`, as each tick does"


Work: TypeAlias = Generator[Pause, int, AdministrationResponse]
"""Is sent `now_ms` at each resumption; returns the answer."""
