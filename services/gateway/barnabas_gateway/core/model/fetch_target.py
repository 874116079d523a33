"""One partition that a client fetches: what it asked for, what the leader said, and what the client has been told."""

from __future__ import annotations

from typing import Final, TypeAlias

from barnabas.channel.messages import ReadPartition, ReadPartitionResult
from barnabas.cluster.image import ClusterImage
from barnabas.cluster.messages import NO_EPOCH, NO_LEADER, TopicMetadata
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch import FetchPartition, LeaderIdAndEpoch, PartitionData
from barnabas.wire.primitives import Buffer

UNKNOWN_OFFSET: Final = -1

FetchKey: TypeAlias = tuple[str | bytes, int]
"""A partition as the client names it: by its topic's name, or from v13 on by its topic's id."""


class FetchTarget(ReadPartition):
    """It is also what goes to the logstore: a fetch costs one object per partition, and a session's next ones none."""

    __slots__ = (
        "current_leader",
        "error_code",
        "fetch_position",
        "from_follower",
        "high_watermark",
        "last_stable_offset",
        "leader_epoch",
        "leader_id",
        "log_start_offset",
        "preferred_read_replica",
        "records",
        "sent_high_watermark",
        "sent_last_stable_offset",
        "sent_log_start_offset",
        "topic",
    )

    def __init__(self, topic: str, topic_id: bytes, asked: FetchPartition) -> None:
        """`topic` is empty while only the id is known (v13), the id of no meaning while only the name is."""
        self.topic = topic
        self.topic_id = topic_id
        self.partition = asked.partition
        self.update(asked)
        self.leader_id = NO_LEADER
        """Whom it is read from: the leader, or a follower where `from_follower` says so."""
        self.from_follower = False
        self.leader_epoch = NO_EPOCH
        self.fetch_position = -1
        self.error_code: int = ErrorCode.NONE
        """Of the last read, or why there was none; likewise all up to `current_leader`."""
        self.high_watermark = UNKNOWN_OFFSET
        self.last_stable_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.records: Buffer = b""
        self.current_leader: LeaderIdAndEpoch | None = None
        self.preferred_read_replica: int | None = None
        """Where the client had better read (KIP-392)."""
        self.sent_high_watermark = UNKNOWN_OFFSET
        """In the session's last answer that had this partition; likewise the next two."""
        self.sent_last_stable_offset = UNKNOWN_OFFSET
        self.sent_log_start_offset = UNKNOWN_OFFSET

    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def update(self, asked: FetchPartition) -> None:
        """Fetch on from there."""
        self.current_leader_epoch = asked.current_leader_epoch
        self.fetch_offset = asked.fetch_offset
        self.partition_bytes_max = max(0, asked.partition_max_bytes)

    def refuse(self, error_code: int) -> None:
        """There is nothing to be said but this."""
        self.error_code = error_code
        self.high_watermark = self.last_stable_offset = self.log_start_offset = UNKNOWN_OFFSET
        self.records = b""
        self.current_leader = None
        self.preferred_read_replica = None

    def fill(self, result: ReadPartitionResult) -> None:
        """What the leader said, or the follower."""
        self.error_code = result.error_code
        self.high_watermark = result.high_watermark
        self.last_stable_offset = result.last_stable_offset
        self.log_start_offset = result.log_start_offset
        self.records = result.records
        self.leader_epoch = result.leader_epoch
        self.fetch_position = result.fetch_position
        self.current_leader = None
        self.preferred_read_replica = result.preferred_read_replica

    def has_news(self) -> bool:
        """Whether an incremental answer has to have this partition: records, an error, or offsets that moved."""
        return (
            len(self.records) > 0
            or self.error_code != ErrorCode.NONE
            or self.high_watermark != self.sent_high_watermark
            or self.last_stable_offset != self.sent_last_stable_offset
            or self.log_start_offset != self.sent_log_start_offset
            or self.preferred_read_replica is not None
        )

    def note_sent(self) -> None:
        """The client is told the present state. When an error is over it is told again, whatever the offsets."""
        is_error = self.error_code != ErrorCode.NONE
        self.sent_high_watermark = UNKNOWN_OFFSET if is_error else self.high_watermark
        self.sent_last_stable_offset = self.last_stable_offset
        self.sent_log_start_offset = self.log_start_offset

    def answer(self, reads_committed: bool) -> PartitionData:
        """Its part of the response."""
        return PartitionData(
            self.partition,
            self.error_code,
            self.high_watermark,
            self.last_stable_offset,
            self.log_start_offset,
            None,
            self.current_leader,
            None,
            [] if reads_committed else None,
            -1 if self.preferred_read_replica is None else self.preferred_read_replica,
            self.records,
        )


def find_topic(image: ClusterImage, target: FetchTarget, *, by_id: bool) -> TopicMetadata | ErrorCode:
    """The topic that a target means now, by its id or by its name.

    A topic that a session fetches by id, and that is gone since, is UNKNOWN_TOPIC_OR_PARTITION, or
    INCONSISTENT_TOPIC_ID where another one has its name; an id that was never known is UNKNOWN_TOPIC_ID.
    """
    topic = image.topics_by_id.get(target.topic_id) if by_id else image.topics_by_name.get(target.topic)
    if topic is not None:
        return topic
    if by_id and not target.topic:
        return ErrorCode.UNKNOWN_TOPIC_ID
    is_replaced = by_id and target.topic in image.topics_by_name
    return ErrorCode.INCONSISTENT_TOPIC_ID if is_replaced else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
