"""What a test has brought about at places outside of the cores."""

from __future__ import annotations

from barnabas.containment import Place
from barnabas.runtime.contained import CONTAINED


class Counted:
    """Exceptions contained since this was created."""

    def __init__(self) -> None:
        self._before = CONTAINED.counts()

    def at(self, place: Place) -> int:
        return CONTAINED.counts().get(place.name, 0) - self._before.get(place.name, 0)
