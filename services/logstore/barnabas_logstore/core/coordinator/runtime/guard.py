"""What becomes of an unexpected exception in what a coordinator does: its state is in doubt, and its epoch ends."""

from __future__ import annotations

from typing import Protocol

from barnabas.containment import CONTAINING, Place


class Owner(Protocol):
    """Of a state that may be half-changed then."""

    def state_in_doubt(self, place: Place, error: Exception) -> None: ...


class Guard:
    """A block that ends with the first exception in it, which leaves its owner's state in doubt; what is behind the
    block goes on. Raises Uncontained if that can't be noted.
    """

    __slots__ = ("_owner", "_place")

    def __init__(self, owner: Owner, place: Place) -> None:
        self._owner = owner
        self._place = place

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        with CONTAINING:
            self._owner.state_in_doubt(self._place, error)
        return True
