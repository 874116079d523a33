"""What a member of the cluster has to say of its own health: conditions, each of a kind that the runbook explains.

A member tells the active controller (`Membership.ReportHealth`), which lists the conditions of all of them for
operators. A condition's text has no value that changes by time alone: a report is made when something has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

CONDITIONS_MAX: Final = 50
"""Of one member."""
NAMED_MAX: Final = 10
"""Of one kind, where there may be one for each partition; the rest is counted."""
TEXT_MAX: Final = 500


class ConditionKind(StrEnum):
    """By the names of the runbook's entries."""

    CLEANER_FAILS = "cleaner-fails"
    UNCLEANABLE_PARTITION = "uncleanable-partition"
    COMPACTION_BEHIND = "compaction-behind"
    OFFLINE_PARTITION = "offline-partition"
    COORDINATOR_NOT_LOADED = "coordinator-not-loaded"
    HANGING_TRANSACTION = "hanging-transaction"
    MARKER_UNDELIVERED = "marker-undelivered"
    CONTAINED_EXCEPTION = "contained-exception"
    PROCESS_RESTARTED = "process-restarted"


NOTICES: Final = frozenset({ConditionKind.CONTAINED_EXCEPTION, ConditionKind.PROCESS_RESTARTED})
"""Kinds that say what has happened and is over; of the others each makes the cluster unhealthy. An exception that was
contained is no problem of the cluster, and any client may be able to bring one about.
"""


@dataclass(slots=True, frozen=True)
class Condition:
    kind: ConditionKind
    text: str

    @property
    def is_problem(self) -> bool:
        return self.kind not in NOTICES


def named(kind: ConditionKind, texts: Sequence[str]) -> list[Condition]:
    """Return a condition for each of the first texts, and one that counts the others."""
    conditions = [Condition(kind, text) for text in texts[:NAMED_MAX]]
    if len(texts) > NAMED_MAX:
        conditions.append(Condition(kind, f"and {len(texts) - NAMED_MAX} more of {kind.value}"))
    return conditions


def bounded(conditions: Iterable[Condition]) -> list[Condition]:
    """Return as many conditions, with as much text, as a report may have."""
    kept = list(conditions)[:CONDITIONS_MAX]
    return [Condition(each.kind, each.text[:TEXT_MAX]) for each in kept]
