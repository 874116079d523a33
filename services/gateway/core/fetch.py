"""A Fetch request under way: read from the leaders, parked while there is too little, then read again and answered.

Kafka's `ReplicaManager.fetchMessages`: the answer goes out at once with enough bytes, with any error, with no time to
wait, or after one wait in purgatory whatever that brought. Nothing of a first read that was too small is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.channel.messages import (
    Completion,
    FetchCondition,
    Outcome,
    ReadPartition,
    ReadPartitionResult,
    ReadResult,
)
from barnabas.cluster.messages import NO_LEADER
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.message_set import MAGIC_0, MAGIC_1
from barnabas.wire.messages.fetch import FetchResponse, LeaderIdAndEpoch, NodeEndpoint, PartitionData
from services.gateway.core.down_conversion import DownConverted
from services.gateway.core.logstores import Logstore
from services.gateway.core.reads import PendingRead
from services.gateway.core.slots import Slot

if TYPE_CHECKING:
    from services.gateway.core.connection import Connection
    from services.gateway.core.parking import Pod

_VERSION_WITH_MAGIC_1 = 2
_VERSION_WITH_BATCHES = 4
"""Of magic 2: what is fetched before is converted."""

_NAMES_LEADER = (int(ErrorCode.NOT_LEADER_OR_FOLLOWER), int(ErrorCode.FENCED_LEADER_EPOCH))
"""Errors that carry the current leader (KIP-951)."""


class FetchTarget(ReadPartition):
    """One partition of a Fetch: what to ask the logstore, and where its result belongs."""

    __slots__ = ("fetch_position", "leader_epoch", "leader_id", "response")

    def __init__(
        self,
        topic_id: bytes,
        partition: int,
        current_leader_epoch: int,
        fetch_offset: int,
        partition_bytes_max: int,
        response: PartitionData,
    ) -> None:
        super().__init__(topic_id, partition, current_leader_epoch, fetch_offset, partition_bytes_max)
        self.response = response
        self.leader_id = NO_LEADER
        self.leader_epoch = -1
        self.fetch_position = -1


class PendingFetch(Slot):
    __slots__ = (
        "deadline_ms",
        "entry_id",
        "has_error",
        "is_final",
        "isolation_level",
        "max_bytes",
        "min_bytes",
        "pod",
        "reads",
        "reads_unanswered",
        "response",
        "targets",
    )

    def __init__(self, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(connection, header, frame_bytes)
        self.min_bytes = 0
        self.max_bytes = 0
        self.isolation_level = 0
        self.deadline_ms = 0
        """The end of `max_wait_ms`."""
        self.response: FetchResponse = FetchResponse()
        self.targets: Sequence[FetchTarget] = ()
        self.reads: list[PendingRead] = []
        self.reads_unanswered = 0
        self.has_error = False
        self.is_final = False
        """Whether the present reads are answered whatever they bring."""
        self.pod: Pod | None = None
        self.entry_id = 0

    def submit(self, targets: Sequence[FetchTarget]) -> None:
        """Read the targets; the response, already complete but for them, goes out when all is known."""
        self.targets = targets
        if targets:
            self._read()
        else:
            self._respond()

    # --- reading ---

    def _read(self) -> None:
        processor = self.connection.processor
        self.is_final = self.is_final or processor.now_ms >= self.deadline_ms
        self.has_error = False
        by_leader = self._group_by_leader()
        self.reads = [
            PendingRead(self, logstore, self._bytes_max(targets), self.isolation_level, targets)
            for logstore, targets in by_leader.items()
        ]
        self.reads_unanswered = len(self.reads)
        if not self.reads:
            self._settle()
            return
        processor.deadlines.add(self, processor.now_ms + processor.config.read_wait_ms_max)
        for read in self.reads:
            processor.reads.submit(read)

    def _group_by_leader(self) -> dict[Logstore, list[FetchTarget]]:
        processor = self.connection.processor
        by_leader: dict[Logstore, list[FetchTarget]] = {}
        for target in self.targets:
            metadata = processor.image.partition(target.topic_id, target.partition)
            if metadata is None:
                self._fail(target, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                continue
            logstore = processor.logstores.get(metadata.leader)
            if logstore is None or not logstore.read_is_up:
                self._fail(target, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                continue
            target.leader_id = metadata.leader
            by_leader.setdefault(logstore, []).append(target)
        return by_leader

    def _bytes_max(self, targets: list[FetchTarget]) -> int:
        return min(self.max_bytes, sum(target.partition_bytes_max for target in targets))

    def read_answered(self, read: PendingRead, result: ReadResult | None) -> None:
        """A logstore's result, or None when its stream was lost; reading again does no harm, so the client may."""
        read.fetch = None
        if result is None:
            for target in read.targets:
                self._fail(target, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            for partition in result.partitions:
                if 0 <= partition.index < len(read.targets):
                    self._fill(read.targets[partition.index], partition)
        self.reads_unanswered -= 1
        if self.reads_unanswered == 0:
            self._settle()

    def _fill(self, target: FetchTarget, result: ReadPartitionResult) -> None:
        response = target.response
        response.error_code = result.error_code
        response.high_watermark = result.high_watermark
        response.last_stable_offset = result.last_stable_offset
        response.log_start_offset = result.log_start_offset
        response.records = result.records
        target.leader_epoch = result.leader_epoch
        target.fetch_position = result.fetch_position
        if result.error_code:
            processor = self.connection.processor
            if result.leader_epoch >= 0:
                processor.adopt_leader(target.topic_id, target.partition, result.leader_id, result.leader_epoch)
            self._fail(target, result.error_code)

    def _fail(self, target: FetchTarget, error_code: int) -> None:
        self.has_error = True
        response = target.response
        response.error_code = error_code
        response.records = b""
        if error_code in _NAMES_LEADER:
            self._name_leader(target)

    def _name_leader(self, target: FetchTarget) -> None:
        """KIP-951: the leader to try next, as the image has it now, and where it lives."""
        processor = self.connection.processor
        metadata = processor.image.partition(target.topic_id, target.partition)
        if metadata is None:
            return
        target.response.current_leader = LeaderIdAndEpoch(metadata.leader, metadata.leader_epoch)
        endpoints = self.response.node_endpoints
        address = processor.address_of(metadata.leader, self.connection.context)
        if address is not None and all(endpoint.node_id != metadata.leader for endpoint in endpoints):
            endpoints.append(NodeEndpoint(metadata.leader, address.host, address.port, address.rack))

    # --- waiting ---

    def _settle(self) -> None:
        """All reads are answered: respond, or wait for more."""
        processor = self.connection.processor
        byte_count = sum(len(target.response.records or b"") for target in self.targets)
        is_over = self.is_final or self.has_error or processor.now_ms >= self.deadline_ms
        if is_over or byte_count >= self.min_bytes:
            self._respond()
            return
        self._drop_reads()
        if processor.parking.park_fetch(self, list(self.targets)):
            processor.deadlines.add(self, self.deadline_ms + processor.config.deadline_grace_ms)
        else:
            processor.deadlines.add(self, min(self.deadline_ms, processor.now_ms + processor.config.state_poll_ms))

    def conditions(self, targets: list[FetchTarget]) -> list[FetchCondition]:
        return [
            FetchCondition(
                target.topic_id,
                target.partition,
                target.leader_id,
                target.leader_epoch,
                target.fetch_offset,
                target.fetch_position,
                self.isolation_level,
            )
            for target in targets
        ]

    def completed(self, completion: Completion) -> None:
        """Purgatory's word. When nothing came at all, the first answer is still the right one."""
        self.pod = None
        if completion.outcome is Outcome.EXPIRED and self.min_bytes <= 1:
            self._respond()
        else:
            self.is_final = True
            self._read()

    def pod_lost(self) -> None:
        self.pod = None
        self._read()

    # --- the end ---

    def expire(self, now_ms: int) -> None:
        """Purgatory is silent, or a poll without purgatory is due, or a logstore takes too long."""
        if self.reads_unanswered == 0:
            self.connection.processor.parking.cancel(self)
            self._read()
            return
        for read in self.reads:
            if read.fetch is not None:
                self.connection.processor.reads.cancel(read)
                for target in read.targets:
                    self._fail(target, ErrorCode.REQUEST_TIMED_OUT)
        self._respond()

    def cancel(self) -> None:
        self.connection.processor.parking.cancel(self)
        self._drop_reads()

    def _drop_reads(self) -> None:
        """Let go of what the reads brought and of what they hold."""
        for read in self.reads:
            self.connection.processor.reads.cancel(read)
        self.reads = []
        for target in self.targets:
            target.response.records = b""

    def _spend_max_bytes(self) -> None:
        """Several logstores were each asked for `max_bytes`: keep what fits, in the order of the request (KIP-74)."""
        bytes_left = self.max_bytes
        is_first = True
        for target in self.targets:
            size = len(target.response.records or b"")
            if size > bytes_left and not is_first:
                target.response.records = b""
            elif size:
                bytes_left -= size
                is_first = False

    def _respond(self) -> None:
        processor = self.connection.processor
        if len(self.reads) > 1:
            self._spend_max_bytes()
        for read in self.reads:
            self.reserved_bytes += read.reserved_bytes
            read.reserved_bytes = 0
        self.reads = []
        version = self.header.api_version
        if version < _VERSION_WITH_BATCHES:
            magic = MAGIC_1 if version >= _VERSION_WITH_MAGIC_1 else MAGIC_0
            if processor.conversions.convert_down(self, magic):
                return
        processor.requests.respond(self, self.response)

    def converted(self, targets: Sequence[FetchTarget], outcomes: Sequence[DownConverted | ErrorCode]) -> None:
        """What was read is in the client's format now, or can't be."""
        for target, outcome in zip(targets, outcomes, strict=True):
            if isinstance(outcome, DownConverted):
                target.response.records = outcome.records
            else:
                self._fail(target, outcome)
                target.response.high_watermark = -1
        self.connection.processor.requests.respond(self, self.response)
