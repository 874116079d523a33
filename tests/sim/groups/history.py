"""I13: the answers that members of groups get, compared with what is committed in `__consumer_offsets`.

No answer contains anything that is not in the log, or lacks what was there at the time of the request. A deposed leader
that does not know it yet may return what was true in its time, as in Kafka: then only what its own watermark had
reached is required.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas.cluster.internal_topics import partition_of_group
from tests.sim.elections import Shortages
from tests.sim.groups.assignments import TopicPartition, scan_assignment
from tests.sim.groups.log import Commit, CommitKey, OffsetsLog
from tests.sim.groups.shape import OFFSETS_PARTITIONS
from tests.sim.history import History
from tests.sim.history import Partition as PartitionKey
from tests.sim.replica_logs import Batch
from tests.sim.scheduler import InvariantViolation


class Standing(NamedTuple):
    """Of the leadership over a group's partition: `zombie_end` is the least that a deposed leader who does not know it
    has for committed, None where there is none."""

    epoch: int
    zombie_end: int | None


class Moment(NamedTuple):
    """At which a client asks: everything below `floor` in the log has to be in the answer, `cuts` later may be lost."""

    at_us: int
    floor: int
    cuts: int
    standing: Standing


@dataclass(slots=True)
class GroupCounts:
    groups: int = 0
    joins: int = 0
    rebalances: int = 0
    """Generations that some member was given its share of."""
    commits: int = 0
    """Offsets of single partitions that were acknowledged."""
    fenced: int = 0
    administered: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        reported = "".join(f", {count} × {what}" for what, count in sorted(self.administered.items()))
        return (
            f"{self.groups} groups: {self.joins} joins, {self.rebalances} rebalances, {self.commits} offsets "
            f"committed, {self.fenced} fenced{reported}"
        )


class GroupHistory:
    def __init__(self, history: History) -> None:
        self._history = history
        self._logs: dict[int, OffsetsLog] = {}
        self._sent: dict[CommitKey, Commit] = {}
        self._asked_to_go: dict[tuple[str, str], None] = {}
        # How far each group has read each partition without a gap.
        self._read_upto: dict[tuple[str, TopicPartition], int] = {}
        self._generations_reported: dict[tuple[str, int], None] = {}
        self.counts = GroupCounts()
        # Known by those who see everything.
        self.now_us: Callable[[], int] = lambda: 0
        self.standing_of: Callable[[int], Standing] = lambda partition: Standing(-1, None)
        self.shortages_of: Callable[[int], Shortages] = lambda partition: Shortages(0, 0)
        self.topic_is_deleted: Callable[[str], bool] = lambda topic: False

    # --- the log ------------------------------------------------------------------------------------------------------

    def log(self, partition: int) -> OffsetsLog:
        log = self._logs.get(partition)
        if log is None:
            log = self._logs[partition] = OffsetsLog(
                f"__consumer_offsets-{partition}", self._sent, self._may_go, lambda: self.shortages_of(partition)
            )
        return log

    def log_of(self, group_id: str) -> OffsetsLog:
        return self.log(partition_of_group(group_id, OFFSETS_PARTITIONS))

    def committed(self, key: PartitionKey, batches: list[Batch]) -> None:
        self.log(key[1]).add(batches)

    def lost(self, key: PartitionKey, end: int) -> None:
        self.log(key[1]).cut(end)

    def has_lost_records(self, group_id: str) -> bool:
        """Whether its coordinator may know nothing of it."""
        return bool(self.log_of(group_id).cuts)

    def _may_go(self, group_id: str, topic: str) -> bool:
        return (group_id, topic) in self._asked_to_go or self.topic_is_deleted(topic)

    def moment(self, group_id: str) -> Moment:
        """Now, for who is about to ask the coordinator of this group."""
        partition = partition_of_group(group_id, OFFSETS_PARTITIONS)
        log, standing = self.log(partition), self.standing_of(partition)
        floor = log.end if standing.zombie_end is None else min(log.end, standing.zombie_end)
        return Moment(self.now_us(), floor, len(log.cuts), standing)

    def _floor(self, log: OffsetsLog, asked: Moment) -> int:
        return min([asked.floor, *log.cuts[asked.cuts :]])

    # --- offsets ------------------------------------------------------------------------------------------------------

    def committing(self, group_id: str, partition: TopicPartition, commit_id: str, commit: Commit) -> None:
        assert (group_id, *partition, commit_id) not in self._sent, "every commit has an id of its own"
        self._sent[group_id, *partition, commit_id] = commit

    def commit_acknowledged(self, group_id: str, partition: TopicPartition, commit_id: str) -> None:
        self.counts.commits += 1
        log = self.log_of(group_id)
        has_it = (partition, commit_id) in log.of(group_id).seen
        if not has_it and not log.is_lost(group_id, partition, commit_id):
            raise InvariantViolation(
                f"I13: commit {commit_id!r} of {group_id} for {partition} is acknowledged, and not in the log"
            )

    def offset_fetched(
        self, group_id: str, partition: TopicPartition, offset: int, commit_id: str, asked: Moment
    ) -> None:
        """`offset` -1: nothing is committed."""
        log = self.log_of(group_id)
        possible = log.commits_since(group_id, partition, self._floor(log, asked))
        reported = commit_id if offset >= 0 else None
        if reported is not None:
            commit = self._sent.get((group_id, *partition, reported))
            if commit is None or commit.offset != offset:
                raise InvariantViolation(
                    f"I13: {group_id} gets {offset} of {partition} by {reported!r}; sent: {commit}"
                )
            if log.is_lost(group_id, partition, reported):
                return
        if reported not in possible:
            raise InvariantViolation(
                f"I13: {group_id} gets {reported!r} for {partition}, committed since it asked are {possible[-5:]}"
            )

    def asks_to_delete(self, group_id: str, topics: list[str]) -> None:
        self._asked_to_go |= {(group_id, topic): None for topic in topics}

    def offset_deleted(self, group_id: str, partition: TopicPartition, asked: Moment) -> None:
        """Answered as done: since the request there was a time without it."""
        log = self.log_of(group_id)
        if None not in log.commits_since(group_id, partition, self._floor(log, asked)):
            raise InvariantViolation(f"I13: {group_id}'s offset of {partition} is deleted, and in the log still")

    # --- members ------------------------------------------------------------------------------------------------------

    def joined(self, group_id: str, generation_id: int, asked: Moment) -> None:
        self.counts.joins += 1
        self._check_generation(group_id, generation_id, asked)

    def described(self, group_id: str, member_id: str, assignment: bytes) -> None:
        """Of a stable group: it is in the log, whatever its generation."""
        log = self.log_of(group_id)
        if not log.cuts and assignment not in log.assignments_of(group_id, None, member_id):
            raise InvariantViolation(f"I13: {member_id} of {group_id} is described with {scan_assignment(assignment)}")

    def _check_generation(self, group_id: str, generation_id: int, asked: Moment) -> None:
        """It is no older than the one that was stored when it asked, unless the group was deleted meanwhile."""
        log = self.log_of(group_id)
        known = log.generation_at(group_id, asked.floor)
        is_another_log = any(each.at >= asked.floor and not each.number for each in log.of(group_id).generations)
        if generation_id < known and len(log.cuts) == asked.cuts and not is_another_log:
            raise InvariantViolation(f"I13: {group_id} is let into generation {generation_id} after {known}")

    def synced(self, group_id: str, generation_id: int, member_id: str, assignment: bytes, asked: Moment) -> None:
        """What it was assigned is what the log has for it; no later generation was stored when it asked."""
        if (group_id, generation_id) not in self._generations_reported:
            self._generations_reported[group_id, generation_id] = None
            self.counts.rebalances += 1
        log = self.log_of(group_id)
        if len(log.cuts) != asked.cuts:
            return
        stored = log.assignments_of(group_id, generation_id, member_id)
        if assignment not in stored:
            raise InvariantViolation(
                f"I13: {member_id} of {group_id} gets {scan_assignment(assignment)} for generation {generation_id}, "
                f"in the log are {[scan_assignment(each) for each in stored]}"
            )
        self._check_generation(group_id, generation_id, asked)

    def expelled(self, group_id: str, member_id: str, heard: Moment, asked: Moment, patience_ms: int) -> None:
        """A member, which was last heard of as one of the group at `heard`, gets the answer that it is unknown."""
        now = self.moment(group_id)
        has_zombies = any(each.standing.zombie_end is not None for each in (asked, now))
        if has_zombies or asked.standing.epoch != now.standing.epoch or heard.cuts != now.cuts:
            return
        silent_ms = (now.at_us - heard.at_us) / 1_000
        if silent_ms < 0.95 * patience_ms:
            raise InvariantViolation(
                f"I13: {member_id} of {group_id} is expelled {silent_ms:.0f} ms after it was heard of, it has "
                f"{patience_ms} ms"
            )

    # --- records ------------------------------------------------------------------------------------------------------

    def read(self, group_id: str, partition: TopicPartition, begin: int, end: int) -> None:
        """A member has read these; between what is committed and them the group has left nothing out."""
        upto = self._read_upto.get((group_id, partition), 0)
        if begin > upto and not self._history.may_jump(*partition):
            raise InvariantViolation(f"{group_id} reads {partition} from {begin} on, and has read it up to {upto}")
        self._read_upto[group_id, partition] = max(upto, end)
