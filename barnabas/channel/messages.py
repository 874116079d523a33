"""The data channel's messages as the cores see them.

Each class mirrors the message of the same name in `protos/barnabas_protos`, in `data.proto`, `replication.proto`,
`watch.proto` and `coordination.proto` of `logstore/v1` and in `purgatory/v1/purgatory.proto`, field by field, with the
types and numbers of its fields in its annotations (`scripts/channel/proto_fields.py` reads them);
`barnabas.channel.generated.packing` packs and scans them. The meaning of every field is documented in the protos, once.
Buffers are slices of what was received, never copied here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from struct import Struct
from typing import Annotated, Final

from barnabas.channel.timing import Timed, Times
from barnabas.wire.file_range import Records

Buffer = bytes | bytearray | memoryview

# --- gateway → logstore, stream Exchange -----------------------------------------------------------------------------


@dataclass(slots=True)
class Append:
    request_id: Annotated[int, "uint64", 1]
    topic_id: Annotated[bytes, "bytes", 2]
    partition: Annotated[int, "uint32", 3]
    leader_epoch: Annotated[int, "sint32", 4]
    acks: Annotated[int, "sint32", 5]
    records: Annotated[Buffer, "bytes", 6]
    verification_guard: Annotated[int, "uint64", 7] = 0
    supports_epoch_bump: Annotated[bool, "bool", 8] = False


@dataclass(slots=True)
class SharedRecords:
    index: Annotated[int, "uint32", 1]
    block: Annotated[int, "uint32", 2]
    length: Annotated[int, "uint32", 3]


@dataclass(slots=True)
class RecordError:
    batch_index: Annotated[int, "uint32", 1]
    message: Annotated[str, "string", 2]


@dataclass(slots=True)
class AppendResult:
    request_id: Annotated[int, "uint64", 1]
    error_code: Annotated[int, "int32", 2] = 0
    base_offset: Annotated[int, "sint64", 3] = -1
    log_append_time_ms: Annotated[int, "sint64", 4] = -1
    log_start_offset: Annotated[int, "sint64", 5] = -1
    leader_epoch: Annotated[int, "sint32", 6] = -1
    leader_id: Annotated[int, "sint32", 7] = -1
    required_offset: Annotated[int, "sint64", 8] = -1
    committed: Annotated[bool, "bool", 9] = False
    error_message: Annotated[str, "string", 10] = ""
    record_errors: Annotated[list[RecordError], "message", 11] = field(default_factory=list)
    record_epoch_age: Annotated[int, "uint32", 12] = 0
    verification_guard: Annotated[int, "uint64", 13] = 0


@dataclass(slots=True)
class OffsetQuery:
    request_id: Annotated[int, "uint64", 1]
    topic_id: Annotated[bytes, "bytes", 2]
    partition: Annotated[int, "uint32", 3]
    current_leader_epoch: Annotated[int, "sint32", 4]
    isolation_level: Annotated[int, "uint32", 5]
    timestamp: Annotated[int, "sint64", 6]


@dataclass(slots=True)
class OffsetAnswer:
    request_id: Annotated[int, "uint64", 1]
    error_code: Annotated[int, "int32", 2] = 0
    timestamp: Annotated[int, "sint64", 3] = -1
    offset: Annotated[int, "sint64", 4] = -1
    leader_epoch: Annotated[int, "sint32", 5] = -1


@dataclass(slots=True)
class PartitionState:
    topic_id: Annotated[bytes, "bytes", 1]
    partition: Annotated[int, "uint32", 2]
    leader_epoch: Annotated[int, "sint32", 3] = -1
    high_watermark: Annotated[int, "sint64", 4] = -1
    last_stable_offset: Annotated[int, "sint64", 5] = -1
    log_start_offset: Annotated[int, "sint64", 6] = -1
    high_watermark_position: Annotated[int, "sint64", 7] = -1
    leading: Annotated[bool, "bool", 8] = False
    online: Annotated[bool, "bool", 9] = False
    in_sync_replicas_at_minimum: Annotated[bool, "bool", 10] = False
    earlier_epochs_led: Annotated[int, "uint32", 11] = 0
    last_stable_position: Annotated[int, "sint64", 12] = 0

    def leads_since(self, leader_epoch: int) -> bool:
        """Whether this logstore leads, and has led without interruption since `leader_epoch`."""
        is_leading = self.leading and self.online
        return is_leading and self.leader_epoch - self.earlier_epochs_led <= leader_epoch <= self.leader_epoch


@dataclass(slots=True)
class StateQuery:
    request_id: Annotated[int, "uint64", 1]
    topic_id: Annotated[bytes, "bytes", 2]
    partition: Annotated[int, "uint32", 3]
    leader_epoch: Annotated[int, "sint32", 4] = -1
    required_offset: Annotated[int, "sint64", 5] = -1


@dataclass(slots=True)
class StateAnswer:
    request_id: Annotated[int, "uint64", 1]
    error_code: Annotated[int, "int32", 2]
    state: Annotated[PartitionState | None, "message", 3] = None
    holds_append: Annotated[bool, "bool", 4] = False


@dataclass(slots=True)
class Hello:
    cluster_id: Annotated[str, "string", 1]
    peer: Annotated[str, "string", 2]


@dataclass(slots=True)
class Welcome:
    node_id: Annotated[int, "int32", 1]
    broker_epoch: Annotated[int, "int64", 2]


@dataclass(slots=True)
class Credit:
    requests: Annotated[int, "uint32", 1]
    bytes: Annotated[int, "uint64", 2]


@dataclass(slots=True)
class ExchangeRequest:
    """One turn of a processor: all its requests to one logstore, except reads."""

    hello: Annotated[Hello | None, "message", 1] = None
    heartbeat: Annotated[int, "uint64", 2] = 0
    appends: Annotated[list[Append], "message", 3] = field(default_factory=list)
    offset_queries: Annotated[list[OffsetQuery], "message", 4] = field(default_factory=list)
    state_queries: Annotated[list[StateQuery], "message", 5] = field(default_factory=list)
    timed: Annotated[list[Timed], "message", 6] = field(default_factory=list)
    shared: Annotated[list[SharedRecords], "message", 7] = field(default_factory=list)


@dataclass(slots=True)
class ExchangeResponse:
    """One turn of a logstore: all its responses to one processor, except reads."""

    welcome: Annotated[Welcome | None, "message", 1] = None
    heartbeat: Annotated[int, "uint64", 2] = 0
    credit: Annotated[Credit | None, "message", 3] = None
    append_results: Annotated[list[AppendResult], "message", 4] = field(default_factory=list)
    offset_answers: Annotated[list[OffsetAnswer], "message", 5] = field(default_factory=list)
    state_answers: Annotated[list[StateAnswer], "message", 6] = field(default_factory=list)
    times: Annotated[list[Times], "message", 7] = field(default_factory=list)


# --- gateway → logstore, stream Read ---------------------------------------------------------------------------------


@dataclass(slots=True)
class ReadPartition:
    topic_id: Annotated[bytes, "bytes", 1]
    partition: Annotated[int, "uint32", 2]
    current_leader_epoch: Annotated[int, "sint32", 3]
    fetch_offset: Annotated[int, "sint64", 4]
    partition_bytes_max: Annotated[int, "uint32", 5]


@dataclass(slots=True)
class Read:
    request_id: Annotated[int, "uint64", 1]
    bytes_max: Annotated[int, "uint32", 2]
    isolation_level: Annotated[int, "uint32", 3]
    partitions: Annotated[list[ReadPartition], "message", 4]
    rack_id: Annotated[str, "string", 5] = ""
    accepts_ranges: Annotated[bool, "bool", 6] = False


@dataclass(slots=True)
class RecordsRange:
    file_number: Annotated[int, "uint64", 1]
    position: Annotated[int, "uint64", 2]
    length: Annotated[int, "uint64", 3]


ABORTED_TRANSACTION: Final = Struct(">qq")
"""Producer id and first offset of one of `ReadPartitionResult.aborted_transactions`."""


@dataclass(slots=True)
class ReadPartitionResult:
    index: Annotated[int, "uint32", 1]
    error_code: Annotated[int, "int32", 2] = 0
    high_watermark: Annotated[int, "sint64", 3] = -1
    last_stable_offset: Annotated[int, "sint64", 4] = -1
    log_start_offset: Annotated[int, "sint64", 5] = -1
    leader_epoch: Annotated[int, "sint32", 6] = -1
    leader_id: Annotated[int, "sint32", 7] = -1
    fetch_position: Annotated[int, "sint64", 8] = -1
    records: Annotated[Records, "bytes", 9] = b""
    preferred_read_replica: Annotated[int | None, "uint32", 10] = None
    records_range: Annotated[RecordsRange | None, "message", 11] = None
    aborted_transactions: Annotated[bytes, "bytes", 12] = b""


@dataclass(slots=True)
class ReadPiece:
    request_id: Annotated[int, "uint64", 1]
    last: Annotated[bool, "bool", 2]
    partitions: Annotated[list[ReadPartitionResult], "message", 3]


@dataclass(slots=True)
class ReadRequest:
    hello: Annotated[Hello | None, "message", 1] = None
    heartbeat: Annotated[int, "uint64", 2] = 0
    reads: Annotated[list[Read], "message", 3] = field(default_factory=list)
    cancels: Annotated[list[int], "uint64", 4] = field(default_factory=list)
    timed: Annotated[list[Timed], "message", 5] = field(default_factory=list)


@dataclass(slots=True)
class ReadResponse:
    welcome: Annotated[Welcome | None, "message", 1] = None
    heartbeat: Annotated[int, "uint64", 2] = 0
    credit: Annotated[Credit | None, "message", 3] = None
    pieces: Annotated[list[ReadPiece], "message", 4] = field(default_factory=list)
    times: Annotated[list[Times], "message", 5] = field(default_factory=list)
    opened_files: Annotated[list[int], "uint64", 6] = field(default_factory=list)
    closed_files: Annotated[list[int], "uint64", 7] = field(default_factory=list)


# --- purgatory → logstore, stream Watch ------------------------------------------------------------------------------


@dataclass(slots=True)
class WatchedPartition:
    topic_id: Annotated[bytes, "bytes", 1]
    partition: Annotated[int, "uint32", 2]


@dataclass(slots=True, frozen=True)
class WatchedGroup:
    topic_id: Annotated[bytes, "bytes", 1]
    partition: Annotated[int, "uint32", 2]
    group_id: Annotated[str, "string", 3]


@dataclass(slots=True)
class GroupState:
    topic_id: Annotated[bytes, "bytes", 1]
    partition: Annotated[int, "uint32", 2]
    group_id: Annotated[str, "string", 3]
    coordinator_epoch: Annotated[int, "sint32", 4] = -1
    step: Annotated[int, "uint64", 5] = 0


@dataclass(slots=True)
class WatchRequest:
    hello: Annotated[Hello | None, "message", 1] = None
    heartbeat: Annotated[int, "uint64", 2] = 0
    watches: Annotated[list[WatchedPartition], "message", 3] = field(default_factory=list)
    unwatches: Annotated[list[WatchedPartition], "message", 4] = field(default_factory=list)
    group_watches: Annotated[list[WatchedGroup], "message", 5] = field(default_factory=list)
    group_unwatches: Annotated[list[WatchedGroup], "message", 6] = field(default_factory=list)


@dataclass(slots=True)
class WatchResponse:
    welcome: Annotated[Welcome | None, "message", 1] = None
    heartbeat: Annotated[int, "uint64", 2] = 0
    states: Annotated[list[PartitionState], "message", 3] = field(default_factory=list)
    group_states: Annotated[list[GroupState], "message", 4] = field(default_factory=list)


# --- gateway → coordinator of groups, stream Coordinate --------------------------------------------------------------


@dataclass(slots=True)
class GroupCall:
    request_id: Annotated[int, "uint64", 1]
    partition: Annotated[int, "uint32", 2]
    api_key: Annotated[int, "uint32", 3]
    api_version: Annotated[int, "uint32", 4]
    client_id: Annotated[str, "string", 5]
    client_host: Annotated[str, "string", 6]
    body: Annotated[Buffer, "bytes", 7]
    verification_guard: Annotated[int, "uint64", 8] = 0


@dataclass(slots=True)
class GroupCollect:
    request_id: Annotated[int, "uint64", 1]
    partition: Annotated[int, "uint32", 2]
    api_key: Annotated[int, "uint32", 3]
    api_version: Annotated[int, "uint32", 4]
    coordinator_epoch: Annotated[int, "sint32", 5]
    group_id: Annotated[str, "string", 6]
    member_id: Annotated[str, "string", 7]
    generation_id: Annotated[int, "sint32", 8]


@dataclass(slots=True)
class CoordinateRequest:
    """One turn of a processor: all its calls to one coordinator."""

    hello: Annotated[Hello | None, "message", 1] = None
    heartbeat: Annotated[int, "uint64", 2] = 0
    calls: Annotated[list[GroupCall], "message", 3] = field(default_factory=list)
    collects: Annotated[list[GroupCollect], "message", 4] = field(default_factory=list)
    timed: Annotated[list[Timed], "message", 5] = field(default_factory=list)


@dataclass(slots=True)
class GroupWait:
    coordinator_epoch: Annotated[int, "sint32", 1]
    group_id: Annotated[str, "string", 2]
    member_id: Annotated[str, "string", 3]
    generation_id: Annotated[int, "sint32", 4]
    step: Annotated[int, "uint64", 5]
    wait_ms_max: Annotated[int, "uint32", 6]


@dataclass(slots=True)
class GroupAnswer:
    request_id: Annotated[int, "uint64", 1]
    error_code: Annotated[int, "int32", 2] = 0
    body: Annotated[Buffer, "bytes", 3] = b""
    wait: Annotated[GroupWait | None, "message", 4] = None
    verification_guard: Annotated[int, "uint64", 5] = 0


@dataclass(slots=True)
class CoordinateResponse:
    welcome: Annotated[Welcome | None, "message", 1] = None
    heartbeat: Annotated[int, "uint64", 2] = 0
    credit: Annotated[Credit | None, "message", 3] = None
    answers: Annotated[list[GroupAnswer], "message", 4] = field(default_factory=list)
    times: Annotated[list[Times], "message", 5] = field(default_factory=list)


# --- follower → leader, stream Replicate -----------------------------------------------------------------------------


@dataclass(slots=True)
class ReplicaHello:
    cluster_id: Annotated[str, "string", 1]
    replica_id: Annotated[int, "int32", 2]
    broker_epoch: Annotated[int, "int64", 3]


@dataclass(slots=True)
class ReplicaPosition:
    slot: Annotated[int, "uint32", 1]
    topic_id: Annotated[bytes, "bytes", 2]
    partition: Annotated[int, "uint32", 3]
    current_leader_epoch: Annotated[int, "sint32", 4]
    fetch_offset: Annotated[int, "sint64", 5]
    last_fetched_epoch: Annotated[int, "sint32", 6]
    log_start_offset: Annotated[int, "sint64", 7]


@dataclass(slots=True)
class ReplicaFetch:
    request_id: Annotated[int, "uint64", 1]
    bytes_max: Annotated[int, "uint32", 2]
    partition_bytes_max: Annotated[int, "uint32", 3]
    wait_ms_max: Annotated[int, "uint32", 4]
    positions: Annotated[list[ReplicaPosition], "message", 5] = field(default_factory=list)
    forgotten: Annotated[list[int], "uint32", 6] = field(default_factory=list)


@dataclass(slots=True)
class ReplicateRequest:
    hello: Annotated[ReplicaHello | None, "message", 1] = None
    heartbeat: Annotated[int, "uint64", 2] = 0
    fetch: Annotated[ReplicaFetch | None, "message", 3] = None


@dataclass(slots=True)
class ReplicaData:
    slot: Annotated[int, "uint32", 1]
    error_code: Annotated[int, "int32", 2] = 0
    leader_epoch: Annotated[int, "sint32", 3] = -1
    leader_id: Annotated[int, "sint32", 4] = -1
    high_watermark: Annotated[int, "sint64", 5] = -1
    log_start_offset: Annotated[int, "sint64", 6] = -1
    diverging_epoch: Annotated[int, "sint32", 7] = -1
    diverging_end_offset: Annotated[int, "sint64", 8] = -1
    records: Annotated[Buffer, "bytes", 9] = b""


@dataclass(slots=True)
class ReplicaPiece:
    request_id: Annotated[int, "uint64", 1]
    last: Annotated[bool, "bool", 2]
    partitions: Annotated[list[ReplicaData], "message", 3]


@dataclass(slots=True)
class ReplicateResponse:
    welcome: Annotated[Welcome | None, "message", 1] = None
    heartbeat: Annotated[int, "uint64", 2] = 0
    piece: Annotated[ReplicaPiece | None, "message", 3] = None
    shared: Annotated[list[SharedRecords], "message", 4] = field(default_factory=list)


# --- gateway → purgatory, stream Park --------------------------------------------------------------------------------


class Outcome(IntEnum):
    SATISFIED = 1
    EXPIRED = 2
    FENCED = 3


@dataclass(slots=True)
class ProduceCondition:
    topic_id: Annotated[bytes, "bytes", 1]
    partition: Annotated[int, "uint32", 2]
    leader_id: Annotated[int, "int32", 3]
    leader_epoch: Annotated[int, "sint32", 4]
    required_offset: Annotated[int, "sint64", 5]


@dataclass(slots=True)
class ParkProduce:
    entry_id: Annotated[int, "uint64", 1]
    wait_ms: Annotated[int, "uint32", 2]
    conditions: Annotated[list[ProduceCondition], "message", 3]


@dataclass(slots=True)
class FetchCondition:
    topic_id: Annotated[bytes, "bytes", 1]
    partition: Annotated[int, "uint32", 2]
    leader_id: Annotated[int, "int32", 3]
    leader_epoch: Annotated[int, "sint32", 4]
    fetch_offset: Annotated[int, "sint64", 5]
    fetch_position: Annotated[int, "sint64", 6]
    isolation_level: Annotated[int, "uint32", 7]
    from_follower: Annotated[bool, "bool", 8] = False


@dataclass(slots=True)
class ParkFetch:
    entry_id: Annotated[int, "uint64", 1]
    wait_ms: Annotated[int, "uint32", 2]
    bytes_wanted: Annotated[int, "uint32", 3]
    conditions: Annotated[list[FetchCondition], "message", 4]


@dataclass(slots=True)
class ParkGroup:
    entry_id: Annotated[int, "uint64", 1]
    wait_ms: Annotated[int, "uint32", 2]
    topic_id: Annotated[bytes, "bytes", 3]
    partition: Annotated[int, "uint32", 4]
    leader_id: Annotated[int, "int32", 5]
    coordinator_epoch: Annotated[int, "sint32", 6]
    group_id: Annotated[str, "string", 7]
    step: Annotated[int, "uint64", 8]


@dataclass(slots=True)
class Completion:
    entry_id: Annotated[int, "uint64", 1]
    outcome: Annotated[Outcome, "enum", 2]
    error_codes: Annotated[list[int], "int32", 3] = field(default_factory=list)


@dataclass(slots=True)
class ParkRequest:
    hello: Annotated[Hello | None, "message", 1] = None
    heartbeat: Annotated[int, "uint64", 2] = 0
    produces: Annotated[list[ParkProduce], "message", 3] = field(default_factory=list)
    fetches: Annotated[list[ParkFetch], "message", 4] = field(default_factory=list)
    cancels: Annotated[list[int], "uint64", 5] = field(default_factory=list)
    groups: Annotated[list[ParkGroup], "message", 6] = field(default_factory=list)
    traced: Annotated[list[Timed], "message", 7] = field(default_factory=list)


@dataclass(slots=True)
class ParkResponse:
    pod_id: Annotated[str, "string", 1] = ""
    heartbeat: Annotated[int, "uint64", 2] = 0
    completions: Annotated[list[Completion], "message", 3] = field(default_factory=list)
