"""What is committed in one partition of `__consumer_offsets`, read independently of any coordinator.

Every record is looked at once, when a watermark has passed it. Answers to a group's members may contain only that, and
it must be consistent in itself: an owner for each partition of a generation, generations that grow, offsets that only
members of their generation have committed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

from barnabas.wire.markers import COMMIT, control_type_of
from barnabas.wire.record_batch import decode_payload
from barnabas_logstore.core.coordinator.groups.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    read_record,
)
from tests.sim.elections import Shortages
from tests.sim.groups.assignments import TopicPartition, scan_assignment
from tests.sim.replica_logs import Batch
from tests.sim.scheduler import InvariantViolation

NO_GENERATION = 0


class Commit(NamedTuple):
    """As a client has sent it; its id is what it wrote as metadata, and in no other commit."""

    offset: int
    member_id: str
    generation_id: int


CommitKey = tuple[str, str, int, str]
"""Group, topic, partition, and the commit's id."""


class Change(NamedTuple):
    """Of a committed offset; `commit_id` None: it is deleted."""

    at: int
    commit_id: str | None


class Generation(NamedTuple):
    """As it is stored; `number` NO_GENERATION: the group is deleted. `assignments` are by member id. `shortages_over`:
    so many of the log's shortages were over when it was committed.
    """

    at: int
    number: int
    assignments: dict[str, bytes]
    shortages_over: int


@dataclass(slots=True)
class GroupLog:
    """Of one group, in the order of the log."""

    changes: dict[TopicPartition, list[Change]] = field(default_factory=dict)
    generations: list[Generation] = field(default_factory=list)
    owners: dict[tuple[int, TopicPartition], str] = field(default_factory=dict)
    """By generation and partition, since the group was made: a group instance id, or that of a dynamic member."""
    seen: dict[tuple[TopicPartition, str], None] = field(default_factory=dict)

    @property
    def generation(self) -> Generation:
        return self.generations[-1] if self.generations else Generation(-1, NO_GENERATION, {}, 0)

    def cut(self, end: int) -> None:
        for changes in self.changes.values():
            del changes[bisect_left(changes, (end,)) :]
        del self.generations[bisect_left(self.generations, (end,)) :]
        # Numbers are given again, and commits are no more where they were.
        self.owners.clear()
        self.seen.clear()


class OffsetsLog:
    """`sent` are all commits of all clients; `may_go` tells whether a group's offset of a topic may be deleted;
    `shortages`, how often the log could refuse records for want of replicas in sync.
    """

    def __init__(
        self,
        name: str,
        sent: dict[CommitKey, Commit],
        may_go: Callable[[str, str], bool],
        shortages: Callable[[], Shortages],
    ) -> None:
        self._name = name
        self._sent = sent
        self._may_go = may_go
        self._shortages = shortages
        self.end = 0
        self.cuts: list[int] = []
        """Where it has been cut, each time: records were lost that may be."""
        self._groups: dict[str, GroupLog] = {}
        self._lost: dict[CommitKey, None] = {}
        self._pending: dict[int, list[CommitKey]] = {}
        """By producer id: what counts when its transaction commits."""

    def of(self, group_id: str) -> GroupLog:
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = GroupLog()
        return group

    # --- what becomes of it -------------------------------------------------------------------------------------------

    def add(self, batches: Iterable[Batch]) -> None:
        """They are committed."""
        for batch in batches:
            if batch.header.is_control:
                self._end_transaction(batch)
                continue
            for record in decode_payload(batch.header, batch.payload):
                entry = read_record(record.key, record.value)
                assert entry is not None, "there are classic groups only"
                key, value = entry
                if isinstance(key, OffsetCommitKey):
                    assert not isinstance(value, GroupMetadataValue)
                    if batch.header.is_transactional:
                        self._add_pending(record.offset, batch.header.producer_id, key, value)
                    else:
                        self._add_offset(record.offset, key, value)
                else:
                    assert not isinstance(value, OffsetCommitValue)
                    self._add_group(record.offset, key, value)
            self.end = batch.next_offset

    def _add_pending(self, at: int, producer_id: int, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        """It counts when the transaction commits. A client that got no answer may have sent it twice."""
        if value is None:
            self._fail(at, f"{key} is deleted within a transaction")
        commit = self._sent_as(at, key, value)
        self._check_committer(at, key, commit, self.of(key.group).generation)
        self._pending.setdefault(producer_id, []).append((key.group, key.topic, key.partition, value.metadata))

    def _end_transaction(self, batch: Batch) -> None:
        (record,) = decode_payload(batch.header, batch.payload)
        pending = self._pending.pop(batch.header.producer_id, [])
        if control_type_of(record.key) != COMMIT:
            return
        for group_id, topic, number, commit_id in dict.fromkeys(pending):
            group, partition = self.of(group_id), (topic, number)
            if (partition, commit_id) in group.seen:
                self._fail(record.offset, f"commit {commit_id!r} of {group_id} for {partition} counts twice")
            group.seen[partition, commit_id] = None
            group.changes.setdefault(partition, []).append(Change(record.offset, commit_id))

    def cut(self, end: int) -> None:
        """What is there from `end` on is lost, as it may be."""
        self.cuts.append(end)
        self.end = min(self.end, end)
        for group_id, group in self._groups.items():
            for (topic, partition), changes in group.changes.items():
                for change in changes[bisect_left(changes, (end,)) :]:
                    if change.commit_id is not None:
                        self._lost[group_id, topic, partition, change.commit_id] = None
            group.cut(end)

    def _add_offset(self, at: int, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        group, partition = self.of(key.group), (key.topic, key.partition)
        changes = group.changes.setdefault(partition, [])
        if value is None:
            if not self._may_go(key.group, key.topic):
                self._fail(at, f"{key} is deleted, and no client has asked for that")
            changes.append(Change(at, None))
            return
        commit = self._sent_as(at, key, value)
        if (partition, value.metadata) in group.seen:
            self._fail(at, f"commit {value.metadata!r} of {key} is there twice")
        group.seen[partition, value.metadata] = None
        self._check_committer(at, key, commit, group.generation)
        changes.append(Change(at, value.metadata))

    def _sent_as(self, at: int, key: OffsetCommitKey, value: OffsetCommitValue) -> Commit:
        commit = self._sent.get((key.group, key.topic, key.partition, value.metadata))
        if commit is None or commit.offset != value.offset:
            self._fail(at, f"{key} is {value}, and no client has committed that; sent was {commit}")
        return commit

    def _check_committer(self, at: int, key: OffsetCommitKey, commit: Commit, generation: Generation) -> None:
        """A member commits in its own generation, or a client from outside while there are no members."""
        is_member = commit.generation_id == generation.number and commit.member_id in generation.assignments
        is_outside = commit.generation_id < 0 and not generation.assignments
        # Records were lost that may be: the coordinator knew of a generation that is known nowhere else.
        if not is_member and not is_outside and not self.cuts:
            self._fail(at, f"{key} is committed by {commit} in {generation}")

    def _add_group(self, at: int, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        group = self.of(key.group)
        before = group.generation
        if value is None:
            # An empty generation that the log refuses is not stored, and not tried again, as in Kafka.
            if before.assignments and self._shortages().begun == before.shortages_over:
                self._fail(at, f"{key.group} is deleted, and has members: {before}")
            group.owners.clear()
            group.generations.append(Generation(at, NO_GENERATION, {}, self._shortages().over))
            return
        if value.generation < before.number:
            self._fail(at, f"{key.group} goes from generation {before.number} back to {value.generation}")
        for member in value.members:
            owner = member.group_instance_id or member.member_id
            for partition in scan_assignment(bytes(member.assignment)):
                first = group.owners.setdefault((value.generation, partition), owner)
                if first != owner:
                    self._fail(at, f"{partition} is {first}'s and {owner}'s in generation {value.generation}")
        assignments = {member.member_id: bytes(member.assignment) for member in value.members}
        group.generations.append(Generation(at, value.generation, assignments, self._shortages().over))

    def _fail(self, at: int, what: str) -> NoReturn:
        raise InvariantViolation(f"I13: {self._name} at {at}: {what}")

    # --- permitted answers
    # ---------------------------------------------------------------------------------------------

    def is_lost(self, group_id: str, partition: TopicPartition, commit_id: str) -> bool:
        return (group_id, *partition, commit_id) in self._lost

    def commits_since(self, group_id: str, partition: TopicPartition, floor: int) -> list[str | None]:
        """By id what the offset was at `floor`, and at any time since; None for no offset."""
        changes = self.of(group_id).changes.get(partition, [])
        first = bisect_left(changes, (floor,))
        before = changes[first - 1].commit_id if first else None
        return [before, *(change.commit_id for change in changes[first:])]

    def generation_at(self, group_id: str, floor: int) -> int:
        generations = self.of(group_id).generations
        first = bisect_left(generations, (floor,))
        return generations[first - 1].number if first else NO_GENERATION

    def assignments_of(self, group_id: str, generation_id: int | None, member_id: str) -> list[bytes]:
        """What this member was ever assigned in that generation; None: in any."""
        generations = self.of(group_id).generations
        return [
            each.assignments[member_id]
            for each in generations
            if generation_id in (None, each.number) and member_id in each.assignments
        ]
