"""Where the partitions of a cluster have been: each change of a replica's part in one, beside what the others did.

Hours of an idle cluster are worth little. What counts is how many different things have happened: a transition is one
replica's change from one state to another while the other logstores were in certain states themselves, whatever the
topic and the offsets. Offsets, times and epochs are left out, or every transition would be another one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas_logstore.core.replica.partition import Partition, PartitionKey

if TYPE_CHECKING:
    from tests.sim.nodes.logstore import LogstoreNode

ABSENT = 0


@dataclass(slots=True)
class Reached:
    """`distinct`: the transitions that were seen, as numbers that are the same in every run of every seed."""

    distinct: set[int] = field(default_factory=set)
    transitions: int = 0
    leader_changes: int = 0
    isr_changes: int = 0


class Transitions:
    def __init__(self) -> None:
        self.reached = Reached()
        # By partition and node id: the state that the replica is in.
        self._states: dict[PartitionKey, dict[int, int]] = {}
        # By partition: the newest leader epoch under which a replica led, and the newest ISR.
        self._leader_epochs: dict[PartitionKey, int] = {}
        self._isrs: dict[PartitionKey, tuple[int, int]] = {}

    def logstore_turned(self, node: LogstoreNode, changed: Iterable[Partition]) -> None:
        """Look at a logstore after its turn: at the replicas of which something has changed."""
        assert node.core is not None
        for partition in changed:
            state = _state_of(partition, waits=bool(node.core._appends.pending_of(partition)))
            states = self._states.get(partition.key)
            if states is None:
                states = self._states[partition.key] = {}
            before = states.get(node.node_id, ABSENT)
            if state != before:
                self._changed(node, partition, states, before, state)

    def logstore_started(self, node: LogstoreNode) -> None:
        """Its replicas are in no state at all, until the controller has said so."""
        for states in self._states.values():
            states.pop(node.node_id, None)

    def _changed(
        self, node: LogstoreNode, partition: Partition, states: dict[int, int], before: int, state: int
    ) -> None:
        others = tuple(sorted((node_id, other) for node_id, other in states.items() if node_id != node.node_id))
        states[node.node_id] = state
        reached = self.reached
        reached.transitions += 1
        reached.distinct.add(hash((node.node_id, before, state, others)))
        if not partition.leading:
            return
        key, epoch = partition.key, partition.leader_epoch
        newest = self._leader_epochs.get(key)
        is_elected = newest is None or epoch > newest
        if is_elected:
            self._leader_epochs[key] = epoch
            reached.leader_changes += newest is not None
            node.scheduler.note(f"{node.name} leads {_name(partition)} in epoch {epoch}, {_isr(partition)}")
        isr = (partition.partition_epoch, _bits(partition.isr.committed))
        known = self._isrs.get(key)
        if known is None or isr[0] > known[0]:
            self._isrs[key] = isr
            if known is not None and known[1] != isr[1]:
                reached.isr_changes += 1
                if not is_elected:
                    node.scheduler.note(f"{node.name} has {_isr(partition)} of {_name(partition)} in epoch {epoch}")


def _state_of(partition: Partition, *, waits: bool) -> int:
    """A replica's part in its partition, as one number: who leads, what it is itself, and who is in sync. `waits`: so
    do appends.
    """
    role = partition.leading | partition.online << 1 | partition.is_stopped << 2 | partition.leader_recovering << 3
    leader = partition.leader_id + 1
    if not partition.leading:
        return 1 | role << 1 | leader << 8
    pending = partition.isr.pending
    asked = 0 if pending is None else 1 | _bits(pending.members) << 1
    waiting = waits | (partition.high_watermark < partition.log.log_end_offset) << 1
    return 1 | role << 1 | leader << 8 | _bits(partition.isr.committed) << 16 | asked << 32 | waiting << 48


def _bits(node_ids: Iterable[int]) -> int:
    bits = 0
    for node_id in node_ids:
        bits |= 1 << node_id
    return bits


def _name(partition: Partition) -> str:
    return f"{partition.topic}-{partition.partition}"


def _isr(partition: Partition) -> str:
    return f"the ISR {sorted(partition.isr.committed)}"
