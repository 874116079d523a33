"""What a client fetches of each partition: what it asked for, what the leader said, what the response says of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias, cast

from barnabas.channel.messages import ABORTED_TRANSACTION, ReadPartition, ReadPartitionResult
from barnabas.cluster.image import ClusterImage
from barnabas.cluster.messages import NO_EPOCH, NO_LEADER, TopicMetadata
from barnabas.wire.errors import ErrorCode
from barnabas.wire.file_range import Records
from barnabas.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from barnabas.wire.primitives import Buffer, Steps
from barnabas_gateway.core.model.cluster_view import ClusterView
from barnabas_gateway.core.model.request_context import RequestContext

READ_COMMITTED: Final = 1
UNKNOWN_OFFSET: Final = -1

FetchKey: TypeAlias = tuple[str | bytes, int]
"""A partition as the client names it: by its topic's name, or from v13 on by its topic's id."""


class FetchTarget(ReadPartition):
    """It is also what goes to the logstore: a fetch costs one object per partition, and a session's next fetches
    none.
    """

    __slots__ = (
        "aborted_transactions",
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
        """`topic` is empty while only the id is known (v13); the id has no meaning while only the name is known."""
        self.topic = topic
        self.topic_id = topic_id
        self.partition = asked.partition
        self.set_request(asked)
        self.leader_id = NO_LEADER
        """The node that it is read from: the leader, or a follower if `from_follower` says so."""
        self.from_follower = False
        self.leader_epoch = NO_EPOCH
        self.fetch_position = -1
        self.error_code: int = ErrorCode.NONE
        """The fields from here to `current_leader` are of the last read, or why there was none."""
        self.high_watermark = UNKNOWN_OFFSET
        self.last_stable_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.records: Records = b""
        self.aborted_transactions: Buffer = b""
        """As in `ReadPartitionResult`."""
        self.current_leader: LeaderIdAndEpoch | None = None
        self.preferred_read_replica: int | None = None
        """The replica that the client should read from (KIP-392)."""
        self.sent_high_watermark = UNKNOWN_OFFSET
        """The fields from here on are what the session's last answer with this partition had."""
        self.sent_last_stable_offset = UNKNOWN_OFFSET
        self.sent_log_start_offset = UNKNOWN_OFFSET

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def set_request(self, asked: FetchPartition) -> None:
        """Fetch from there next."""
        self.current_leader_epoch = asked.current_leader_epoch
        self.fetch_offset = asked.fetch_offset
        self.partition_bytes_max = max(0, asked.partition_max_bytes)

    def refuse(self, error_code: int) -> None:
        """Answer the partition with only this error."""
        self.error_code = error_code
        self.high_watermark = self.last_stable_offset = self.log_start_offset = UNKNOWN_OFFSET
        self.records = self.aborted_transactions = b""
        self.current_leader = None
        self.preferred_read_replica = None

    def set_result(self, result: ReadPartitionResult) -> None:
        """Store what the leader, or the follower, answered."""
        self.error_code = result.error_code
        self.high_watermark = result.high_watermark
        self.last_stable_offset = result.last_stable_offset
        self.log_start_offset = result.log_start_offset
        self.records = result.records
        self.aborted_transactions = result.aborted_transactions
        self.leader_epoch = result.leader_epoch
        self.fetch_position = result.fetch_position
        self.current_leader = None
        self.preferred_read_replica = result.preferred_read_replica

    def has_news(self) -> bool:
        """Whether an incremental answer must include this partition: records, an error, or offsets that moved."""
        return (
            len(self.records) > 0
            or self.error_code != ErrorCode.NONE
            or self.high_watermark != self.sent_high_watermark
            or self.last_stable_offset != self.sent_last_stable_offset
            or self.log_start_offset != self.sent_log_start_offset
            or self.preferred_read_replica is not None
        )

    def note_sent(self) -> None:
        """The present state is sent to the client. When an error is over, the partition is sent again, whatever the
        offsets.
        """
        is_error = self.error_code != ErrorCode.NONE
        self.sent_high_watermark = UNKNOWN_OFFSET if is_error else self.high_watermark
        self.sent_last_stable_offset = self.last_stable_offset
        self.sent_log_start_offset = self.log_start_offset

    def answer(self, reads_committed: bool) -> PartitionData:
        """Return its part of the response."""
        return PartitionData(
            self.partition,
            self.error_code,
            self.high_watermark,
            self.last_stable_offset,
            self.log_start_offset,
            None,
            self.current_leader,
            None,
            self._aborted() if reads_committed else None,
            -1 if self.preferred_read_replica is None else self.preferred_read_replica,
            # A range of a file is passed on by the encoder, which needs only its length.
            cast("Buffer", self.records),
        )

    def _aborted(self) -> list[AbortedTransaction]:
        packed = self.aborted_transactions
        return [AbortedTransaction(*each) for each in ABORTED_TRANSACTION.iter_unpack(packed)] if packed else []


def find_topic(image: ClusterImage, target: FetchTarget, *, by_id: bool) -> TopicMetadata | ErrorCode:
    """Return the topic that a target means now, by its id or by its name.

    A topic that a session fetches by id, and that has been deleted since, is UNKNOWN_TOPIC_OR_PARTITION, or
    INCONSISTENT_TOPIC_ID if another topic has its name; an id that was never known is UNKNOWN_TOPIC_ID.
    """
    topic = image.topics_by_id.get(target.topic_id) if by_id else image.topics_by_name.get(target.topic)
    if topic is not None:
        return topic
    if by_id and not target.topic:
        return ErrorCode.UNKNOWN_TOPIC_ID
    is_replaced = by_id and target.topic in image.topics_by_name
    return ErrorCode.INCONSISTENT_TOPIC_ID if is_replaced else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def make_response(
    cluster: ClusterView, context: RequestContext, targets: Sequence[FetchTarget], isolation_level: int
) -> Steps[FetchResponse]:
    """Return these partitions by topic, with the endpoints of the leaders that their errors name (KIP-951)."""
    reads_committed = isolation_level == READ_COMMITTED
    by_topic: dict[tuple[str, bytes], FetchableTopicResponse] = {}
    leaders: dict[int, None] = {}
    for target in targets:
        key = (target.topic, target.topic_id)
        topic = by_topic.get(key)
        if topic is None:
            topic = by_topic[key] = FetchableTopicResponse(target.topic, target.topic_id, [])
        topic.partitions.append(target.answer(reads_committed))
        if target.current_leader is not None:
            leaders[target.current_leader.leader_id] = None
        yield 1
    response = FetchResponse(responses=list(by_topic.values()))
    for leader_id in leaders:
        address = cluster.address_of(leader_id, context)
        if address is not None:
            response.node_endpoints.append(NodeEndpoint(address.node_id, address.host, address.port, address.rack))
    return response
