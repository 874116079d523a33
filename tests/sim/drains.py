"""Drains, as etcd has them: what a controller may decide while logstores are drained, looked at as it is committed.

A drain is begun only where the logstore could stop at that moment: without it, and without all others that are drained,
each partition that it is in sync for keeps an ISR that is at its minimum. While it is drained it gets no leader that
another member of the ISR could be, and no replica. What is owed at the end, that it leads and has nothing any more,
the last act asks for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum

from barnabas.cluster.keys import PartitionRecord
from barnabas.cluster.messages import NO_LEADER
from barnabas.cluster.operation_records import DrainRecord
from tests.sim.history import Partition, name
from tests.sim.scheduler import InvariantViolation


class DrainStep(Enum):
    """What drains have come to: counted, for a rule that is never tried is not held."""

    DRAINED = "logstores drained"
    TO_BE_EMPTIED = "logstores drained with their replicas"
    LED_AWAY = "leaders that a drain gave to another"
    MOVED_OFF = "replicas that a drain moved to another logstore"
    RETURNED = "logstores returned"


class DrainRules:
    def __init__(self) -> None:
        self._drains: dict[int, DrainRecord] = {}
        self.reached: Counter[DrainStep] = Counter()

    @property
    def node_ids(self) -> list[int]:
        """Who is drained."""
        return sorted(self._drains)

    def drained(self, drain: DrainRecord, existing: Iterable[tuple[Partition, PartitionRecord, int]]) -> None:
        """`existing`: every partition that there is, with its topic's `min.insync.replicas`."""
        node_id = drain.node_id
        self._drains[node_id] = drain
        self.reached[DrainStep.DRAINED] += 1
        if drain.move_replicas:
            self.reached[DrainStep.TO_BE_EMPTIED] += 1
            return
        for key, record, min_isr in existing:
            if node_id not in record.in_sync_replicas:
                continue
            staying = set(record.in_sync_replicas).difference(self._drains)
            needed = max(1, min(min_isr, len(record.replicas) - len(record.adding_replicas)))
            if len(staying) < needed:
                raise InvariantViolation(
                    f"drain: {node_id} is drained, {name(key)} needs {needed} in sync and keeps {sorted(staying)}: "
                    f"{record}, drained {sorted(self._drains)}"
                )

    def returned(self, node_id: int) -> None:
        del self._drains[node_id]
        self.reached[DrainStep.RETURNED] += 1

    def decided(self, key: Partition, before: PartitionRecord | None, record: PartitionRecord) -> None:
        """A partition's next state."""
        if not self._drains:
            return
        self._check_leader(key, before, record)
        former = before.replicas if before is not None else ()
        gained = [each for each in record.replicas if each in self._drains and each not in former]
        if gained:
            raise InvariantViolation(f"drain: {gained[0]} gets a replica of {name(key)}, and is drained: {record}")
        if before is not None:
            self._count(before, record)

    def _check_leader(self, key: Partition, before: PartitionRecord | None, record: PartitionRecord) -> None:
        led_before = (NO_LEADER, -1) if before is None else (before.leader, before.leader_broker_epoch)
        is_elected = record.leader != NO_LEADER and (record.leader, record.leader_broker_epoch) != led_before
        if is_elected and record.leader in self._drains and not set(record.in_sync_replicas) <= self._drains.keys():
            raise InvariantViolation(
                f"drain: {record.leader} is elected for {name(key)}, and is drained, unlike others in sync: {record}"
            )

    def _count(self, before: PartitionRecord, record: PartitionRecord) -> None:
        leader = before.leader
        is_led_away = leader in self._drains and record.leader != leader and leader in record.in_sync_replicas
        if is_led_away:
            self.reached[DrainStep.LED_AWAY] += 1
        for node_id, drain in self._drains.items():
            was_leaving = drain.move_replicas and node_id in before.removing_replicas
            if was_leaving and node_id not in record.replicas:
                self.reached[DrainStep.MOVED_OFF] += 1
