"""How a fault is planted: something of ours is another from now on, in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Plant: TypeAlias = Callable[[], None]


def replace(owner: Any, name: str, mutation: Any) -> None:
    assert name in vars(owner), f"{owner} has no {name} of its own any more"
    setattr(owner, name, mutation)
