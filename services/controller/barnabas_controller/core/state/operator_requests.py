"""Requests that only operators send to the controller, and their answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class Outcome(Enum):
    DONE = "done"
    # The request can't be met in any state of the cluster.
    INVALID = "invalid"
    NOT_FOUND = "not found"
    # The cluster's state does not allow it; nothing was done.
    REFUSED = "refused"
    TIMED_OUT = "timed out"


class RequestRefused(Exception):  # noqa: N818  (an answer on its way to the one place that gives it)
    """What is asked for can't be done, with one line that says why and what to do."""

    def __init__(self, outcome: Outcome, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.message = message


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
