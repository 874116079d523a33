"""What operators ask of the controller that no member of the cluster asks, and how it is answered."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class Outcome(Enum):
    DONE = "done"
    NOT_FOUND = "not found"
    # The cluster is in no state for it; nothing was done.
    REFUSED = "refused"
    TIMED_OUT = "timed out"


@dataclass(slots=True, frozen=True)
class DrainNode:
    """Other leaders for what it leads; with `move_replicas` other replicas for what it has."""

    node_id: int
    move_replicas: bool
    timeout_ms: int
    # Only say whether it could be.
    validate_only: bool = False


@dataclass(slots=True, frozen=True)
class ReturnNode:
    """Undo a drain. Moves off the node that are under way are called off, unless they are to finish."""

    node_id: int
    let_moves_finish: bool
    timeout_ms: int


@dataclass(slots=True, frozen=True)
class RemoveNode:
    """Forget a logstore that is gone for good."""

    node_id: int
    timeout_ms: int


@dataclass(slots=True, frozen=True)
class PauseBalance:
    """Or resume it."""

    paused: bool
    timeout_ms: int


OperatorRequest: TypeAlias = DrainNode | ReturnNode | RemoveNode | PauseBalance


@dataclass(slots=True, frozen=True)
class OperatorResponse:
    outcome: Outcome
    # One line that says what to do; empty when it is done.
    message: str = ""
    revision: int = -1
