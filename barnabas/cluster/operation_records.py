"""Operators' requests that the controller stores, and the history of controllers.

/barnabas/operations/drains/<id>            DrainRecord: there while the logstore is drained, or on the way to it
/barnabas/operations/balance                BalanceRecord: there while preferred leaders are not elected by themselves
/barnabas/operations/controller_history     ControllerHistoryRecord, put by the Txn that claims the election
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

TERMS_MAX: Final = 100
"""The number of controllers in the history."""


class OperationKeys:
    """The keys in this directory, which ends with a slash."""

    __slots__ = ("balance", "controller_history", "directory", "drains")

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.drains = directory + "drains/"
        self.balance = directory + "balance"
        self.controller_history = directory + "controller_history"

    def drain(self, node_id: int) -> str:
        return f"{self.drains}{node_id}"

    def kind_of(self, key: str) -> type[DrainRecord] | type[BalanceRecord] | type[ControllerHistoryRecord] | None:
        """Return what the key stands for; None: unknown to this version."""
        if key.startswith(self.drains):
            return DrainRecord
        return {self.balance: BalanceRecord, self.controller_history: ControllerHistoryRecord}.get(key)

    def key_of(self, record: OperationRecord) -> str:
        match record:
            case DrainRecord():
                return self.drain(record.node_id)
            case BalanceRecord():
                return self.balance
            case ControllerHistoryRecord():
                return self.controller_history


@dataclass(slots=True, frozen=True)
class DrainRecord:
    node_id: int
    # All of its replicas are moved too; otherwise it leads nothing, and stays in sync.
    move_replicas: bool
    # Wall clock time.
    since_ms: int


@dataclass(slots=True, frozen=True)
class BalanceRecord:
    """The balance of leaders is paused. Wall clock time."""

    paused_since_ms: int


@dataclass(slots=True, frozen=True)
class ControllerTermRecord:
    controller_epoch: int
    controller_id: str
    address: str
    # Wall clock time of the claim, by the claimer.
    since_ms: int


@dataclass(slots=True, frozen=True)
class ControllerHistoryRecord:
    """The last terms in order, at most TERMS_MAX."""

    terms: tuple[ControllerTermRecord, ...] = ()

    def followed_by(self, term: ControllerTermRecord) -> ControllerHistoryRecord:
        return ControllerHistoryRecord((*self.terms, term)[-TERMS_MAX:])


OperationRecord: TypeAlias = DrainRecord | BalanceRecord | ControllerHistoryRecord
