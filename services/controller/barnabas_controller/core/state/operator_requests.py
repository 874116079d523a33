"""Requests that only operators send to the controller, and their answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class Outcome(Enum):
    DONE = "done"
    NOT_FOUND = "not found"
    # The cluster's state does not allow it; nothing was done.
    REFUSED = "refused"
    TIMED_OUT = "timed out"


@dataclass(slots=True, frozen=True)
class DrainNode:
    """Move leadership off the node; with `move_replicas` move its replicas too."""

    node_id: int
    move_replicas: bool
    timeout_ms: int
    # Only check whether it could be drained.
    validate_only: bool = False


@dataclass(slots=True, frozen=True)
class ReturnNode:
    """Undo a drain. Moves off the node that are in progress are cancelled, unless they are to finish."""

    node_id: int
    let_moves_finish: bool
    timeout_ms: int


@dataclass(slots=True, frozen=True)
class RemoveNode:
    """Remove a logstore that is gone for good."""

    node_id: int
    timeout_ms: int


@dataclass(slots=True, frozen=True)
class PauseBalance:
    """Pause or resume the balance."""

    paused: bool
    timeout_ms: int


OperatorRequest: TypeAlias = DrainNode | ReturnNode | RemoveNode | PauseBalance


@dataclass(slots=True, frozen=True)
class OperatorResponse:
    outcome: Outcome
    # One line that says what to do; empty if it is done.
    message: str = ""
    revision: int = -1
