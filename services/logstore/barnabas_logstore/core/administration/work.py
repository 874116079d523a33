"""How a room of administration works: a generator that does a little and pauses."""

from __future__ import annotations

from collections.abc import Generator
from enum import Enum
from typing import TypeAlias

from barnabas.cluster.administration import AdministrationResponse


class Pause(Enum):
    """Why a call is not answered yet."""

    MORE = "a piece is done: others have their turn, then the next piece"
    WAITING = "for a disk, for followers or for its deadline: resumed by `Administration.poke`, as each tick does"


Work: TypeAlias = Generator[Pause, int, AdministrationResponse]
"""Sent `now_ms` at each resumption; its return value is the answer."""
