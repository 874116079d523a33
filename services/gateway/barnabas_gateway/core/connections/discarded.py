"""What long requests leave behind, freed a little in each turn.

The last reference to a request of 100,000 elements frees all of them at once, in a turn of 50 ms. So it is kept here
instead, and taken apart from above: an object's parts are kept before the object itself is freed, which then frees
nothing else. What anything else still refers to is left to that.

This reads the reference counts of CPython (`sys.getrefcount`, `gc.get_referents`). It changes no object: where it takes
something for shared that is not, that is freed at once as it would be without it.
"""

from __future__ import annotations

import gc
import sys
from typing import Any, Final

_PARTS_PER_OBJECT: Final = 8
"""So many parts that are looked at cost what freeing one object costs."""


def _count_own_references() -> int:
    """What `sys.getrefcount` says of an object that only a local variable refers to: 2, or from Python 3.14 on 1."""
    each = object()
    return sys.getrefcount(each)


_OWN_REFERENCES: Final = _count_own_references()


class Discarded:
    __slots__ = ("_objects",)

    def __init__(self) -> None:
        self._objects: list[Any] = []

    def add(self, what: object) -> None:
        """Free this in later turns, if nothing else refers to it then."""
        self._objects.append(what)

    def has_work(self) -> bool:
        return len(self._objects) > 0

    def free(self, objects_max: int) -> None:
        """Free so many objects, or all."""
        objects = self._objects
        left = objects_max
        while objects and left > 0:
            each = objects.pop()
            left -= 1
            if sys.getrefcount(each) == _OWN_REFERENCES:
                parts = gc.get_referents(each)
                # What is not tracked (text, numbers) has no parts, and goes with the object.
                objects.extend(filter(gc.is_tracked, parts))
                left -= len(parts) // _PARTS_PER_OBJECT
                del parts
