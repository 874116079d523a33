"""The data channel's messages as the cores see them.

Each class mirrors the message of the same name in `protos/logstore/v1/{data,replication,watch,coordination}.proto` and
`protos/purgatory/v1/purgatory.proto`, field by field; `barnabas.channel.packing` packs and scans them by hand. The
meaning of every field is documented in the protos, once. Buffers are slices of what was received, never copied here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from barnabas.channel.timing import Timed, Times

Buffer = bytes | bytearray | memoryview

# --- gateway → logstore, stream Exchange -----------------------------------------------------------------------------


@dataclass(slots=True)
class Append:
    request_id: int
    topic_id: bytes
    partition: int
    leader_epoch: int
    acks: int
    records: Buffer


@dataclass(slots=True)
class RecordError:
    batch_index: int
    message: str


@dataclass(slots=True)
class AppendResult:
    request_id: int
    error_code: int = 0
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    leader_epoch: int = -1
    leader_id: int = -1
    required_offset: int = -1
    committed: bool = False
    error_message: str = ""
    record_errors: list[RecordError] = field(default_factory=list)
    record_epoch_age: int = 0


@dataclass(slots=True)
class OffsetQuery:
    request_id: int
    topic_id: bytes
    partition: int
    current_leader_epoch: int
    isolation_level: int
    timestamp: int


@dataclass(slots=True)
class OffsetAnswer:
    request_id: int
    error_code: int = 0
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


@dataclass(slots=True)
class PartitionState:
    topic_id: bytes
    partition: int
    leader_epoch: int = -1
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    high_watermark_position: int = -1
    leading: bool = False
    online: bool = False
    in_sync_replicas_at_minimum: bool = False
    earlier_epochs_led: int = 0

    def leads_since(self, leader_epoch: int) -> bool:
        """Whether this logstore leads, and has led without a break since `leader_epoch`."""
        is_leading = self.leading and self.online
        return is_leading and self.leader_epoch - self.earlier_epochs_led <= leader_epoch <= self.leader_epoch


@dataclass(slots=True)
class StateQuery:
    request_id: int
    topic_id: bytes
    partition: int
    leader_epoch: int = -1
    required_offset: int = -1


@dataclass(slots=True)
class StateAnswer:
    request_id: int
    error_code: int
    state: PartitionState | None = None
    holds_append: bool = False


@dataclass(slots=True)
class Hello:
    cluster_id: str
    peer: str


@dataclass(slots=True)
class Welcome:
    node_id: int
    broker_epoch: int


@dataclass(slots=True)
class Credit:
    requests: int
    bytes: int


@dataclass(slots=True)
class ExchangeRequest:
    """One turn of a processor: all that it has for one logstore, except reads."""

    hello: Hello | None = None
    heartbeat: int = 0
    appends: list[Append] = field(default_factory=list)
    offset_queries: list[OffsetQuery] = field(default_factory=list)
    state_queries: list[StateQuery] = field(default_factory=list)
    timed: list[Timed] = field(default_factory=list)


@dataclass(slots=True)
class ExchangeResponse:
    """One turn of a logstore: all that it has for one processor, except reads."""

    welcome: Welcome | None = None
    heartbeat: int = 0
    credit: Credit | None = None
    append_results: list[AppendResult] = field(default_factory=list)
    offset_answers: list[OffsetAnswer] = field(default_factory=list)
    state_answers: list[StateAnswer] = field(default_factory=list)
    times: list[Times] = field(default_factory=list)


# --- gateway → logstore, stream Read ---------------------------------------------------------------------------------


@dataclass(slots=True)
class ReadPartition:
    topic_id: bytes
    partition: int
    current_leader_epoch: int
    fetch_offset: int
    partition_bytes_max: int


@dataclass(slots=True)
class Read:
    request_id: int
    bytes_max: int
    isolation_level: int
    partitions: list[ReadPartition]
    rack_id: str = ""


@dataclass(slots=True)
class ReadPartitionResult:
    index: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    leader_epoch: int = -1
    leader_id: int = -1
    fetch_position: int = -1
    records: Buffer = b""
    preferred_read_replica: int | None = None


@dataclass(slots=True)
class ReadPiece:
    request_id: int
    last: bool
    partitions: list[ReadPartitionResult]


@dataclass(slots=True)
class ReadRequest:
    hello: Hello | None = None
    heartbeat: int = 0
    reads: list[Read] = field(default_factory=list)
    cancels: list[int] = field(default_factory=list)
    timed: list[Timed] = field(default_factory=list)


@dataclass(slots=True)
class ReadResponse:
    welcome: Welcome | None = None
    heartbeat: int = 0
    credit: Credit | None = None
    pieces: list[ReadPiece] = field(default_factory=list)
    times: list[Times] = field(default_factory=list)


# --- purgatory → logstore, stream Watch ------------------------------------------------------------------------------


@dataclass(slots=True)
class WatchedPartition:
    topic_id: bytes
    partition: int


@dataclass(slots=True, frozen=True)
class WatchedGroup:
    topic_id: bytes
    partition: int
    group_id: str


@dataclass(slots=True)
class GroupState:
    topic_id: bytes
    partition: int
    group_id: str
    coordinator_epoch: int = -1
    step: int = 0


@dataclass(slots=True)
class WatchRequest:
    hello: Hello | None = None
    heartbeat: int = 0
    watches: list[WatchedPartition] = field(default_factory=list)
    unwatches: list[WatchedPartition] = field(default_factory=list)
    group_watches: list[WatchedGroup] = field(default_factory=list)
    group_unwatches: list[WatchedGroup] = field(default_factory=list)


@dataclass(slots=True)
class WatchResponse:
    welcome: Welcome | None = None
    heartbeat: int = 0
    states: list[PartitionState] = field(default_factory=list)
    group_states: list[GroupState] = field(default_factory=list)


# --- gateway → coordinator of groups, stream Coordinate --------------------------------------------------------------


@dataclass(slots=True)
class GroupCall:
    request_id: int
    partition: int
    api_key: int
    api_version: int
    client_id: str
    client_host: str
    body: Buffer


@dataclass(slots=True)
class GroupCollect:
    request_id: int
    partition: int
    api_key: int
    api_version: int
    coordinator_epoch: int
    group_id: str
    member_id: str
    generation_id: int


@dataclass(slots=True)
class CoordinateRequest:
    """One turn of a processor: all that it has for one coordinator."""

    hello: Hello | None = None
    heartbeat: int = 0
    calls: list[GroupCall] = field(default_factory=list)
    collects: list[GroupCollect] = field(default_factory=list)
    timed: list[Timed] = field(default_factory=list)


@dataclass(slots=True)
class GroupWait:
    coordinator_epoch: int
    group_id: str
    member_id: str
    generation_id: int
    step: int
    wait_ms_max: int


@dataclass(slots=True)
class GroupAnswer:
    request_id: int
    error_code: int = 0
    body: Buffer = b""
    wait: GroupWait | None = None


@dataclass(slots=True)
class CoordinateResponse:
    welcome: Welcome | None = None
    heartbeat: int = 0
    credit: Credit | None = None
    answers: list[GroupAnswer] = field(default_factory=list)
    times: list[Times] = field(default_factory=list)


# --- follower → leader, stream Replicate -----------------------------------------------------------------------------


@dataclass(slots=True)
class ReplicaHello:
    cluster_id: str
    replica_id: int
    broker_epoch: int


@dataclass(slots=True)
class ReplicaPosition:
    slot: int
    topic_id: bytes
    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


@dataclass(slots=True)
class ReplicaFetch:
    request_id: int
    bytes_max: int
    partition_bytes_max: int
    wait_ms_max: int
    positions: list[ReplicaPosition] = field(default_factory=list)
    forgotten: list[int] = field(default_factory=list)


@dataclass(slots=True)
class ReplicateRequest:
    hello: ReplicaHello | None = None
    heartbeat: int = 0
    fetch: ReplicaFetch | None = None


@dataclass(slots=True)
class ReplicaData:
    slot: int
    error_code: int = 0
    leader_epoch: int = -1
    leader_id: int = -1
    high_watermark: int = -1
    log_start_offset: int = -1
    diverging_epoch: int = -1
    diverging_end_offset: int = -1
    records: Buffer = b""


@dataclass(slots=True)
class ReplicaPiece:
    request_id: int
    last: bool
    partitions: list[ReplicaData]


@dataclass(slots=True)
class ReplicateResponse:
    welcome: Welcome | None = None
    heartbeat: int = 0
    piece: ReplicaPiece | None = None


# --- gateway → purgatory, stream Park --------------------------------------------------------------------------------


class Outcome(IntEnum):
    SATISFIED = 1
    EXPIRED = 2
    FENCED = 3


@dataclass(slots=True)
class ProduceCondition:
    topic_id: bytes
    partition: int
    leader_id: int
    leader_epoch: int
    required_offset: int


@dataclass(slots=True)
class ParkProduce:
    entry_id: int
    wait_ms: int
    conditions: list[ProduceCondition]


@dataclass(slots=True)
class FetchCondition:
    topic_id: bytes
    partition: int
    leader_id: int
    leader_epoch: int
    fetch_offset: int
    fetch_position: int
    isolation_level: int
    from_follower: bool = False


@dataclass(slots=True)
class ParkFetch:
    entry_id: int
    wait_ms: int
    bytes_wanted: int
    conditions: list[FetchCondition]


@dataclass(slots=True)
class ParkGroup:
    entry_id: int
    wait_ms: int
    topic_id: bytes
    partition: int
    leader_id: int
    coordinator_epoch: int
    group_id: str
    step: int


@dataclass(slots=True)
class Completion:
    entry_id: int
    outcome: Outcome
    error_codes: list[int] = field(default_factory=list)


@dataclass(slots=True)
class ParkRequest:
    hello: Hello | None = None
    heartbeat: int = 0
    produces: list[ParkProduce] = field(default_factory=list)
    fetches: list[ParkFetch] = field(default_factory=list)
    cancels: list[int] = field(default_factory=list)
    groups: list[ParkGroup] = field(default_factory=list)
    traced: list[Timed] = field(default_factory=list)


@dataclass(slots=True)
class ParkResponse:
    pod_id: str = ""
    heartbeat: int = 0
    completions: list[Completion] = field(default_factory=list)
