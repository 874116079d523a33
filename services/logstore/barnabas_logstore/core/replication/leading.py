"""The leader's side of replication: followers' fetches, and what they acknowledge.

A stream is an incremental fetch session (KIP-227): slots stand for partitions, and only changes are named. A fetch is
answered when there is news for any slot (records, a moved log start, an error, a log that diverges from ours), or when
its time is over. A watermark that has moved is sent with any answer, or at the next tick: under load, separate answers
would double the messages (KAFKA-9731), and only consumers that read from followers need it (KIP-392).

Errors per partition: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
OFFSET_OUT_OF_RANGE (the follower is before our log's start), KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE (our own log is
damaged); each is sent once, until the follower names the slot again or something changes here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from barnabas.channel.messages import ReplicaData, ReplicaFetch, ReplicaPiece, ReplicaPosition
from barnabas.ports.disk import DiskError
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.replica.containment import REPLICA_ANSWER, REPLICA_READ
from barnabas_logstore.core.replica.follower_progress import FetchSession
from barnabas_logstore.core.replica.partition import Partition, PartitionKey
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.replica.throttles import Throttles
from barnabas_logstore.core.storage.effect_results import FoundBatches, NotFound
from barnabas_logstore.core.storage.effects import ReadBatchesEffect
from barnabas_logstore.core.storage.log.log_view import ReadPlan
from barnabas_logstore.core.storage.log.state.leader_epochs import NO_EPOCH
from barnabas_logstore.core.streams.outbox import Completion, Outbox
from barnabas_logstore.core.streams.replication_outbox import ReplicationOutbox

# Slots checked for one answer; the rest comes with the next one. A step's work stays bounded.
SLOTS_PER_ANSWER_MAX = 256
# Record bytes in one message, so that heartbeats can be sent in between.
PIECE_BYTES_MAX = 1024 * 1024

OnPartition = Callable[[Partition], None]


@dataclass(slots=True, eq=False)
class FollowedSlot:
    """One partition in a follower's session, as the follower last named it and with what was last sent."""

    slot: int
    key: PartitionKey
    position: ReplicaPosition
    sent_high_watermark: int = -1
    sent_log_start_offset: int = -1
    is_refused: bool = False
    is_answered: bool = False
    """Records, an error or a divergence have been sent: nothing more until the follower names the slot again."""


@dataclass(slots=True, eq=False)
class _Answer:
    request_id: int
    bytes_left: int = 0
    partition_bytes_max: int = 0
    begun_ms: int = 0
    results: list[ReplicaData] = field(default_factory=list)
    outstanding: int = 0
    has_records: bool = False


@dataclass(slots=True, eq=False)
class ReplicaStream:
    """A follower's stream. `news` are the slots to check, in the order in which they changed."""

    stream_id: int
    session: FetchSession
    slots: dict[int, FollowedSlot] = field(default_factory=dict)
    news: dict[int, None] = field(default_factory=dict)
    throttled: dict[int, None] = field(default_factory=dict)
    """Slots that have records to be sent once the replication quota is kept again."""
    unsaid: dict[int, None] = field(default_factory=dict)
    """Slots whose newest watermark the follower does not know."""
    is_watermark_due: bool = False
    """Whether those count as news now."""
    fetch: ReplicaFetch | None = None
    deadline_ms: int = 0
    answer: _Answer | None = None
    came_us: int = 0
    """When `fetch` arrived, and when its answer was begun."""
    begun_us: int = 0
    next_fetch: tuple[ReplicaFetch, int, int] | None = None
    """The fetch that arrived while `fetch` was being answered, and when, in ms and µs."""
    closed: bool = False


@dataclass(slots=True, eq=False)
class _Range:
    """The bytes that one slot of an answer waits for."""

    stream: ReplicaStream
    answer: _Answer
    followed: FollowedSlot
    result: ReplicaData
    partition: Partition
    plan: ReadPlan


class Leading:
    def __init__(
        self,
        replicas: Replicas,
        outbox: Outbox,
        says: ReplicationOutbox,
        throttles: Throttles,
        *,
        tells_watermarks_at_once: bool,
        follower_moved: OnPartition,
        follower_log_start_moved: Callable[[], None],
    ) -> None:
        """`follower_moved` is called for every partition whose follower has advanced: watermark and ISR may follow.
        `follower_log_start_moved`: a follower's log begins further on than before, for which DeleteRecords may wait.
        """
        self._replicas = replicas
        self._outbox = outbox
        self._times = outbox.times
        self._says = says
        self._throttles = throttles
        self._tells_watermarks_at_once = tells_watermarks_at_once
        self._follower_moved = follower_moved
        self._follower_log_start_moved = follower_log_start_moved
        self._streams: dict[ReplicaStream, None] = {}
        self._followed: dict[PartitionKey, dict[ReplicaStream, int]] = {}
        self._ranges: dict[ReadBatchesEffect, _Range] = {}

    # --- what arrives ---

    def open(self, stream: ReplicaStream) -> None:
        self._streams[stream] = None
        stream.is_watermark_due = self._tells_watermarks_at_once

    def close(self, stream: ReplicaStream) -> None:
        self._streams.pop(stream, None)
        for slot in list(stream.slots):
            self._forget(stream, slot)
        self._ranges = {effect: awaited for effect, awaited in self._ranges.items() if awaited.stream is not stream}

    def on_fetch(self, stream: ReplicaStream, fetch: ReplicaFetch, now_ms: int) -> str | None:
        """Process the follower's next fetch. Return the error if the stream has to be closed."""
        if stream.fetch is None:
            self._take(stream, fetch, now_ms, self._times.read_us())
        elif stream.next_fetch is None:
            now_us = self._times.read_us()
            stream.next_fetch = (fetch, now_ms, now_us)
            if stream.answer is None:
                stream.begun_us = now_us
                # It has waited for news in vain, and the follower has some.
                stream.answer = _Answer(stream.fetch.request_id)
                self._send_if_complete(stream, stream.answer)
        else:
            return "a third fetch before the answer to the first"
        return None

    def _take(self, stream: ReplicaStream, fetch: ReplicaFetch, now_ms: int, came_us: int) -> None:
        stream.fetch, stream.came_us = fetch, came_us
        stream.deadline_ms = now_ms + fetch.wait_ms_max
        stream.session.last_fetch_ms = now_ms
        for slot in fetch.forgotten:
            self._forget(stream, slot)
        for position in fetch.positions:
            self._place(stream, position, now_ms)

    def _forget(self, stream: ReplicaStream, slot: int) -> None:
        followed = stream.slots.pop(slot, None)
        stream.news.pop(slot, None)
        stream.throttled.pop(slot, None)
        stream.unsaid.pop(slot, None)
        if followed is not None:
            streams = self._followed[followed.key]
            del streams[stream]
            if not streams:
                del self._followed[followed.key]

    def _place(self, stream: ReplicaStream, position: ReplicaPosition, now_ms: int) -> None:
        key = (position.topic_id, position.partition)
        before = stream.slots.get(position.slot)
        if before is not None and before.key != key:
            self._forget(stream, position.slot)
            before = None
        followed = FollowedSlot(position.slot, key, position)
        if before is not None and before.position.current_leader_epoch == position.current_leader_epoch:
            followed.sent_high_watermark = before.sent_high_watermark
            if position.log_start_offset >= before.sent_log_start_offset:
                followed.sent_log_start_offset = before.sent_log_start_offset
        stream.slots[position.slot] = followed
        self._followed.setdefault(key, {})[stream] = position.slot
        stream.news[position.slot] = None
        partition = self._replicas.by_key.get(key)
        if partition is not None:
            self._count(partition, stream, followed, now_ms)

    def _count(self, partition: Partition, stream: ReplicaStream, followed: FollowedSlot, now_ms: int) -> None:
        """The follower's position acknowledges what it has written, as long as its log does not diverge from ours."""
        if self._problem(partition, followed, stream.session.replica_id) is not None:
            return
        position = followed.position
        follower = partition.followers[stream.session.replica_id]
        if position.log_start_offset > follower.log_start_offset:
            self._follower_log_start_moved()
        follower.fetched(
            stream.session, position.fetch_offset, position.log_start_offset, partition.log.log_end_offset, now_ms
        )
        self._follower_moved(partition)

    # --- what changes here ---

    def changed(self, partition: Partition) -> None:
        """A leader's log end, watermark, log start or epoch has changed: followers may need it."""
        for stream, slot in self._followed.get(partition.key, {}).items():
            stream.news[slot] = None

    def leadership_changed(self, partition: Partition, now_ms: int) -> None:
        """Leadership or the replicas have changed: a follower that was refused may be served now.

        A follower may have learned of that before this leader did, and does not send its position again.
        """
        for stream, slot in self._followed.get(partition.key, {}).items():
            followed = stream.slots[slot]
            if followed.is_refused:
                followed.is_answered = followed.is_refused = False
            stream.news[slot] = None
            self._count(partition, stream, followed, now_ms)

    @property
    def has_work(self) -> bool:
        """Whether there is more news for a waiting fetch than the last step has checked."""
        if not self._streams:
            return False
        return any(_has_news(stream) and stream.fetch is not None and stream.answer is None for stream in self._streams)

    @property
    def is_at_rest(self) -> bool:
        """Whether followers know everything, and nothing is held back from them."""
        return not any(stream.news or stream.unsaid or stream.throttled for stream in self._streams)

    def next_deadline_ms(self) -> int | None:
        """Return when the first fetch that waits is answered in any case."""
        waiting = [stream.deadline_ms for stream in self._streams if stream.fetch is not None]
        return min(waiting, default=None)

    def tick(self) -> None:
        """Watermarks have waited long enough for another answer."""
        for stream in self._streams:
            stream.is_watermark_due = True

    # --- answers ---

    def answer(self, now_ms: int) -> None:
        """Begin an answer to every fetch that has one; once per turn."""
        for stream in self._streams:
            if stream.throttled and not self._throttles.leader.is_exceeded(now_ms):
                stream.news |= stream.throttled
                stream.throttled.clear()
            if stream.fetch is None or stream.answer is not None:
                continue
            if _has_news(stream) or now_ms >= stream.deadline_ms:
                try:
                    self._begin_answer(stream, stream.fetch, now_ms)
                except Exception as error:
                    stream.fetch = stream.answer = None
                    self._replicas.contained.contain(REPLICA_ANSWER, error, _name(stream))
                    self._says.close(stream.stream_id, "an internal error")

    def _begin_answer(self, stream: ReplicaStream, fetch: ReplicaFetch, now_ms: int) -> None:
        answer = _Answer(fetch.request_id, fetch.bytes_max, fetch.partition_bytes_max, now_ms)
        looked_at, stream.news = stream.news, {}
        for count, slot in enumerate(looked_at):
            if count == SLOTS_PER_ANSWER_MAX or (answer.has_records and answer.bytes_left <= 0):
                stream.news |= dict.fromkeys(list(looked_at)[count:])
                break
            followed = stream.slots[slot]
            try:
                self._look_at(stream, answer, followed)
            except Exception as error:
                self._contain(stream, answer, followed, error)
        is_due = stream.is_watermark_due and bool(stream.unsaid)
        if answer.results or answer.outstanding or is_due or now_ms >= stream.deadline_ms:
            self._say_watermarks(stream, answer)
            stream.answer, stream.begun_us = answer, self._times.read_us()
            self._send_if_complete(stream, answer)

    def _contain(self, stream: ReplicaStream, answer: _Answer, followed: FollowedSlot, error: Exception) -> None:
        """One slot of an answer was ended by an unexpected exception: the follower asks again, a little later."""
        self._replicas.contained.contain(REPLICA_READ, error, _name(stream, followed))
        for effect in [key for key, each in self._ranges.items() if (each.answer, each.followed) == (answer, followed)]:
            del self._ranges[effect]
            answer.outstanding -= 1
        answer.results = [result for result in answer.results if result.slot != followed.slot]
        self._refuse(answer, followed, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _look_at(self, stream: ReplicaStream, answer: _Answer, followed: FollowedSlot) -> None:
        """Add to the answer what is new for one slot."""
        partition = self._replicas.by_key.get(followed.key)
        if followed.is_answered and (partition is None or not self._has_to_delete(stream, followed, partition)):
            return
        if partition is None:
            self._refuse(answer, followed, self._replicas.error_of_absent(*followed.key))
            return
        problem = self._problem(partition, followed, stream.session.replica_id)
        if isinstance(problem, ErrorCode):
            self._refuse(answer, followed, problem)
            return
        result = problem or ReplicaData(followed.slot)
        result.leader_id, result.leader_epoch = partition.leader_id, partition.leader_epoch
        result.high_watermark, result.log_start_offset = partition.high_watermark, partition.log.log_start_offset
        if problem is not None:
            followed.is_answered = True
            answer.results.append(result)
            return
        is_reading = not followed.is_answered and self._read(stream, answer, followed, result, partition)
        if is_reading or followed.sent_log_start_offset != result.log_start_offset:
            stream.unsaid.pop(followed.slot, None)
            followed.sent_high_watermark = result.high_watermark
            followed.sent_log_start_offset = result.log_start_offset
            answer.results.append(result)
        elif followed.sent_high_watermark != result.high_watermark:
            stream.unsaid[followed.slot] = None

    def _has_to_delete(self, stream: ReplicaStream, followed: FollowedSlot, partition: Partition) -> bool:
        """The log start has moved since records were sent. A full disk can't store those, and gets free space by
        this.
        """
        if followed.is_refused or followed.sent_log_start_offset == partition.log.log_start_offset:
            return False
        return self._problem(partition, followed, stream.session.replica_id) in (None, ErrorCode.OFFSET_OUT_OF_RANGE)

    def _say_watermarks(self, stream: ReplicaStream, answer: _Answer) -> None:
        """Add watermarks to an answer. A slot with other news, or of another epoch, is checked separately."""
        for slot in list(stream.unsaid)[:SLOTS_PER_ANSWER_MAX]:
            del stream.unsaid[slot]
            followed = stream.slots[slot]
            partition = self._replicas.by_key.get(followed.key)
            if partition is None or followed.is_answered:
                continue
            if partition.check_leader_epoch(followed.position.current_leader_epoch):
                continue
            followed.sent_high_watermark = partition.high_watermark
            result = ReplicaData(slot, 0, partition.leader_epoch, partition.leader_id, partition.high_watermark)
            result.log_start_offset = partition.log.log_start_offset
            answer.results.append(result)
        if not stream.unsaid:
            stream.is_watermark_due = self._tells_watermarks_at_once

    def _problem(self, partition: Partition, followed: FollowedSlot, replica_id: int) -> ErrorCode | ReplicaData | None:
        """Return an error, or where the follower's log diverges from ours; None if it may read on."""
        position = followed.position
        error = partition.check_leader_epoch(position.current_leader_epoch)
        if error:
            return error
        if replica_id not in partition.followers:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        log = partition.log
        end_offset = log.log_end_offset
        if position.fetch_offset < log.log_start_offset:
            # Whatever it has, there is nothing here to compare it with.
            return ErrorCode.OFFSET_OUT_OF_RANGE
        last_epoch = position.last_fetched_epoch
        epoch, epoch_end_offset = last_epoch, end_offset
        if last_epoch != NO_EPOCH:
            epoch, epoch_end_offset = log.leader_epochs.end_offset_of(last_epoch, end_offset)
            if epoch == NO_EPOCH:
                # Newer than any epoch with records here: it diverges from ours at our end, or before.
                epoch, epoch_end_offset = log.leader_epochs.latest, end_offset
        if epoch < last_epoch or epoch_end_offset < position.fetch_offset:
            return ReplicaData(followed.slot, diverging_epoch=epoch, diverging_end_offset=epoch_end_offset)
        return None

    def _read(
        self,
        stream: ReplicaStream,
        answer: _Answer,
        followed: FollowedSlot,
        result: ReplicaData,
        partition: Partition,
    ) -> bool:
        """Return whether records are being read for this slot. What does not fit is checked for the next answer."""
        log = partition.log
        if followed.position.fetch_offset >= log.log_end_offset:
            return False
        bytes_max = min(answer.partition_bytes_max, answer.bytes_left)
        quota = self._throttles.leader
        is_listed = quota.is_limited and self._throttles.is_listed(
            log.config.leader_replication_throttled_replicas, partition.partition
        )
        if is_listed and stream.session.replica_id not in partition.isr.committed:
            if quota.is_exceeded(answer.begun_ms):
                stream.throttled[followed.slot] = None
                return False
            bytes_max = min(bytes_max, quota.bytes_per_second)
        try:
            offset, is_first = followed.position.fetch_offset, not answer.has_records
            plan = log.plan_read(offset, bytes_max, log.log_end_offset, min_one_batch=is_first)
        except DiskError as error:
            self._replicas.disk_failed(log, error)
            return False
        if isinstance(plan, ErrorCode):
            self._refuse(answer, followed, plan)
            return False
        if plan is None:
            stream.news[followed.slot] = None
            return False
        answer.has_records = followed.is_answered = True
        answer.bytes_left -= plan.bytes_max
        if is_listed:
            quota.record(plan.bytes_max, answer.begun_ms)
        answer.outstanding += 1
        self._read_range(_Range(stream, answer, followed, result, partition, plan), plan.effect)
        return True

    def _read_range(self, awaited: _Range, effect: ReadBatchesEffect) -> None:
        self._ranges[effect] = awaited
        failed = partial(self._replicas.log_effect_failed, awaited.partition.log)
        self._outbox.add_effect(effect, Completion(lambda found: self._on_bytes(effect, found), failed))

    def _on_bytes(self, effect: ReadBatchesEffect, found: FoundBatches | NotFound) -> None:
        """The bytes of a range have arrived, unless it has failed meanwhile."""
        awaited = self._ranges.pop(effect, None)
        if awaited is None:
            return
        try:
            assert isinstance(found, effect.result.types)
            records = awaited.partition.log.finish_read(awaited.plan, found)
        except DiskError as error:
            self._replicas.disk_failed(awaited.partition.log, error)
            self._fail(awaited, ErrorCode.KAFKA_STORAGE_ERROR)
            return
        except Exception as fault:
            self._replicas.contained.contain(REPLICA_READ, fault, _name(awaited.stream, awaited.followed))
            self._fail(awaited, ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        if isinstance(records, ReadBatchesEffect):
            self._read_range(awaited, records)
            return
        if isinstance(records, ErrorCode):
            awaited.result.log_start_offset = awaited.partition.log.log_start_offset  # it may have grown meanwhile
            self._fail(awaited, records)
            return
        if not records:
            # Its next batch does not fit into this answer: it is first in another one.
            awaited.followed.is_answered = False
            if awaited.stream.slots.get(awaited.followed.slot) is awaited.followed:
                awaited.stream.news[awaited.followed.slot] = None
        assert isinstance(records, memoryview), "no range was asked for"
        awaited.result.records = records
        awaited.partition.meter.replication_bytes_out += len(records)
        awaited.answer.outstanding -= 1
        self._send_if_complete(awaited.stream, awaited.answer)

    def fail_pending(self, partition: Partition, error: ErrorCode) -> None:
        """Reads of a partition fail at once: its leader epoch is over, or its directory is offline."""
        for effect in [effect for effect, awaited in self._ranges.items() if awaited.partition is partition]:
            self._fail(self._ranges.pop(effect), error)

    def _fail(self, awaited: _Range, error: ErrorCode) -> None:
        awaited.result.error_code = error
        awaited.followed.is_refused = True
        awaited.answer.outstanding -= 1
        self._send_if_complete(awaited.stream, awaited.answer)

    def _refuse(self, answer: _Answer, followed: FollowedSlot, error: ErrorCode) -> None:
        followed.is_answered = followed.is_refused = True
        leader_id, leader_epoch = self._replicas.newest_leader(*followed.key)
        result = ReplicaData(followed.slot, error, leader_epoch, leader_id)
        hosted = self._replicas.by_key.get(followed.key)
        if hosted is not None and error is ErrorCode.OFFSET_OUT_OF_RANGE:
            result.log_start_offset = hosted.log.log_start_offset
        answer.results.append(result)

    def _send_if_complete(self, stream: ReplicaStream, answer: _Answer) -> None:
        if answer.outstanding:
            return
        stream.fetch = stream.answer = None
        pieces = [ReplicaPiece(answer.request_id, False, [])]
        piece_bytes = 0
        for result in answer.results:
            if piece_bytes and piece_bytes + len(result.records) > PIECE_BYTES_MAX:
                pieces.append(ReplicaPiece(answer.request_id, False, []))
                piece_bytes = 0
            pieces[-1].partitions.append(result)
            piece_bytes += len(result.records)
        pieces[-1].last = True
        self._says.answer(stream.stream_id, pieces)
        self._times.follower_answered(stream.came_us, stream.begun_us, pieces)
        if stream.next_fetch is not None:
            (fetch, came_ms, came_us), stream.next_fetch = stream.next_fetch, None
            self._take(stream, fetch, came_ms, came_us)


def _name(stream: ReplicaStream, followed: FollowedSlot | None = None) -> dict[str, str | int]:
    topic_id, partition = (b"", -1) if followed is None else followed.key
    return {"follower": stream.session.replica_id, "topic_id": topic_id.hex(), "partition": partition}


def _has_news(stream: ReplicaStream) -> bool:
    return bool(stream.news) or (stream.is_watermark_due and bool(stream.unsaid))
