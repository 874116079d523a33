"""Pack and scan the messages of the data channel, byte-equal to protobuf (tests hold it).

Made by scripts/packing: do not edit. For each message M of a stream: `pack_m(message) -> bytes` and
`scan_m(data) -> M`, which raises MalformedMessage. `Buffer` fields of a scanned message are slices of `data`.
Why not protobuf: its objects copy on every read and refuse memoryview; 1 MB costs about 4.9 ms through them.
"""

from __future__ import annotations

from typing import Any, Final

from barnabas.channel.messages import (
    Append,
    AppendResult,
    Completion,
    CoordinateRequest,
    CoordinateResponse,
    Credit,
    ExchangeRequest,
    ExchangeResponse,
    FetchCondition,
    GroupAnswer,
    GroupCall,
    GroupCollect,
    GroupState,
    GroupWait,
    Hello,
    OffsetAnswer,
    OffsetQuery,
    Outcome,
    ParkFetch,
    ParkGroup,
    ParkProduce,
    ParkRequest,
    ParkResponse,
    PartitionState,
    ProduceCondition,
    Read,
    ReadPartition,
    ReadPartitionResult,
    ReadPiece,
    ReadRequest,
    ReadResponse,
    RecordError,
    RecordsRange,
    ReplicaData,
    ReplicaFetch,
    ReplicaHello,
    ReplicaPiece,
    ReplicaPosition,
    ReplicateRequest,
    ReplicateResponse,
    SharedRecords,
    StateAnswer,
    StateQuery,
    WatchRequest,
    WatchResponse,
    WatchedGroup,
    WatchedPartition,
    Welcome,
)
from barnabas.channel.timing import (
    Timed,
    Times,
)
from barnabas.channel.packing_primitives import (
    MalformedMessage,
    SHORT_VARINTS,
    long_varint,
    packed_ints,
    packed_uints,
    scan_string,
    scan_varints,
    signed32,
    signed64,
    skip_unknown,
    truncated,
    varint,
)

__all__ = [
    "MalformedMessage",
    "pack_coordinate_request",
    "pack_coordinate_response",
    "pack_exchange_request",
    "pack_exchange_response",
    "pack_park_request",
    "pack_park_response",
    "pack_read_request",
    "pack_read_response",
    "pack_replicate_request",
    "pack_replicate_response",
    "pack_watch_request",
    "pack_watch_response",
    "scan_coordinate_request",
    "scan_coordinate_response",
    "scan_exchange_request",
    "scan_exchange_response",
    "scan_park_request",
    "scan_park_response",
    "scan_read_request",
    "scan_read_response",
    "scan_replicate_request",
    "scan_replicate_response",
    "scan_watch_request",
    "scan_watch_response",
]

_MEMBERS_OF_OUTCOME: Final = {int(member): member for member in Outcome}


def _scan_Hello(data: bytes, position: int, end: int, known: Hello | None = None) -> Hello:
    f_cluster_id: str = ''
    f_peer: str = ''
    if known is not None:
        f_cluster_id = known.cluster_id
        f_peer = known.peer
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x0a:
                f_cluster_id = scan_string(data, position, value)
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x12:
                f_peer = scan_string(data, position, value)
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {10, 18}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('Hello')
    return Hello(f_cluster_id, f_peer)


def _scan_Append(data: bytes, view: memoryview, position: int, end: int, known: Append | None = None) -> Append:
    f_request_id: int = 0
    f_topic_id: bytes = b''
    f_partition: int = 0
    f_leader_epoch: int = 0
    f_acks: int = 0
    f_records: Any = b''
    f_verification_guard: int = 0
    f_supports_epoch_bump: bool = False
    if known is not None:
        f_request_id = known.request_id
        f_topic_id = known.topic_id
        f_partition = known.partition
        f_leader_epoch = known.leader_epoch
        f_acks = known.acks
        f_records = known.records
        f_verification_guard = known.verification_guard
        f_supports_epoch_bump = known.supports_epoch_bump
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x08:
                f_request_id = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x12:
                f_topic_id = data[position : position + value]
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x18:
                f_partition = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x20:
                f_leader_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x28:
                f_acks = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x32:
                f_records = view[position : position + value]
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x38:
                f_verification_guard = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x40:
                f_supports_epoch_bump = value != 0
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {32, 64, 8, 40, 18, 50, 24, 56}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('Append')
    return Append(f_request_id, f_topic_id, f_partition, f_leader_epoch, f_acks, f_records, f_verification_guard, f_supports_epoch_bump)


def _scan_OffsetQuery(data: bytes, position: int, end: int, known: OffsetQuery | None = None) -> OffsetQuery:
    f_request_id: int = 0
    f_topic_id: bytes = b''
    f_partition: int = 0
    f_current_leader_epoch: int = 0
    f_isolation_level: int = 0
    f_timestamp: int = 0
    if known is not None:
        f_request_id = known.request_id
        f_topic_id = known.topic_id
        f_partition = known.partition
        f_current_leader_epoch = known.current_leader_epoch
        f_isolation_level = known.isolation_level
        f_timestamp = known.timestamp
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x08:
                f_request_id = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x12:
                f_topic_id = data[position : position + value]
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x18:
                f_partition = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x20:
                f_current_leader_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x28:
                f_isolation_level = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x30:
                f_timestamp = value >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {32, 48, 18, 8, 24, 40}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('OffsetQuery')
    return OffsetQuery(f_request_id, f_topic_id, f_partition, f_current_leader_epoch, f_isolation_level, f_timestamp)


def _scan_StateQuery(data: bytes, position: int, end: int, known: StateQuery | None = None) -> StateQuery:
    f_request_id: int = 0
    f_topic_id: bytes = b''
    f_partition: int = 0
    f_leader_epoch: int = 0
    f_required_offset: int = 0
    if known is not None:
        f_request_id = known.request_id
        f_topic_id = known.topic_id
        f_partition = known.partition
        f_leader_epoch = known.leader_epoch
        f_required_offset = known.required_offset
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x08:
                f_request_id = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x12:
                f_topic_id = data[position : position + value]
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x18:
                f_partition = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x20:
                f_leader_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x28:
                f_required_offset = value >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {32, 18, 8, 24, 40}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('StateQuery')
    return StateQuery(f_request_id, f_topic_id, f_partition, f_leader_epoch, f_required_offset)


def _scan_Timed(data: bytes, position: int, end: int, known: Timed | None = None) -> Timed:
    f_request_id: int = 0
    f_trace_id: bytes = b''
    f_span_id: bytes = b''
    if known is not None:
        f_request_id = known.request_id
        f_trace_id = known.trace_id
        f_span_id = known.span_id
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x08:
                f_request_id = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x12:
                f_trace_id = data[position : position + value]
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x1a:
                f_span_id = data[position : position + value]
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {8, 18, 26}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('Timed')
    return Timed(f_request_id, f_trace_id, f_span_id)


def _scan_SharedRecords(data: bytes, position: int, end: int, known: SharedRecords | None = None) -> SharedRecords:
    f_index: int = 0
    f_block: int = 0
    f_length: int = 0
    if known is not None:
        f_index = known.index
        f_block = known.block
        f_length = known.length
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x08:
                f_index = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x10:
                f_block = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x18:
                f_length = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {8, 16, 24}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('SharedRecords')
    return SharedRecords(f_index, f_block, f_length)


def _scan_Welcome(data: bytes, position: int, end: int, known: Welcome | None = None) -> Welcome:
    f_node_id: int = 0
    f_broker_epoch: int = 0
    if known is not None:
        f_node_id = known.node_id
        f_broker_epoch = known.broker_epoch
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x08:
                f_node_id = value if value < 0x8000_0000 else signed32(value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x10:
                f_broker_epoch = signed64(value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {8, 16}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('Welcome')
    return Welcome(f_node_id, f_broker_epoch)


def _scan_Credit(data: bytes, position: int, end: int, known: Credit | None = None) -> Credit:
    f_requests: int = 0
    f_bytes: int = 0
    if known is not None:
        f_requests = known.requests
        f_bytes = known.bytes
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x08:
                f_requests = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x10:
                f_bytes = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {8, 16}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('Credit')
    return Credit(f_requests, f_bytes)


def _scan_RecordError(data: bytes, position: int, end: int, known: RecordError | None = None) -> RecordError:
    f_batch_index: int = 0
    f_message: str = ''
    if known is not None:
        f_batch_index = known.batch_index
        f_message = known.message
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x08:
                f_batch_index = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x12:
                f_message = scan_string(data, position, value)
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {8, 18}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('RecordError')
    return RecordError(f_batch_index, f_message)


def _scan_AppendResult(data: bytes, position: int, end: int, known: AppendResult | None = None) -> AppendResult:
    f_request_id: int = 0
    f_error_code: int = 0
    f_base_offset: int = 0
    f_log_append_time_ms: int = 0
    f_log_start_offset: int = 0
    f_leader_epoch: int = 0
    f_leader_id: int = 0
    f_required_offset: int = 0
    f_committed: bool = False
    f_error_message: str = ''
    f_record_errors: list[RecordError] = []
    f_record_epoch_age: int = 0
    f_verification_guard: int = 0
    if known is not None:
        f_request_id = known.request_id
        f_error_code = known.error_code
        f_base_offset = known.base_offset
        f_log_append_time_ms = known.log_append_time_ms
        f_log_start_offset = known.log_start_offset
        f_leader_epoch = known.leader_epoch
        f_leader_id = known.leader_id
        f_required_offset = known.required_offset
        f_committed = known.committed
        f_error_message = known.error_message
        f_record_errors = known.record_errors
        f_record_epoch_age = known.record_epoch_age
        f_verification_guard = known.verification_guard
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x08:
                f_request_id = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x10:
                f_error_code = value if value < 0x8000_0000 else signed32(value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x18:
                f_base_offset = value >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x20:
                f_log_append_time_ms = value >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x28:
                f_log_start_offset = value >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x30:
                f_leader_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x38:
                f_leader_id = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x40:
                f_required_offset = value >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x48:
                f_committed = value != 0
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x52:
                f_error_message = scan_string(data, position, value)
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x5a:
                while True:
                    f_record_errors.append(_scan_RecordError(data, position, position + value))
                    position += value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                    if tag != 0x5a:
                        break
                if tag == 0x5a:
                    break
            if tag == 0x60:
                f_record_epoch_age = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x68:
                f_verification_guard = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {32, 64, 96, 90, 8, 40, 72, 104, 16, 48, 82, 24, 56}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('AppendResult')
    return AppendResult(f_request_id, f_error_code, f_base_offset, f_log_append_time_ms, f_log_start_offset, f_leader_epoch, f_leader_id, f_required_offset, f_committed, f_error_message, f_record_errors, f_record_epoch_age, f_verification_guard)


def _scan_OffsetAnswer(data: bytes, position: int, end: int, known: OffsetAnswer | None = None) -> OffsetAnswer:
    f_request_id: int = 0
    f_error_code: int = 0
    f_timestamp: int = 0
    f_offset: int = 0
    f_leader_epoch: int = 0
    if known is not None:
        f_request_id = known.request_id
        f_error_code = known.error_code
        f_timestamp = known.timestamp
        f_offset = known.offset
        f_leader_epoch = known.leader_epoch
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x08:
                f_request_id = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x10:
                f_error_code = value if value < 0x8000_0000 else signed32(value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x18:
                f_timestamp = value >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x20:
                f_offset = value >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x28:
                f_leader_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {32, 16, 8, 24, 40}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('OffsetAnswer')
    return OffsetAnswer(f_request_id, f_error_code, f_timestamp, f_offset, f_leader_epoch)


def _scan_PartitionState(data: bytes, position: int, end: int, known: PartitionState | None = None) -> PartitionState:
    f_topic_id: bytes = b''
    f_partition: int = 0
    f_leader_epoch: int = 0
    f_high_watermark: int = 0
    f_last_stable_offset: int = 0
    f_log_start_offset: int = 0
    f_high_watermark_position: int = 0
    f_leading: bool = False
    f_online: bool = False
    f_in_sync_replicas_at_minimum: bool = False
    f_earlier_epochs_led: int = 0
    f_last_stable_position: int = 0
    if known is not None:
        f_topic_id = known.topic_id
        f_partition = known.partition
        f_leader_epoch = known.leader_epoch
        f_high_watermark = known.high_watermark
        f_last_stable_offset = known.last_stable_offset
        f_log_start_offset = known.log_start_offset
        f_high_watermark_position = known.high_watermark_position
        f_leading = known.leading
        f_online = known.online
        f_in_sync_replicas_at_minimum = known.in_sync_replicas_at_minimum
        f_earlier_epochs_led = known.earlier_epochs_led
        f_last_stable_position = known.last_stable_position
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x0a:
                f_topic_id = data[position : position + value]
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x10:
                f_partition = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x18:
                f_leader_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x20:
                f_high_watermark = value >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x28:
                f_last_stable_offset = value >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x30:
                f_log_start_offset = value >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x38:
                f_high_watermark_position = value >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x40:
                f_leading = value != 0
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x48:
                f_online = value != 0
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x50:
                f_in_sync_replicas_at_minimum = value != 0
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x58:
                f_earlier_epochs_led = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x60:
                f_last_stable_position = value >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {32, 64, 96, 40, 72, 10, 16, 48, 80, 24, 56, 88}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('PartitionState')
    return PartitionState(f_topic_id, f_partition, f_leader_epoch, f_high_watermark, f_last_stable_offset, f_log_start_offset, f_high_watermark_position, f_leading, f_online, f_in_sync_replicas_at_minimum, f_earlier_epochs_led, f_last_stable_position)


def _scan_StateAnswer(data: bytes, position: int, end: int, known: StateAnswer | None = None) -> StateAnswer:
    f_request_id: int = 0
    f_error_code: int = 0
    f_state: PartitionState | None = None
    f_holds_append: bool = False
    if known is not None:
        f_request_id = known.request_id
        f_error_code = known.error_code
        f_state = known.state
        f_holds_append = known.holds_append
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x08:
                f_request_id = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x10:
                f_error_code = value if value < 0x8000_0000 else signed32(value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x1a:
                f_state = _scan_PartitionState(data, position, position + value, f_state)
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x20:
                f_holds_append = value != 0
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {8, 16, 26, 32}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('StateAnswer')
    return StateAnswer(f_request_id, f_error_code, f_state, f_holds_append)


def _scan_Times(data: bytes, position: int, end: int, known: Times | None = None) -> Times:
    f_request_id: int = 0
    f_queue_us: int = 0
    f_work_us: int = 0
    f_wait_us: int = 0
    if known is not None:
        f_request_id = known.request_id
        f_queue_us = known.queue_us
        f_work_us = known.work_us
        f_wait_us = known.wait_us
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x08:
                f_request_id = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x10:
                f_queue_us = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x18:
                f_work_us = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x20:
                f_wait_us = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {8, 16, 32, 24}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('Times')
    return Times(f_request_id, f_queue_us, f_work_us, f_wait_us)


def _scan_ReadPartition(data: bytes, position: int, end: int, known: ReadPartition | None = None) -> ReadPartition:
    f_topic_id: bytes = b''
    f_partition: int = 0
    f_current_leader_epoch: int = 0
    f_fetch_offset: int = 0
    f_partition_bytes_max: int = 0
    if known is not None:
        f_topic_id = known.topic_id
        f_partition = known.partition
        f_current_leader_epoch = known.current_leader_epoch
        f_fetch_offset = known.fetch_offset
        f_partition_bytes_max = known.partition_bytes_max
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x0a:
                f_topic_id = data[position : position + value]
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x10:
                f_partition = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x18:
                f_current_leader_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x20:
                f_fetch_offset = value >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x28:
                f_partition_bytes_max = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {32, 16, 40, 24, 10}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('ReadPartition')
    return ReadPartition(f_topic_id, f_partition, f_current_leader_epoch, f_fetch_offset, f_partition_bytes_max)


def _scan_Read(data: bytes, position: int, end: int, known: Read | None = None) -> Read:
    f_request_id: int = 0
    f_bytes_max: int = 0
    f_isolation_level: int = 0
    f_partitions: list[ReadPartition] = []
    f_rack_id: str = ''
    f_accepts_ranges: bool = False
    if known is not None:
        f_request_id = known.request_id
        f_bytes_max = known.bytes_max
        f_isolation_level = known.isolation_level
        f_partitions = known.partitions
        f_rack_id = known.rack_id
        f_accepts_ranges = known.accepts_ranges
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x08:
                f_request_id = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x10:
                f_bytes_max = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x18:
                f_isolation_level = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x22:
                while True:
                    f_partitions.append(_scan_ReadPartition(data, position, position + value))
                    position += value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                    if tag != 0x22:
                        break
                if tag == 0x22:
                    break
            if tag == 0x2a:
                f_rack_id = scan_string(data, position, value)
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x30:
                f_accepts_ranges = value != 0
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {16, 48, 34, 8, 24, 42}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('Read')
    return Read(f_request_id, f_bytes_max, f_isolation_level, f_partitions, f_rack_id, f_accepts_ranges)


def _scan_RecordsRange(data: bytes, position: int, end: int, known: RecordsRange | None = None) -> RecordsRange:
    f_file_number: int = 0
    f_position: int = 0
    f_length: int = 0
    if known is not None:
        f_file_number = known.file_number
        f_position = known.position
        f_length = known.length
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x08:
                f_file_number = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x10:
                f_position = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x18:
                f_length = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {8, 16, 24}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('RecordsRange')
    return RecordsRange(f_file_number, f_position, f_length)


def _scan_ReadPartitionResult(data: bytes, view: memoryview, position: int, end: int, known: ReadPartitionResult | None = None) -> ReadPartitionResult:
    f_index: int = 0
    f_error_code: int = 0
    f_high_watermark: int = 0
    f_last_stable_offset: int = 0
    f_log_start_offset: int = 0
    f_leader_epoch: int = 0
    f_leader_id: int = 0
    f_fetch_position: int = 0
    f_records: Any = b''
    f_preferred_read_replica: int | None = None
    f_records_range: RecordsRange | None = None
    f_aborted_transactions: bytes = b''
    if known is not None:
        f_index = known.index
        f_error_code = known.error_code
        f_high_watermark = known.high_watermark
        f_last_stable_offset = known.last_stable_offset
        f_log_start_offset = known.log_start_offset
        f_leader_epoch = known.leader_epoch
        f_leader_id = known.leader_id
        f_fetch_position = known.fetch_position
        f_records = known.records
        f_preferred_read_replica = known.preferred_read_replica
        f_records_range = known.records_range
        f_aborted_transactions = known.aborted_transactions
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x08:
                f_index = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x10:
                f_error_code = value if value < 0x8000_0000 else signed32(value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x18:
                f_high_watermark = value >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x20:
                f_last_stable_offset = value >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x28:
                f_log_start_offset = value >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x30:
                f_leader_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x38:
                f_leader_id = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x40:
                f_fetch_position = value >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x4a:
                f_records = view[position : position + value]
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x50:
                f_preferred_read_replica = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x5a:
                f_records_range = _scan_RecordsRange(data, position, position + value, f_records_range)
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x62:
                f_aborted_transactions = data[position : position + value]
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {32, 64, 98, 90, 8, 40, 74, 16, 48, 80, 24, 56}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('ReadPartitionResult')
    return ReadPartitionResult(f_index, f_error_code, f_high_watermark, f_last_stable_offset, f_log_start_offset, f_leader_epoch, f_leader_id, f_fetch_position, f_records, f_preferred_read_replica, f_records_range, f_aborted_transactions)


def _scan_ReadPiece(data: bytes, view: memoryview, position: int, end: int, known: ReadPiece | None = None) -> ReadPiece:
    f_request_id: int = 0
    f_last: bool = False
    f_partitions: list[ReadPartitionResult] = []
    if known is not None:
        f_request_id = known.request_id
        f_last = known.last
        f_partitions = known.partitions
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x08:
                f_request_id = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x10:
                f_last = value != 0
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x1a:
                while True:
                    f_partitions.append(_scan_ReadPartitionResult(data, view, position, position + value))
                    position += value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                    if tag != 0x1a:
                        break
                if tag == 0x1a:
                    break
            if tag not in {8, 16, 26}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('ReadPiece')
    return ReadPiece(f_request_id, f_last, f_partitions)


def _scan_ReplicaHello(data: bytes, position: int, end: int, known: ReplicaHello | None = None) -> ReplicaHello:
    f_cluster_id: str = ''
    f_replica_id: int = 0
    f_broker_epoch: int = 0
    if known is not None:
        f_cluster_id = known.cluster_id
        f_replica_id = known.replica_id
        f_broker_epoch = known.broker_epoch
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x0a:
                f_cluster_id = scan_string(data, position, value)
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x10:
                f_replica_id = value if value < 0x8000_0000 else signed32(value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x18:
                f_broker_epoch = signed64(value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {16, 24, 10}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('ReplicaHello')
    return ReplicaHello(f_cluster_id, f_replica_id, f_broker_epoch)


def _scan_ReplicaPosition(data: bytes, position: int, end: int, known: ReplicaPosition | None = None) -> ReplicaPosition:
    f_slot: int = 0
    f_topic_id: bytes = b''
    f_partition: int = 0
    f_current_leader_epoch: int = 0
    f_fetch_offset: int = 0
    f_last_fetched_epoch: int = 0
    f_log_start_offset: int = 0
    if known is not None:
        f_slot = known.slot
        f_topic_id = known.topic_id
        f_partition = known.partition
        f_current_leader_epoch = known.current_leader_epoch
        f_fetch_offset = known.fetch_offset
        f_last_fetched_epoch = known.last_fetched_epoch
        f_log_start_offset = known.log_start_offset
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x08:
                f_slot = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x12:
                f_topic_id = data[position : position + value]
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x18:
                f_partition = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x20:
                f_current_leader_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x28:
                f_fetch_offset = value >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x30:
                f_last_fetched_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x38:
                f_log_start_offset = value >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {32, 48, 18, 56, 8, 24, 40}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('ReplicaPosition')
    return ReplicaPosition(f_slot, f_topic_id, f_partition, f_current_leader_epoch, f_fetch_offset, f_last_fetched_epoch, f_log_start_offset)


def _scan_ReplicaFetch(data: bytes, position: int, end: int, known: ReplicaFetch | None = None) -> ReplicaFetch:
    f_request_id: int = 0
    f_bytes_max: int = 0
    f_partition_bytes_max: int = 0
    f_wait_ms_max: int = 0
    f_positions: list[ReplicaPosition] = []
    f_forgotten: list[int] = []
    if known is not None:
        f_request_id = known.request_id
        f_bytes_max = known.bytes_max
        f_partition_bytes_max = known.partition_bytes_max
        f_wait_ms_max = known.wait_ms_max
        f_positions = known.positions
        f_forgotten = known.forgotten
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x08:
                f_request_id = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x10:
                f_bytes_max = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x18:
                f_partition_bytes_max = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x20:
                f_wait_ms_max = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x2a:
                while True:
                    f_positions.append(_scan_ReplicaPosition(data, position, position + value))
                    position += value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                    if tag != 0x2a:
                        break
                if tag == 0x2a:
                    break
            if tag == 0x32:
                f_forgotten += [each & 0xFFFF_FFFF for each in scan_varints(data, position, position + value)]
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x30:
                f_forgotten.append(value & 0xFFFF_FFFF)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {32, 16, 50, 48, 8, 24, 42}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('ReplicaFetch')
    return ReplicaFetch(f_request_id, f_bytes_max, f_partition_bytes_max, f_wait_ms_max, f_positions, f_forgotten)


def _scan_ReplicaData(data: bytes, view: memoryview, position: int, end: int, known: ReplicaData | None = None) -> ReplicaData:
    f_slot: int = 0
    f_error_code: int = 0
    f_leader_epoch: int = 0
    f_leader_id: int = 0
    f_high_watermark: int = 0
    f_log_start_offset: int = 0
    f_diverging_epoch: int = 0
    f_diverging_end_offset: int = 0
    f_records: Any = b''
    if known is not None:
        f_slot = known.slot
        f_error_code = known.error_code
        f_leader_epoch = known.leader_epoch
        f_leader_id = known.leader_id
        f_high_watermark = known.high_watermark
        f_log_start_offset = known.log_start_offset
        f_diverging_epoch = known.diverging_epoch
        f_diverging_end_offset = known.diverging_end_offset
        f_records = known.records
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x08:
                f_slot = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x10:
                f_error_code = value if value < 0x8000_0000 else signed32(value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x18:
                f_leader_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x20:
                f_leader_id = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x28:
                f_high_watermark = value >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x30:
                f_log_start_offset = value >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x38:
                f_diverging_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x40:
                f_diverging_end_offset = value >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x4a:
                f_records = view[position : position + value]
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {32, 64, 8, 40, 74, 16, 48, 24, 56}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('ReplicaData')
    return ReplicaData(f_slot, f_error_code, f_leader_epoch, f_leader_id, f_high_watermark, f_log_start_offset, f_diverging_epoch, f_diverging_end_offset, f_records)


def _scan_ReplicaPiece(data: bytes, view: memoryview, position: int, end: int, known: ReplicaPiece | None = None) -> ReplicaPiece:
    f_request_id: int = 0
    f_last: bool = False
    f_partitions: list[ReplicaData] = []
    if known is not None:
        f_request_id = known.request_id
        f_last = known.last
        f_partitions = known.partitions
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x08:
                f_request_id = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x10:
                f_last = value != 0
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x1a:
                while True:
                    f_partitions.append(_scan_ReplicaData(data, view, position, position + value))
                    position += value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                    if tag != 0x1a:
                        break
                if tag == 0x1a:
                    break
            if tag not in {8, 16, 26}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('ReplicaPiece')
    return ReplicaPiece(f_request_id, f_last, f_partitions)


def _scan_GroupCall(data: bytes, view: memoryview, position: int, end: int, known: GroupCall | None = None) -> GroupCall:
    f_request_id: int = 0
    f_partition: int = 0
    f_api_key: int = 0
    f_api_version: int = 0
    f_client_id: str = ''
    f_client_host: str = ''
    f_body: Any = b''
    f_verification_guard: int = 0
    if known is not None:
        f_request_id = known.request_id
        f_partition = known.partition
        f_api_key = known.api_key
        f_api_version = known.api_version
        f_client_id = known.client_id
        f_client_host = known.client_host
        f_body = known.body
        f_verification_guard = known.verification_guard
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x08:
                f_request_id = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x10:
                f_partition = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x18:
                f_api_key = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x20:
                f_api_version = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x2a:
                f_client_id = scan_string(data, position, value)
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x32:
                f_client_host = scan_string(data, position, value)
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x3a:
                f_body = view[position : position + value]
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x40:
                f_verification_guard = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {32, 64, 8, 42, 16, 50, 24, 58}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('GroupCall')
    return GroupCall(f_request_id, f_partition, f_api_key, f_api_version, f_client_id, f_client_host, f_body, f_verification_guard)


def _scan_GroupCollect(data: bytes, position: int, end: int, known: GroupCollect | None = None) -> GroupCollect:
    f_request_id: int = 0
    f_partition: int = 0
    f_api_key: int = 0
    f_api_version: int = 0
    f_coordinator_epoch: int = 0
    f_group_id: str = ''
    f_member_id: str = ''
    f_generation_id: int = 0
    if known is not None:
        f_request_id = known.request_id
        f_partition = known.partition
        f_api_key = known.api_key
        f_api_version = known.api_version
        f_coordinator_epoch = known.coordinator_epoch
        f_group_id = known.group_id
        f_member_id = known.member_id
        f_generation_id = known.generation_id
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x08:
                f_request_id = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x10:
                f_partition = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x18:
                f_api_key = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x20:
                f_api_version = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x28:
                f_coordinator_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x32:
                f_group_id = scan_string(data, position, value)
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x3a:
                f_member_id = scan_string(data, position, value)
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x40:
                f_generation_id = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {32, 64, 8, 40, 16, 50, 24, 58}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('GroupCollect')
    return GroupCollect(f_request_id, f_partition, f_api_key, f_api_version, f_coordinator_epoch, f_group_id, f_member_id, f_generation_id)


def _scan_GroupWait(data: bytes, position: int, end: int, known: GroupWait | None = None) -> GroupWait:
    f_coordinator_epoch: int = 0
    f_group_id: str = ''
    f_member_id: str = ''
    f_generation_id: int = 0
    f_step: int = 0
    f_wait_ms_max: int = 0
    if known is not None:
        f_coordinator_epoch = known.coordinator_epoch
        f_group_id = known.group_id
        f_member_id = known.member_id
        f_generation_id = known.generation_id
        f_step = known.step
        f_wait_ms_max = known.wait_ms_max
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x08:
                f_coordinator_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x12:
                f_group_id = scan_string(data, position, value)
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x1a:
                f_member_id = scan_string(data, position, value)
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x20:
                f_generation_id = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x28:
                f_step = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x30:
                f_wait_ms_max = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {32, 48, 18, 26, 8, 40}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('GroupWait')
    return GroupWait(f_coordinator_epoch, f_group_id, f_member_id, f_generation_id, f_step, f_wait_ms_max)


def _scan_GroupAnswer(data: bytes, view: memoryview, position: int, end: int, known: GroupAnswer | None = None) -> GroupAnswer:
    f_request_id: int = 0
    f_error_code: int = 0
    f_body: Any = b''
    f_wait: GroupWait | None = None
    f_verification_guard: int = 0
    if known is not None:
        f_request_id = known.request_id
        f_error_code = known.error_code
        f_body = known.body
        f_wait = known.wait
        f_verification_guard = known.verification_guard
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x08:
                f_request_id = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x10:
                f_error_code = value if value < 0x8000_0000 else signed32(value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x1a:
                f_body = view[position : position + value]
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x22:
                f_wait = _scan_GroupWait(data, position, position + value, f_wait)
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x28:
                f_verification_guard = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {16, 34, 26, 8, 40}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('GroupAnswer')
    return GroupAnswer(f_request_id, f_error_code, f_body, f_wait, f_verification_guard)


def _scan_ProduceCondition(data: bytes, position: int, end: int, known: ProduceCondition | None = None) -> ProduceCondition:
    f_topic_id: bytes = b''
    f_partition: int = 0
    f_leader_id: int = 0
    f_leader_epoch: int = 0
    f_required_offset: int = 0
    if known is not None:
        f_topic_id = known.topic_id
        f_partition = known.partition
        f_leader_id = known.leader_id
        f_leader_epoch = known.leader_epoch
        f_required_offset = known.required_offset
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x0a:
                f_topic_id = data[position : position + value]
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x10:
                f_partition = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x18:
                f_leader_id = value if value < 0x8000_0000 else signed32(value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x20:
                f_leader_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x28:
                f_required_offset = value >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {32, 16, 40, 24, 10}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('ProduceCondition')
    return ProduceCondition(f_topic_id, f_partition, f_leader_id, f_leader_epoch, f_required_offset)


def _scan_ParkProduce(data: bytes, position: int, end: int, known: ParkProduce | None = None) -> ParkProduce:
    f_entry_id: int = 0
    f_wait_ms: int = 0
    f_conditions: list[ProduceCondition] = []
    if known is not None:
        f_entry_id = known.entry_id
        f_wait_ms = known.wait_ms
        f_conditions = known.conditions
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x08:
                f_entry_id = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x10:
                f_wait_ms = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x1a:
                while True:
                    f_conditions.append(_scan_ProduceCondition(data, position, position + value))
                    position += value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                    if tag != 0x1a:
                        break
                if tag == 0x1a:
                    break
            if tag not in {8, 16, 26}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('ParkProduce')
    return ParkProduce(f_entry_id, f_wait_ms, f_conditions)


def _scan_FetchCondition(data: bytes, position: int, end: int, known: FetchCondition | None = None) -> FetchCondition:
    f_topic_id: bytes = b''
    f_partition: int = 0
    f_leader_id: int = 0
    f_leader_epoch: int = 0
    f_fetch_offset: int = 0
    f_fetch_position: int = 0
    f_isolation_level: int = 0
    f_from_follower: bool = False
    if known is not None:
        f_topic_id = known.topic_id
        f_partition = known.partition
        f_leader_id = known.leader_id
        f_leader_epoch = known.leader_epoch
        f_fetch_offset = known.fetch_offset
        f_fetch_position = known.fetch_position
        f_isolation_level = known.isolation_level
        f_from_follower = known.from_follower
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x0a:
                f_topic_id = data[position : position + value]
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x10:
                f_partition = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x18:
                f_leader_id = value if value < 0x8000_0000 else signed32(value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x20:
                f_leader_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x28:
                f_fetch_offset = value >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x30:
                f_fetch_position = value >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x38:
                f_isolation_level = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x40:
                f_from_follower = value != 0
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {32, 64, 40, 10, 16, 48, 24, 56}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('FetchCondition')
    return FetchCondition(f_topic_id, f_partition, f_leader_id, f_leader_epoch, f_fetch_offset, f_fetch_position, f_isolation_level, f_from_follower)


def _scan_ParkFetch(data: bytes, position: int, end: int, known: ParkFetch | None = None) -> ParkFetch:
    f_entry_id: int = 0
    f_wait_ms: int = 0
    f_bytes_wanted: int = 0
    f_conditions: list[FetchCondition] = []
    if known is not None:
        f_entry_id = known.entry_id
        f_wait_ms = known.wait_ms
        f_bytes_wanted = known.bytes_wanted
        f_conditions = known.conditions
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x08:
                f_entry_id = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x10:
                f_wait_ms = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x18:
                f_bytes_wanted = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x22:
                while True:
                    f_conditions.append(_scan_FetchCondition(data, position, position + value))
                    position += value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                    if tag != 0x22:
                        break
                if tag == 0x22:
                    break
            if tag not in {8, 16, 34, 24}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('ParkFetch')
    return ParkFetch(f_entry_id, f_wait_ms, f_bytes_wanted, f_conditions)


def _scan_ParkGroup(data: bytes, position: int, end: int, known: ParkGroup | None = None) -> ParkGroup:
    f_entry_id: int = 0
    f_wait_ms: int = 0
    f_topic_id: bytes = b''
    f_partition: int = 0
    f_leader_id: int = 0
    f_coordinator_epoch: int = 0
    f_group_id: str = ''
    f_step: int = 0
    if known is not None:
        f_entry_id = known.entry_id
        f_wait_ms = known.wait_ms
        f_topic_id = known.topic_id
        f_partition = known.partition
        f_leader_id = known.leader_id
        f_coordinator_epoch = known.coordinator_epoch
        f_group_id = known.group_id
        f_step = known.step
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x08:
                f_entry_id = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x10:
                f_wait_ms = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x1a:
                f_topic_id = data[position : position + value]
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x20:
                f_partition = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x28:
                f_leader_id = value if value < 0x8000_0000 else signed32(value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x30:
                f_coordinator_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x3a:
                f_group_id = scan_string(data, position, value)
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x40:
                f_step = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {32, 64, 58, 8, 40, 16, 48, 26}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('ParkGroup')
    return ParkGroup(f_entry_id, f_wait_ms, f_topic_id, f_partition, f_leader_id, f_coordinator_epoch, f_group_id, f_step)


def _scan_Completion(data: bytes, position: int, end: int, known: Completion | None = None) -> Completion:
    f_entry_id: int = 0
    f_outcome: int = 0
    f_error_codes: list[int] = []
    if known is not None:
        f_entry_id = known.entry_id
        f_outcome = known.outcome
        f_error_codes = known.error_codes
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x08:
                f_entry_id = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x10:
                f_outcome = signed32(value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x1a:
                f_error_codes += [each if each < 0x8000_0000 else signed32(each) for each in scan_varints(data, position, position + value)]
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x18:
                f_error_codes.append(value if value < 0x8000_0000 else signed32(value))
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {8, 16, 26, 24}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('Completion')
    if f_outcome not in _MEMBERS_OF_OUTCOME:
        raise MalformedMessage(f'outcome {f_outcome} is not known')
    return Completion(f_entry_id, _MEMBERS_OF_OUTCOME[f_outcome], f_error_codes)


def _scan_WatchedPartition(data: bytes, position: int, end: int, known: WatchedPartition | None = None) -> WatchedPartition:
    f_topic_id: bytes = b''
    f_partition: int = 0
    if known is not None:
        f_topic_id = known.topic_id
        f_partition = known.partition
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x0a:
                f_topic_id = data[position : position + value]
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x10:
                f_partition = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {16, 10}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('WatchedPartition')
    return WatchedPartition(f_topic_id, f_partition)


def _scan_WatchedGroup(data: bytes, position: int, end: int, known: WatchedGroup | None = None) -> WatchedGroup:
    f_topic_id: bytes = b''
    f_partition: int = 0
    f_group_id: str = ''
    if known is not None:
        f_topic_id = known.topic_id
        f_partition = known.partition
        f_group_id = known.group_id
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x0a:
                f_topic_id = data[position : position + value]
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x10:
                f_partition = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x1a:
                f_group_id = scan_string(data, position, value)
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {16, 10, 26}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('WatchedGroup')
    return WatchedGroup(f_topic_id, f_partition, f_group_id)


def _scan_GroupState(data: bytes, position: int, end: int, known: GroupState | None = None) -> GroupState:
    f_topic_id: bytes = b''
    f_partition: int = 0
    f_group_id: str = ''
    f_coordinator_epoch: int = 0
    f_step: int = 0
    if known is not None:
        f_topic_id = known.topic_id
        f_partition = known.partition
        f_group_id = known.group_id
        f_coordinator_epoch = known.coordinator_epoch
        f_step = known.step
    if position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        while True:
            if tag == 0x0a:
                f_topic_id = data[position : position + value]
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x10:
                f_partition = value & 0xFFFF_FFFF
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x1a:
                f_group_id = scan_string(data, position, value)
                position += value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x20:
                f_coordinator_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag == 0x28:
                f_step = value
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
            if tag not in {32, 16, 26, 40, 10}:
                position = skip_unknown(data, position, tag, value)
                if position >= end:
                    break
                tag = data[position]
                value = data[position + 1]
                position += 2
                if value > 0x7F:
                    value, position = long_varint(data, position, value, tag)
    if position != end:
        raise truncated('GroupState')
    return GroupState(f_topic_id, f_partition, f_group_id, f_coordinator_epoch, f_step)


def pack_exchange_request(message: ExchangeRequest) -> bytes:
    n: int
    d: bytes
    parts: list[Any] = []
    if message.hello is not None:
        m0 = message.hello
        b0 = b''
        if m0.cluster_id:
            d = m0.cluster_id.encode()
            b0 += b'\n' + varint(len(d)) + d
        if m0.peer:
            d = m0.peer.encode()
            b0 += b'\x12' + varint(len(d)) + d
        parts.append(b'\n' + (SHORT_VARINTS[n] if (n := len(b0)) < 16384 else varint(n)) + b0)
    if message.heartbeat:
        parts.append((b'\x10' + SHORT_VARINTS[n] if 0 < (n := message.heartbeat) < 16384 else b'' if not n else b'\x10' + varint(n)))
    for m1 in message.appends:
        b1 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m1.request_id) < 16384 else b'' if not n else b'\x08' + varint(n)) + (b'\x12' + varint(len(d)) + d if (d := m1.topic_id) else b'') + (b'\x18' + SHORT_VARINTS[n] if 0 < (n := m1.partition) < 16384 else b'' if not n else b'\x18' + varint(n)) + (b' ' + SHORT_VARINTS[n + n] if 0 < (n := m1.leader_epoch) < 8192 else b' ' + varint(n + n) if n > 0 else b'' if not n else b' \x01' if n == -1 else b' ' + varint(-n - n - 1)) + (b'(' + SHORT_VARINTS[n + n] if 0 < (n := m1.acks) < 8192 else b'(' + varint(n + n) if n > 0 else b'' if not n else b'(\x01' if n == -1 else b'(' + varint(-n - n - 1))
        b2 = (b'8' + SHORT_VARINTS[n] if 0 < (n := m1.verification_guard) < 16384 else b'' if not n else b'8' + varint(n))
        if m1.supports_epoch_bump:
            b2 += b'@\x01'
        s0 = m1.records
        if s0:
            l0 = len(s0)
            b1 += b'2' + varint(l0)
            b1 = b'\x1a' + varint(len(b1) + l0 + len(b2)) + b1
            parts += (b1, s0, b2)
        else:
            b1 += b2
            b1 = b'\x1a' + (SHORT_VARINTS[n] if (n := len(b1)) < 16384 else varint(n)) + b1
            parts.append(b1)
    for m2 in message.offset_queries:
        b3 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m2.request_id) < 16384 else b'' if not n else b'\x08' + varint(n)) + (b'\x12' + varint(len(d)) + d if (d := m2.topic_id) else b'') + (b'\x18' + SHORT_VARINTS[n] if 0 < (n := m2.partition) < 16384 else b'' if not n else b'\x18' + varint(n)) + (b' ' + SHORT_VARINTS[n + n] if 0 < (n := m2.current_leader_epoch) < 8192 else b' ' + varint(n + n) if n > 0 else b'' if not n else b' \x01' if n == -1 else b' ' + varint(-n - n - 1)) + (b'(' + SHORT_VARINTS[n] if 0 < (n := m2.isolation_level) < 16384 else b'' if not n else b'(' + varint(n)) + (b'0' + SHORT_VARINTS[n + n] if 0 < (n := m2.timestamp) < 8192 else b'0' + varint(n + n) if n > 0 else b'' if not n else b'0\x01' if n == -1 else b'0' + varint(-n - n - 1))
        parts.append(b'"' + (SHORT_VARINTS[n] if (n := len(b3)) < 16384 else varint(n)) + b3)
    for m3 in message.state_queries:
        b4 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m3.request_id) < 16384 else b'' if not n else b'\x08' + varint(n)) + (b'\x12' + varint(len(d)) + d if (d := m3.topic_id) else b'') + (b'\x18' + SHORT_VARINTS[n] if 0 < (n := m3.partition) < 16384 else b'' if not n else b'\x18' + varint(n)) + (b' ' + SHORT_VARINTS[n + n] if 0 < (n := m3.leader_epoch) < 8192 else b' ' + varint(n + n) if n > 0 else b'' if not n else b' \x01' if n == -1 else b' ' + varint(-n - n - 1)) + (b'(' + SHORT_VARINTS[n + n] if 0 < (n := m3.required_offset) < 8192 else b'(' + varint(n + n) if n > 0 else b'' if not n else b'(\x01' if n == -1 else b'(' + varint(-n - n - 1))
        parts.append(b'*' + (SHORT_VARINTS[n] if (n := len(b4)) < 16384 else varint(n)) + b4)
    for m4 in message.timed:
        b5 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m4.request_id) < 16384 else b'' if not n else b'\x08' + varint(n)) + (b'\x12' + varint(len(d)) + d if (d := m4.trace_id) else b'') + (b'\x1a' + varint(len(d)) + d if (d := m4.span_id) else b'')
        parts.append(b'2' + (SHORT_VARINTS[n] if (n := len(b5)) < 16384 else varint(n)) + b5)
    for m5 in message.shared:
        b6 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m5.index) < 16384 else b'' if not n else b'\x08' + varint(n)) + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m5.block) < 16384 else b'' if not n else b'\x10' + varint(n)) + (b'\x18' + SHORT_VARINTS[n] if 0 < (n := m5.length) < 16384 else b'' if not n else b'\x18' + varint(n))
        parts.append(b':' + (SHORT_VARINTS[n] if (n := len(b6)) < 16384 else varint(n)) + b6)
    return b"".join(parts)


def scan_exchange_request(data: bytes) -> ExchangeRequest:
    try:
        view = memoryview(data)
        position = 0
        end = len(data)
        f_hello: Hello | None = None
        f_heartbeat: int = 0
        f_appends: list[Append] = []
        f_offset_queries: list[OffsetQuery] = []
        f_state_queries: list[StateQuery] = []
        f_timed: list[Timed] = []
        f_shared: list[SharedRecords] = []
        if position < end:
            tag = data[position]
            value = data[position + 1]
            position += 2
            if value > 0x7F:
                value, position = long_varint(data, position, value, tag)
            while True:
                if tag == 0x0a:
                    f_hello = _scan_Hello(data, position, position + value, f_hello)
                    position += value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x10:
                    f_heartbeat = value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x1a:
                    while True:
                        f_appends.append(_scan_Append(data, view, position, position + value))
                        position += value
                        if position >= end:
                            break
                        tag = data[position]
                        value = data[position + 1]
                        position += 2
                        if value > 0x7F:
                            value, position = long_varint(data, position, value, tag)
                        if tag != 0x1a:
                            break
                    if tag == 0x1a:
                        break
                if tag == 0x22:
                    while True:
                        f_offset_queries.append(_scan_OffsetQuery(data, position, position + value))
                        position += value
                        if position >= end:
                            break
                        tag = data[position]
                        value = data[position + 1]
                        position += 2
                        if value > 0x7F:
                            value, position = long_varint(data, position, value, tag)
                        if tag != 0x22:
                            break
                    if tag == 0x22:
                        break
                if tag == 0x2a:
                    while True:
                        f_state_queries.append(_scan_StateQuery(data, position, position + value))
                        position += value
                        if position >= end:
                            break
                        tag = data[position]
                        value = data[position + 1]
                        position += 2
                        if value > 0x7F:
                            value, position = long_varint(data, position, value, tag)
                        if tag != 0x2a:
                            break
                    if tag == 0x2a:
                        break
                if tag == 0x32:
                    while True:
                        f_timed.append(_scan_Timed(data, position, position + value))
                        position += value
                        if position >= end:
                            break
                        tag = data[position]
                        value = data[position + 1]
                        position += 2
                        if value > 0x7F:
                            value, position = long_varint(data, position, value, tag)
                        if tag != 0x32:
                            break
                    if tag == 0x32:
                        break
                if tag == 0x3a:
                    while True:
                        f_shared.append(_scan_SharedRecords(data, position, position + value))
                        position += value
                        if position >= end:
                            break
                        tag = data[position]
                        value = data[position + 1]
                        position += 2
                        if value > 0x7F:
                            value, position = long_varint(data, position, value, tag)
                        if tag != 0x3a:
                            break
                    if tag == 0x3a:
                        break
                if tag not in {16, 34, 10, 42, 50, 26, 58}:
                    position = skip_unknown(data, position, tag, value)
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
        if position != end:
            raise truncated('ExchangeRequest')
        return ExchangeRequest(f_hello, f_heartbeat, f_appends, f_offset_queries, f_state_queries, f_timed, f_shared)
    except IndexError:
        raise MalformedMessage('a message is truncated') from None


def pack_exchange_response(message: ExchangeResponse) -> bytes:
    n: int
    d: bytes
    parts: list[Any] = []
    if message.welcome is not None:
        m0 = message.welcome
        b0 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m0.node_id) < 16384 else b'' if not n else b'\x08' + varint(n & 0xFFFF_FFFF_FFFF_FFFF)) + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m0.broker_epoch) < 16384 else b'' if not n else b'\x10' + varint(n & 0xFFFF_FFFF_FFFF_FFFF))
        parts.append(b'\n' + (SHORT_VARINTS[n] if (n := len(b0)) < 16384 else varint(n)) + b0)
    if message.heartbeat:
        parts.append((b'\x10' + SHORT_VARINTS[n] if 0 < (n := message.heartbeat) < 16384 else b'' if not n else b'\x10' + varint(n)))
    if message.credit is not None:
        m1 = message.credit
        b1 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m1.requests) < 16384 else b'' if not n else b'\x08' + varint(n)) + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m1.bytes) < 16384 else b'' if not n else b'\x10' + varint(n))
        parts.append(b'\x1a' + (SHORT_VARINTS[n] if (n := len(b1)) < 16384 else varint(n)) + b1)
    for m2 in message.append_results:
        b2 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m2.request_id) < 16384 else b'' if not n else b'\x08' + varint(n)) + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m2.error_code) < 16384 else b'' if not n else b'\x10' + varint(n & 0xFFFF_FFFF_FFFF_FFFF)) + (b'\x18' + SHORT_VARINTS[n + n] if 0 < (n := m2.base_offset) < 8192 else b'\x18' + varint(n + n) if n > 0 else b'' if not n else b'\x18\x01' if n == -1 else b'\x18' + varint(-n - n - 1)) + (b' ' + SHORT_VARINTS[n + n] if 0 < (n := m2.log_append_time_ms) < 8192 else b' ' + varint(n + n) if n > 0 else b'' if not n else b' \x01' if n == -1 else b' ' + varint(-n - n - 1)) + (b'(' + SHORT_VARINTS[n + n] if 0 < (n := m2.log_start_offset) < 8192 else b'(' + varint(n + n) if n > 0 else b'' if not n else b'(\x01' if n == -1 else b'(' + varint(-n - n - 1)) + (b'0' + SHORT_VARINTS[n + n] if 0 < (n := m2.leader_epoch) < 8192 else b'0' + varint(n + n) if n > 0 else b'' if not n else b'0\x01' if n == -1 else b'0' + varint(-n - n - 1)) + (b'8' + SHORT_VARINTS[n + n] if 0 < (n := m2.leader_id) < 8192 else b'8' + varint(n + n) if n > 0 else b'' if not n else b'8\x01' if n == -1 else b'8' + varint(-n - n - 1)) + (b'@' + SHORT_VARINTS[n + n] if 0 < (n := m2.required_offset) < 8192 else b'@' + varint(n + n) if n > 0 else b'' if not n else b'@\x01' if n == -1 else b'@' + varint(-n - n - 1))
        if m2.committed:
            b2 += b'H\x01'
        if m2.error_message:
            d = m2.error_message.encode()
            b2 += b'R' + varint(len(d)) + d
        if m2.record_errors:
            p0 = [b2]
            for m3 in m2.record_errors:
                b3 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m3.batch_index) < 16384 else b'' if not n else b'\x08' + varint(n))
                if m3.message:
                    d = m3.message.encode()
                    b3 += b'\x12' + varint(len(d)) + d
                p0.append(b'Z' + (SHORT_VARINTS[n] if (n := len(b3)) < 16384 else varint(n)) + b3)
            b2 = b''.join(p0)
        b2 += (b'`' + SHORT_VARINTS[n] if 0 < (n := m2.record_epoch_age) < 16384 else b'' if not n else b'`' + varint(n)) + (b'h' + SHORT_VARINTS[n] if 0 < (n := m2.verification_guard) < 16384 else b'' if not n else b'h' + varint(n))
        parts.append(b'"' + (SHORT_VARINTS[n] if (n := len(b2)) < 16384 else varint(n)) + b2)
    for m4 in message.offset_answers:
        b4 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m4.request_id) < 16384 else b'' if not n else b'\x08' + varint(n)) + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m4.error_code) < 16384 else b'' if not n else b'\x10' + varint(n & 0xFFFF_FFFF_FFFF_FFFF)) + (b'\x18' + SHORT_VARINTS[n + n] if 0 < (n := m4.timestamp) < 8192 else b'\x18' + varint(n + n) if n > 0 else b'' if not n else b'\x18\x01' if n == -1 else b'\x18' + varint(-n - n - 1)) + (b' ' + SHORT_VARINTS[n + n] if 0 < (n := m4.offset) < 8192 else b' ' + varint(n + n) if n > 0 else b'' if not n else b' \x01' if n == -1 else b' ' + varint(-n - n - 1)) + (b'(' + SHORT_VARINTS[n + n] if 0 < (n := m4.leader_epoch) < 8192 else b'(' + varint(n + n) if n > 0 else b'' if not n else b'(\x01' if n == -1 else b'(' + varint(-n - n - 1))
        parts.append(b'*' + (SHORT_VARINTS[n] if (n := len(b4)) < 16384 else varint(n)) + b4)
    for m5 in message.state_answers:
        b5 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m5.request_id) < 16384 else b'' if not n else b'\x08' + varint(n)) + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m5.error_code) < 16384 else b'' if not n else b'\x10' + varint(n & 0xFFFF_FFFF_FFFF_FFFF))
        if m5.state is not None:
            m6 = m5.state
            b6 = (b'\n' + varint(len(d)) + d if (d := m6.topic_id) else b'') + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m6.partition) < 16384 else b'' if not n else b'\x10' + varint(n)) + (b'\x18' + SHORT_VARINTS[n + n] if 0 < (n := m6.leader_epoch) < 8192 else b'\x18' + varint(n + n) if n > 0 else b'' if not n else b'\x18\x01' if n == -1 else b'\x18' + varint(-n - n - 1)) + (b' ' + SHORT_VARINTS[n + n] if 0 < (n := m6.high_watermark) < 8192 else b' ' + varint(n + n) if n > 0 else b'' if not n else b' \x01' if n == -1 else b' ' + varint(-n - n - 1)) + (b'(' + SHORT_VARINTS[n + n] if 0 < (n := m6.last_stable_offset) < 8192 else b'(' + varint(n + n) if n > 0 else b'' if not n else b'(\x01' if n == -1 else b'(' + varint(-n - n - 1)) + (b'0' + SHORT_VARINTS[n + n] if 0 < (n := m6.log_start_offset) < 8192 else b'0' + varint(n + n) if n > 0 else b'' if not n else b'0\x01' if n == -1 else b'0' + varint(-n - n - 1)) + (b'8' + SHORT_VARINTS[n + n] if 0 < (n := m6.high_watermark_position) < 8192 else b'8' + varint(n + n) if n > 0 else b'' if not n else b'8\x01' if n == -1 else b'8' + varint(-n - n - 1))
            if m6.leading:
                b6 += b'@\x01'
            if m6.online:
                b6 += b'H\x01'
            if m6.in_sync_replicas_at_minimum:
                b6 += b'P\x01'
            b6 += (b'X' + SHORT_VARINTS[n] if 0 < (n := m6.earlier_epochs_led) < 16384 else b'' if not n else b'X' + varint(n)) + (b'`' + SHORT_VARINTS[n + n] if 0 < (n := m6.last_stable_position) < 8192 else b'`' + varint(n + n) if n > 0 else b'' if not n else b'`\x01' if n == -1 else b'`' + varint(-n - n - 1))
            b5 += b'\x1a' + (SHORT_VARINTS[n] if (n := len(b6)) < 16384 else varint(n)) + b6
        if m5.holds_append:
            b5 += b' \x01'
        parts.append(b'2' + (SHORT_VARINTS[n] if (n := len(b5)) < 16384 else varint(n)) + b5)
    for m7 in message.times:
        b7 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m7.request_id) < 16384 else b'' if not n else b'\x08' + varint(n)) + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m7.queue_us) < 16384 else b'' if not n else b'\x10' + varint(n)) + (b'\x18' + SHORT_VARINTS[n] if 0 < (n := m7.work_us) < 16384 else b'' if not n else b'\x18' + varint(n)) + (b' ' + SHORT_VARINTS[n] if 0 < (n := m7.wait_us) < 16384 else b'' if not n else b' ' + varint(n))
        parts.append(b':' + (SHORT_VARINTS[n] if (n := len(b7)) < 16384 else varint(n)) + b7)
    return b"".join(parts)


def scan_exchange_response(data: bytes) -> ExchangeResponse:
    try:
        position = 0
        end = len(data)
        f_welcome: Welcome | None = None
        f_heartbeat: int = 0
        f_credit: Credit | None = None
        f_append_results: list[AppendResult] = []
        f_offset_answers: list[OffsetAnswer] = []
        f_state_answers: list[StateAnswer] = []
        f_times: list[Times] = []
        if position < end:
            tag = data[position]
            value = data[position + 1]
            position += 2
            if value > 0x7F:
                value, position = long_varint(data, position, value, tag)
            while True:
                if tag == 0x0a:
                    f_welcome = _scan_Welcome(data, position, position + value, f_welcome)
                    position += value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x10:
                    f_heartbeat = value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x1a:
                    f_credit = _scan_Credit(data, position, position + value, f_credit)
                    position += value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x22:
                    while True:
                        f_append_results.append(_scan_AppendResult(data, position, position + value))
                        position += value
                        if position >= end:
                            break
                        tag = data[position]
                        value = data[position + 1]
                        position += 2
                        if value > 0x7F:
                            value, position = long_varint(data, position, value, tag)
                        if tag != 0x22:
                            break
                    if tag == 0x22:
                        break
                if tag == 0x2a:
                    while True:
                        f_offset_answers.append(_scan_OffsetAnswer(data, position, position + value))
                        position += value
                        if position >= end:
                            break
                        tag = data[position]
                        value = data[position + 1]
                        position += 2
                        if value > 0x7F:
                            value, position = long_varint(data, position, value, tag)
                        if tag != 0x2a:
                            break
                    if tag == 0x2a:
                        break
                if tag == 0x32:
                    while True:
                        f_state_answers.append(_scan_StateAnswer(data, position, position + value))
                        position += value
                        if position >= end:
                            break
                        tag = data[position]
                        value = data[position + 1]
                        position += 2
                        if value > 0x7F:
                            value, position = long_varint(data, position, value, tag)
                        if tag != 0x32:
                            break
                    if tag == 0x32:
                        break
                if tag == 0x3a:
                    while True:
                        f_times.append(_scan_Times(data, position, position + value))
                        position += value
                        if position >= end:
                            break
                        tag = data[position]
                        value = data[position + 1]
                        position += 2
                        if value > 0x7F:
                            value, position = long_varint(data, position, value, tag)
                        if tag != 0x3a:
                            break
                    if tag == 0x3a:
                        break
                if tag not in {16, 34, 10, 42, 50, 26, 58}:
                    position = skip_unknown(data, position, tag, value)
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
        if position != end:
            raise truncated('ExchangeResponse')
        return ExchangeResponse(f_welcome, f_heartbeat, f_credit, f_append_results, f_offset_answers, f_state_answers, f_times)
    except IndexError:
        raise MalformedMessage('a message is truncated') from None


def pack_read_request(message: ReadRequest) -> bytes:
    n: int
    d: bytes
    parts: list[Any] = []
    if message.hello is not None:
        m0 = message.hello
        b0 = b''
        if m0.cluster_id:
            d = m0.cluster_id.encode()
            b0 += b'\n' + varint(len(d)) + d
        if m0.peer:
            d = m0.peer.encode()
            b0 += b'\x12' + varint(len(d)) + d
        parts.append(b'\n' + (SHORT_VARINTS[n] if (n := len(b0)) < 16384 else varint(n)) + b0)
    if message.heartbeat:
        parts.append((b'\x10' + SHORT_VARINTS[n] if 0 < (n := message.heartbeat) < 16384 else b'' if not n else b'\x10' + varint(n)))
    for m1 in message.reads:
        b1 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m1.request_id) < 16384 else b'' if not n else b'\x08' + varint(n)) + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m1.bytes_max) < 16384 else b'' if not n else b'\x10' + varint(n)) + (b'\x18' + SHORT_VARINTS[n] if 0 < (n := m1.isolation_level) < 16384 else b'' if not n else b'\x18' + varint(n))
        if m1.partitions:
            p0 = [b1]
            for m2 in m1.partitions:
                b2 = (b'\n' + varint(len(d)) + d if (d := m2.topic_id) else b'') + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m2.partition) < 16384 else b'' if not n else b'\x10' + varint(n)) + (b'\x18' + SHORT_VARINTS[n + n] if 0 < (n := m2.current_leader_epoch) < 8192 else b'\x18' + varint(n + n) if n > 0 else b'' if not n else b'\x18\x01' if n == -1 else b'\x18' + varint(-n - n - 1)) + (b' ' + SHORT_VARINTS[n + n] if 0 < (n := m2.fetch_offset) < 8192 else b' ' + varint(n + n) if n > 0 else b'' if not n else b' \x01' if n == -1 else b' ' + varint(-n - n - 1)) + (b'(' + SHORT_VARINTS[n] if 0 < (n := m2.partition_bytes_max) < 16384 else b'' if not n else b'(' + varint(n))
                p0.append(b'"' + (SHORT_VARINTS[n] if (n := len(b2)) < 16384 else varint(n)) + b2)
            b1 = b''.join(p0)
        if m1.rack_id:
            d = m1.rack_id.encode()
            b1 += b'*' + varint(len(d)) + d
        if m1.accepts_ranges:
            b1 += b'0\x01'
        parts.append(b'\x1a' + (SHORT_VARINTS[n] if (n := len(b1)) < 16384 else varint(n)) + b1)
    if message.cancels:
        parts.append(packed_uints(b'"', message.cancels))
    for m3 in message.timed:
        b3 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m3.request_id) < 16384 else b'' if not n else b'\x08' + varint(n)) + (b'\x12' + varint(len(d)) + d if (d := m3.trace_id) else b'') + (b'\x1a' + varint(len(d)) + d if (d := m3.span_id) else b'')
        parts.append(b'*' + (SHORT_VARINTS[n] if (n := len(b3)) < 16384 else varint(n)) + b3)
    return b"".join(parts)


def scan_read_request(data: bytes) -> ReadRequest:
    try:
        position = 0
        end = len(data)
        f_hello: Hello | None = None
        f_heartbeat: int = 0
        f_reads: list[Read] = []
        f_cancels: list[int] = []
        f_timed: list[Timed] = []
        if position < end:
            tag = data[position]
            value = data[position + 1]
            position += 2
            if value > 0x7F:
                value, position = long_varint(data, position, value, tag)
            while True:
                if tag == 0x0a:
                    f_hello = _scan_Hello(data, position, position + value, f_hello)
                    position += value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x10:
                    f_heartbeat = value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x1a:
                    while True:
                        f_reads.append(_scan_Read(data, position, position + value))
                        position += value
                        if position >= end:
                            break
                        tag = data[position]
                        value = data[position + 1]
                        position += 2
                        if value > 0x7F:
                            value, position = long_varint(data, position, value, tag)
                        if tag != 0x1a:
                            break
                    if tag == 0x1a:
                        break
                if tag == 0x22:
                    f_cancels += scan_varints(data, position, position + value)
                    position += value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x20:
                    f_cancels.append(value)
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x2a:
                    while True:
                        f_timed.append(_scan_Timed(data, position, position + value))
                        position += value
                        if position >= end:
                            break
                        tag = data[position]
                        value = data[position + 1]
                        position += 2
                        if value > 0x7F:
                            value, position = long_varint(data, position, value, tag)
                        if tag != 0x2a:
                            break
                    if tag == 0x2a:
                        break
                if tag not in {16, 32, 34, 26, 42, 10}:
                    position = skip_unknown(data, position, tag, value)
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
        if position != end:
            raise truncated('ReadRequest')
        return ReadRequest(f_hello, f_heartbeat, f_reads, f_cancels, f_timed)
    except IndexError:
        raise MalformedMessage('a message is truncated') from None


def pack_read_response(message: ReadResponse) -> bytes:
    n: int
    d: bytes
    parts: list[Any] = []
    if message.welcome is not None:
        m0 = message.welcome
        b0 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m0.node_id) < 16384 else b'' if not n else b'\x08' + varint(n & 0xFFFF_FFFF_FFFF_FFFF)) + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m0.broker_epoch) < 16384 else b'' if not n else b'\x10' + varint(n & 0xFFFF_FFFF_FFFF_FFFF))
        parts.append(b'\n' + (SHORT_VARINTS[n] if (n := len(b0)) < 16384 else varint(n)) + b0)
    if message.heartbeat:
        parts.append((b'\x10' + SHORT_VARINTS[n] if 0 < (n := message.heartbeat) < 16384 else b'' if not n else b'\x10' + varint(n)))
    if message.credit is not None:
        m1 = message.credit
        b1 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m1.requests) < 16384 else b'' if not n else b'\x08' + varint(n)) + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m1.bytes) < 16384 else b'' if not n else b'\x10' + varint(n))
        parts.append(b'\x1a' + (SHORT_VARINTS[n] if (n := len(b1)) < 16384 else varint(n)) + b1)
    for m2 in message.pieces:
        b2 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m2.request_id) < 16384 else b'' if not n else b'\x08' + varint(n))
        if m2.last:
            b2 += b'\x10\x01'
        t0 = len(b2)
        i0 = len(parts)
        parts.append(b2)
        for m3 in m2.partitions:
            b3 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m3.index) < 16384 else b'' if not n else b'\x08' + varint(n)) + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m3.error_code) < 16384 else b'' if not n else b'\x10' + varint(n & 0xFFFF_FFFF_FFFF_FFFF)) + (b'\x18' + SHORT_VARINTS[n + n] if 0 < (n := m3.high_watermark) < 8192 else b'\x18' + varint(n + n) if n > 0 else b'' if not n else b'\x18\x01' if n == -1 else b'\x18' + varint(-n - n - 1)) + (b' ' + SHORT_VARINTS[n + n] if 0 < (n := m3.last_stable_offset) < 8192 else b' ' + varint(n + n) if n > 0 else b'' if not n else b' \x01' if n == -1 else b' ' + varint(-n - n - 1)) + (b'(' + SHORT_VARINTS[n + n] if 0 < (n := m3.log_start_offset) < 8192 else b'(' + varint(n + n) if n > 0 else b'' if not n else b'(\x01' if n == -1 else b'(' + varint(-n - n - 1)) + (b'0' + SHORT_VARINTS[n + n] if 0 < (n := m3.leader_epoch) < 8192 else b'0' + varint(n + n) if n > 0 else b'' if not n else b'0\x01' if n == -1 else b'0' + varint(-n - n - 1)) + (b'8' + SHORT_VARINTS[n + n] if 0 < (n := m3.leader_id) < 8192 else b'8' + varint(n + n) if n > 0 else b'' if not n else b'8\x01' if n == -1 else b'8' + varint(-n - n - 1)) + (b'@' + SHORT_VARINTS[n + n] if 0 < (n := m3.fetch_position) < 8192 else b'@' + varint(n + n) if n > 0 else b'' if not n else b'@\x01' if n == -1 else b'@' + varint(-n - n - 1))
            b4 = b''
            if m3.preferred_read_replica is not None:
                m4 = m3.preferred_read_replica
                b4 += b'P' + varint(m4)
            if m3.records_range is not None:
                m5 = m3.records_range
                b5 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m5.file_number) < 16384 else b'' if not n else b'\x08' + varint(n)) + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m5.position) < 16384 else b'' if not n else b'\x10' + varint(n)) + (b'\x18' + SHORT_VARINTS[n] if 0 < (n := m5.length) < 16384 else b'' if not n else b'\x18' + varint(n))
                b4 += b'Z' + (SHORT_VARINTS[n] if (n := len(b5)) < 16384 else varint(n)) + b5
            b4 += (b'b' + varint(len(d)) + d if (d := m3.aborted_transactions) else b'')
            s0 = m3.records
            if s0:
                l0 = len(s0)
                b3 += b'J' + varint(l0)
                b3 = b'\x1a' + varint(len(b3) + l0 + len(b4)) + b3
                t0 += len(b3) + l0 + len(b4)
                parts += (b3, s0, b4)
            else:
                b3 += b4
                b3 = b'\x1a' + (SHORT_VARINTS[n] if (n := len(b3)) < 16384 else varint(n)) + b3
                t0 += len(b3)
                parts.append(b3)
        parts[i0] = b'"' + varint(t0) + b2
    for m6 in message.times:
        b6 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m6.request_id) < 16384 else b'' if not n else b'\x08' + varint(n)) + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m6.queue_us) < 16384 else b'' if not n else b'\x10' + varint(n)) + (b'\x18' + SHORT_VARINTS[n] if 0 < (n := m6.work_us) < 16384 else b'' if not n else b'\x18' + varint(n)) + (b' ' + SHORT_VARINTS[n] if 0 < (n := m6.wait_us) < 16384 else b'' if not n else b' ' + varint(n))
        parts.append(b'*' + (SHORT_VARINTS[n] if (n := len(b6)) < 16384 else varint(n)) + b6)
    if message.opened_files:
        parts.append(packed_uints(b'2', message.opened_files))
    if message.closed_files:
        parts.append(packed_uints(b':', message.closed_files))
    return b"".join(parts)


def scan_read_response(data: bytes) -> ReadResponse:
    try:
        view = memoryview(data)
        position = 0
        end = len(data)
        f_welcome: Welcome | None = None
        f_heartbeat: int = 0
        f_credit: Credit | None = None
        f_pieces: list[ReadPiece] = []
        f_times: list[Times] = []
        f_opened_files: list[int] = []
        f_closed_files: list[int] = []
        if position < end:
            tag = data[position]
            value = data[position + 1]
            position += 2
            if value > 0x7F:
                value, position = long_varint(data, position, value, tag)
            while True:
                if tag == 0x0a:
                    f_welcome = _scan_Welcome(data, position, position + value, f_welcome)
                    position += value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x10:
                    f_heartbeat = value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x1a:
                    f_credit = _scan_Credit(data, position, position + value, f_credit)
                    position += value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x22:
                    while True:
                        f_pieces.append(_scan_ReadPiece(data, view, position, position + value))
                        position += value
                        if position >= end:
                            break
                        tag = data[position]
                        value = data[position + 1]
                        position += 2
                        if value > 0x7F:
                            value, position = long_varint(data, position, value, tag)
                        if tag != 0x22:
                            break
                    if tag == 0x22:
                        break
                if tag == 0x2a:
                    while True:
                        f_times.append(_scan_Times(data, position, position + value))
                        position += value
                        if position >= end:
                            break
                        tag = data[position]
                        value = data[position + 1]
                        position += 2
                        if value > 0x7F:
                            value, position = long_varint(data, position, value, tag)
                        if tag != 0x2a:
                            break
                    if tag == 0x2a:
                        break
                if tag == 0x32:
                    f_opened_files += scan_varints(data, position, position + value)
                    position += value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x30:
                    f_opened_files.append(value)
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x3a:
                    f_closed_files += scan_varints(data, position, position + value)
                    position += value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x38:
                    f_closed_files.append(value)
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag not in {34, 58, 10, 42, 16, 48, 50, 56, 26}:
                    position = skip_unknown(data, position, tag, value)
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
        if position != end:
            raise truncated('ReadResponse')
        return ReadResponse(f_welcome, f_heartbeat, f_credit, f_pieces, f_times, f_opened_files, f_closed_files)
    except IndexError:
        raise MalformedMessage('a message is truncated') from None


def pack_replicate_request(message: ReplicateRequest) -> bytes:
    n: int
    d: bytes
    parts: list[Any] = []
    if message.hello is not None:
        m0 = message.hello
        b0 = b''
        if m0.cluster_id:
            d = m0.cluster_id.encode()
            b0 += b'\n' + varint(len(d)) + d
        b0 += (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m0.replica_id) < 16384 else b'' if not n else b'\x10' + varint(n & 0xFFFF_FFFF_FFFF_FFFF)) + (b'\x18' + SHORT_VARINTS[n] if 0 < (n := m0.broker_epoch) < 16384 else b'' if not n else b'\x18' + varint(n & 0xFFFF_FFFF_FFFF_FFFF))
        parts.append(b'\n' + (SHORT_VARINTS[n] if (n := len(b0)) < 16384 else varint(n)) + b0)
    if message.heartbeat:
        parts.append((b'\x10' + SHORT_VARINTS[n] if 0 < (n := message.heartbeat) < 16384 else b'' if not n else b'\x10' + varint(n)))
    if message.fetch is not None:
        m1 = message.fetch
        b1 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m1.request_id) < 16384 else b'' if not n else b'\x08' + varint(n)) + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m1.bytes_max) < 16384 else b'' if not n else b'\x10' + varint(n)) + (b'\x18' + SHORT_VARINTS[n] if 0 < (n := m1.partition_bytes_max) < 16384 else b'' if not n else b'\x18' + varint(n)) + (b' ' + SHORT_VARINTS[n] if 0 < (n := m1.wait_ms_max) < 16384 else b'' if not n else b' ' + varint(n))
        if m1.positions:
            p0 = [b1]
            for m2 in m1.positions:
                b2 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m2.slot) < 16384 else b'' if not n else b'\x08' + varint(n)) + (b'\x12' + varint(len(d)) + d if (d := m2.topic_id) else b'') + (b'\x18' + SHORT_VARINTS[n] if 0 < (n := m2.partition) < 16384 else b'' if not n else b'\x18' + varint(n)) + (b' ' + SHORT_VARINTS[n + n] if 0 < (n := m2.current_leader_epoch) < 8192 else b' ' + varint(n + n) if n > 0 else b'' if not n else b' \x01' if n == -1 else b' ' + varint(-n - n - 1)) + (b'(' + SHORT_VARINTS[n + n] if 0 < (n := m2.fetch_offset) < 8192 else b'(' + varint(n + n) if n > 0 else b'' if not n else b'(\x01' if n == -1 else b'(' + varint(-n - n - 1)) + (b'0' + SHORT_VARINTS[n + n] if 0 < (n := m2.last_fetched_epoch) < 8192 else b'0' + varint(n + n) if n > 0 else b'' if not n else b'0\x01' if n == -1 else b'0' + varint(-n - n - 1)) + (b'8' + SHORT_VARINTS[n + n] if 0 < (n := m2.log_start_offset) < 8192 else b'8' + varint(n + n) if n > 0 else b'' if not n else b'8\x01' if n == -1 else b'8' + varint(-n - n - 1))
                p0.append(b'*' + (SHORT_VARINTS[n] if (n := len(b2)) < 16384 else varint(n)) + b2)
            b1 = b''.join(p0)
        if m1.forgotten:
            b1 += packed_uints(b'2', m1.forgotten)
        parts.append(b'\x1a' + (SHORT_VARINTS[n] if (n := len(b1)) < 16384 else varint(n)) + b1)
    return b"".join(parts)


def scan_replicate_request(data: bytes) -> ReplicateRequest:
    try:
        position = 0
        end = len(data)
        f_hello: ReplicaHello | None = None
        f_heartbeat: int = 0
        f_fetch: ReplicaFetch | None = None
        if position < end:
            tag = data[position]
            value = data[position + 1]
            position += 2
            if value > 0x7F:
                value, position = long_varint(data, position, value, tag)
            while True:
                if tag == 0x0a:
                    f_hello = _scan_ReplicaHello(data, position, position + value, f_hello)
                    position += value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x10:
                    f_heartbeat = value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x1a:
                    f_fetch = _scan_ReplicaFetch(data, position, position + value, f_fetch)
                    position += value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag not in {16, 10, 26}:
                    position = skip_unknown(data, position, tag, value)
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
        if position != end:
            raise truncated('ReplicateRequest')
        return ReplicateRequest(f_hello, f_heartbeat, f_fetch)
    except IndexError:
        raise MalformedMessage('a message is truncated') from None


def pack_replicate_response(message: ReplicateResponse) -> bytes:
    n: int
    d: bytes
    parts: list[Any] = []
    if message.welcome is not None:
        m0 = message.welcome
        b0 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m0.node_id) < 16384 else b'' if not n else b'\x08' + varint(n & 0xFFFF_FFFF_FFFF_FFFF)) + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m0.broker_epoch) < 16384 else b'' if not n else b'\x10' + varint(n & 0xFFFF_FFFF_FFFF_FFFF))
        parts.append(b'\n' + (SHORT_VARINTS[n] if (n := len(b0)) < 16384 else varint(n)) + b0)
    if message.heartbeat:
        parts.append((b'\x10' + SHORT_VARINTS[n] if 0 < (n := message.heartbeat) < 16384 else b'' if not n else b'\x10' + varint(n)))
    if message.piece is not None:
        m1 = message.piece
        b1 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m1.request_id) < 16384 else b'' if not n else b'\x08' + varint(n))
        if m1.last:
            b1 += b'\x10\x01'
        t0 = len(b1)
        i0 = len(parts)
        parts.append(b1)
        for m2 in m1.partitions:
            b2 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m2.slot) < 16384 else b'' if not n else b'\x08' + varint(n)) + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m2.error_code) < 16384 else b'' if not n else b'\x10' + varint(n & 0xFFFF_FFFF_FFFF_FFFF)) + (b'\x18' + SHORT_VARINTS[n + n] if 0 < (n := m2.leader_epoch) < 8192 else b'\x18' + varint(n + n) if n > 0 else b'' if not n else b'\x18\x01' if n == -1 else b'\x18' + varint(-n - n - 1)) + (b' ' + SHORT_VARINTS[n + n] if 0 < (n := m2.leader_id) < 8192 else b' ' + varint(n + n) if n > 0 else b'' if not n else b' \x01' if n == -1 else b' ' + varint(-n - n - 1)) + (b'(' + SHORT_VARINTS[n + n] if 0 < (n := m2.high_watermark) < 8192 else b'(' + varint(n + n) if n > 0 else b'' if not n else b'(\x01' if n == -1 else b'(' + varint(-n - n - 1)) + (b'0' + SHORT_VARINTS[n + n] if 0 < (n := m2.log_start_offset) < 8192 else b'0' + varint(n + n) if n > 0 else b'' if not n else b'0\x01' if n == -1 else b'0' + varint(-n - n - 1)) + (b'8' + SHORT_VARINTS[n + n] if 0 < (n := m2.diverging_epoch) < 8192 else b'8' + varint(n + n) if n > 0 else b'' if not n else b'8\x01' if n == -1 else b'8' + varint(-n - n - 1)) + (b'@' + SHORT_VARINTS[n + n] if 0 < (n := m2.diverging_end_offset) < 8192 else b'@' + varint(n + n) if n > 0 else b'' if not n else b'@\x01' if n == -1 else b'@' + varint(-n - n - 1))
            s0 = m2.records
            if s0:
                l0 = len(s0)
                b2 += b'J' + varint(l0)
                b2 = b'\x1a' + varint(len(b2) + l0) + b2
                t0 += len(b2) + l0
                parts += (b2, s0)
            else:
                b2 = b'\x1a' + (SHORT_VARINTS[n] if (n := len(b2)) < 16384 else varint(n)) + b2
                t0 += len(b2)
                parts.append(b2)
        parts[i0] = b'\x1a' + varint(t0) + b1
    for m3 in message.shared:
        b4 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m3.index) < 16384 else b'' if not n else b'\x08' + varint(n)) + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m3.block) < 16384 else b'' if not n else b'\x10' + varint(n)) + (b'\x18' + SHORT_VARINTS[n] if 0 < (n := m3.length) < 16384 else b'' if not n else b'\x18' + varint(n))
        parts.append(b'"' + (SHORT_VARINTS[n] if (n := len(b4)) < 16384 else varint(n)) + b4)
    return b"".join(parts)


def scan_replicate_response(data: bytes) -> ReplicateResponse:
    try:
        view = memoryview(data)
        position = 0
        end = len(data)
        f_welcome: Welcome | None = None
        f_heartbeat: int = 0
        f_piece: ReplicaPiece | None = None
        f_shared: list[SharedRecords] = []
        if position < end:
            tag = data[position]
            value = data[position + 1]
            position += 2
            if value > 0x7F:
                value, position = long_varint(data, position, value, tag)
            while True:
                if tag == 0x0a:
                    f_welcome = _scan_Welcome(data, position, position + value, f_welcome)
                    position += value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x10:
                    f_heartbeat = value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x1a:
                    f_piece = _scan_ReplicaPiece(data, view, position, position + value, f_piece)
                    position += value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x22:
                    while True:
                        f_shared.append(_scan_SharedRecords(data, position, position + value))
                        position += value
                        if position >= end:
                            break
                        tag = data[position]
                        value = data[position + 1]
                        position += 2
                        if value > 0x7F:
                            value, position = long_varint(data, position, value, tag)
                        if tag != 0x22:
                            break
                    if tag == 0x22:
                        break
                if tag not in {16, 10, 26, 34}:
                    position = skip_unknown(data, position, tag, value)
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
        if position != end:
            raise truncated('ReplicateResponse')
        return ReplicateResponse(f_welcome, f_heartbeat, f_piece, f_shared)
    except IndexError:
        raise MalformedMessage('a message is truncated') from None


def pack_coordinate_request(message: CoordinateRequest) -> bytes:
    n: int
    d: bytes
    parts: list[Any] = []
    if message.hello is not None:
        m0 = message.hello
        b0 = b''
        if m0.cluster_id:
            d = m0.cluster_id.encode()
            b0 += b'\n' + varint(len(d)) + d
        if m0.peer:
            d = m0.peer.encode()
            b0 += b'\x12' + varint(len(d)) + d
        parts.append(b'\n' + (SHORT_VARINTS[n] if (n := len(b0)) < 16384 else varint(n)) + b0)
    if message.heartbeat:
        parts.append((b'\x10' + SHORT_VARINTS[n] if 0 < (n := message.heartbeat) < 16384 else b'' if not n else b'\x10' + varint(n)))
    for m1 in message.calls:
        b1 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m1.request_id) < 16384 else b'' if not n else b'\x08' + varint(n)) + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m1.partition) < 16384 else b'' if not n else b'\x10' + varint(n)) + (b'\x18' + SHORT_VARINTS[n] if 0 < (n := m1.api_key) < 16384 else b'' if not n else b'\x18' + varint(n)) + (b' ' + SHORT_VARINTS[n] if 0 < (n := m1.api_version) < 16384 else b'' if not n else b' ' + varint(n))
        if m1.client_id:
            d = m1.client_id.encode()
            b1 += b'*' + varint(len(d)) + d
        if m1.client_host:
            d = m1.client_host.encode()
            b1 += b'2' + varint(len(d)) + d
        b2 = (b'@' + SHORT_VARINTS[n] if 0 < (n := m1.verification_guard) < 16384 else b'' if not n else b'@' + varint(n))
        s0 = m1.body
        if s0:
            l0 = len(s0)
            b1 += b':' + varint(l0)
            b1 = b'\x1a' + varint(len(b1) + l0 + len(b2)) + b1
            parts += (b1, s0, b2)
        else:
            b1 += b2
            b1 = b'\x1a' + (SHORT_VARINTS[n] if (n := len(b1)) < 16384 else varint(n)) + b1
            parts.append(b1)
    for m2 in message.collects:
        b3 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m2.request_id) < 16384 else b'' if not n else b'\x08' + varint(n)) + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m2.partition) < 16384 else b'' if not n else b'\x10' + varint(n)) + (b'\x18' + SHORT_VARINTS[n] if 0 < (n := m2.api_key) < 16384 else b'' if not n else b'\x18' + varint(n)) + (b' ' + SHORT_VARINTS[n] if 0 < (n := m2.api_version) < 16384 else b'' if not n else b' ' + varint(n)) + (b'(' + SHORT_VARINTS[n + n] if 0 < (n := m2.coordinator_epoch) < 8192 else b'(' + varint(n + n) if n > 0 else b'' if not n else b'(\x01' if n == -1 else b'(' + varint(-n - n - 1))
        if m2.group_id:
            d = m2.group_id.encode()
            b3 += b'2' + varint(len(d)) + d
        if m2.member_id:
            d = m2.member_id.encode()
            b3 += b':' + varint(len(d)) + d
        b3 += (b'@' + SHORT_VARINTS[n + n] if 0 < (n := m2.generation_id) < 8192 else b'@' + varint(n + n) if n > 0 else b'' if not n else b'@\x01' if n == -1 else b'@' + varint(-n - n - 1))
        parts.append(b'"' + (SHORT_VARINTS[n] if (n := len(b3)) < 16384 else varint(n)) + b3)
    for m3 in message.timed:
        b4 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m3.request_id) < 16384 else b'' if not n else b'\x08' + varint(n)) + (b'\x12' + varint(len(d)) + d if (d := m3.trace_id) else b'') + (b'\x1a' + varint(len(d)) + d if (d := m3.span_id) else b'')
        parts.append(b'*' + (SHORT_VARINTS[n] if (n := len(b4)) < 16384 else varint(n)) + b4)
    return b"".join(parts)


def scan_coordinate_request(data: bytes) -> CoordinateRequest:
    try:
        view = memoryview(data)
        position = 0
        end = len(data)
        f_hello: Hello | None = None
        f_heartbeat: int = 0
        f_calls: list[GroupCall] = []
        f_collects: list[GroupCollect] = []
        f_timed: list[Timed] = []
        if position < end:
            tag = data[position]
            value = data[position + 1]
            position += 2
            if value > 0x7F:
                value, position = long_varint(data, position, value, tag)
            while True:
                if tag == 0x0a:
                    f_hello = _scan_Hello(data, position, position + value, f_hello)
                    position += value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x10:
                    f_heartbeat = value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x1a:
                    while True:
                        f_calls.append(_scan_GroupCall(data, view, position, position + value))
                        position += value
                        if position >= end:
                            break
                        tag = data[position]
                        value = data[position + 1]
                        position += 2
                        if value > 0x7F:
                            value, position = long_varint(data, position, value, tag)
                        if tag != 0x1a:
                            break
                    if tag == 0x1a:
                        break
                if tag == 0x22:
                    while True:
                        f_collects.append(_scan_GroupCollect(data, position, position + value))
                        position += value
                        if position >= end:
                            break
                        tag = data[position]
                        value = data[position + 1]
                        position += 2
                        if value > 0x7F:
                            value, position = long_varint(data, position, value, tag)
                        if tag != 0x22:
                            break
                    if tag == 0x22:
                        break
                if tag == 0x2a:
                    while True:
                        f_timed.append(_scan_Timed(data, position, position + value))
                        position += value
                        if position >= end:
                            break
                        tag = data[position]
                        value = data[position + 1]
                        position += 2
                        if value > 0x7F:
                            value, position = long_varint(data, position, value, tag)
                        if tag != 0x2a:
                            break
                    if tag == 0x2a:
                        break
                if tag not in {16, 34, 26, 42, 10}:
                    position = skip_unknown(data, position, tag, value)
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
        if position != end:
            raise truncated('CoordinateRequest')
        return CoordinateRequest(f_hello, f_heartbeat, f_calls, f_collects, f_timed)
    except IndexError:
        raise MalformedMessage('a message is truncated') from None


def pack_coordinate_response(message: CoordinateResponse) -> bytes:
    n: int
    d: bytes
    parts: list[Any] = []
    if message.welcome is not None:
        m0 = message.welcome
        b0 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m0.node_id) < 16384 else b'' if not n else b'\x08' + varint(n & 0xFFFF_FFFF_FFFF_FFFF)) + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m0.broker_epoch) < 16384 else b'' if not n else b'\x10' + varint(n & 0xFFFF_FFFF_FFFF_FFFF))
        parts.append(b'\n' + (SHORT_VARINTS[n] if (n := len(b0)) < 16384 else varint(n)) + b0)
    if message.heartbeat:
        parts.append((b'\x10' + SHORT_VARINTS[n] if 0 < (n := message.heartbeat) < 16384 else b'' if not n else b'\x10' + varint(n)))
    if message.credit is not None:
        m1 = message.credit
        b1 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m1.requests) < 16384 else b'' if not n else b'\x08' + varint(n)) + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m1.bytes) < 16384 else b'' if not n else b'\x10' + varint(n))
        parts.append(b'\x1a' + (SHORT_VARINTS[n] if (n := len(b1)) < 16384 else varint(n)) + b1)
    for m2 in message.answers:
        b2 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m2.request_id) < 16384 else b'' if not n else b'\x08' + varint(n)) + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m2.error_code) < 16384 else b'' if not n else b'\x10' + varint(n & 0xFFFF_FFFF_FFFF_FFFF))
        b3 = b''
        if m2.wait is not None:
            m3 = m2.wait
            b4 = (b'\x08' + SHORT_VARINTS[n + n] if 0 < (n := m3.coordinator_epoch) < 8192 else b'\x08' + varint(n + n) if n > 0 else b'' if not n else b'\x08\x01' if n == -1 else b'\x08' + varint(-n - n - 1))
            if m3.group_id:
                d = m3.group_id.encode()
                b4 += b'\x12' + varint(len(d)) + d
            if m3.member_id:
                d = m3.member_id.encode()
                b4 += b'\x1a' + varint(len(d)) + d
            b4 += (b' ' + SHORT_VARINTS[n + n] if 0 < (n := m3.generation_id) < 8192 else b' ' + varint(n + n) if n > 0 else b'' if not n else b' \x01' if n == -1 else b' ' + varint(-n - n - 1)) + (b'(' + SHORT_VARINTS[n] if 0 < (n := m3.step) < 16384 else b'' if not n else b'(' + varint(n)) + (b'0' + SHORT_VARINTS[n] if 0 < (n := m3.wait_ms_max) < 16384 else b'' if not n else b'0' + varint(n))
            b3 += b'"' + (SHORT_VARINTS[n] if (n := len(b4)) < 16384 else varint(n)) + b4
        b3 += (b'(' + SHORT_VARINTS[n] if 0 < (n := m2.verification_guard) < 16384 else b'' if not n else b'(' + varint(n))
        s0 = m2.body
        if s0:
            l0 = len(s0)
            b2 += b'\x1a' + varint(l0)
            b2 = b'"' + varint(len(b2) + l0 + len(b3)) + b2
            parts += (b2, s0, b3)
        else:
            b2 += b3
            b2 = b'"' + (SHORT_VARINTS[n] if (n := len(b2)) < 16384 else varint(n)) + b2
            parts.append(b2)
    for m4 in message.times:
        b5 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m4.request_id) < 16384 else b'' if not n else b'\x08' + varint(n)) + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m4.queue_us) < 16384 else b'' if not n else b'\x10' + varint(n)) + (b'\x18' + SHORT_VARINTS[n] if 0 < (n := m4.work_us) < 16384 else b'' if not n else b'\x18' + varint(n)) + (b' ' + SHORT_VARINTS[n] if 0 < (n := m4.wait_us) < 16384 else b'' if not n else b' ' + varint(n))
        parts.append(b'*' + (SHORT_VARINTS[n] if (n := len(b5)) < 16384 else varint(n)) + b5)
    return b"".join(parts)


def scan_coordinate_response(data: bytes) -> CoordinateResponse:
    try:
        view = memoryview(data)
        position = 0
        end = len(data)
        f_welcome: Welcome | None = None
        f_heartbeat: int = 0
        f_credit: Credit | None = None
        f_answers: list[GroupAnswer] = []
        f_times: list[Times] = []
        if position < end:
            tag = data[position]
            value = data[position + 1]
            position += 2
            if value > 0x7F:
                value, position = long_varint(data, position, value, tag)
            while True:
                if tag == 0x0a:
                    f_welcome = _scan_Welcome(data, position, position + value, f_welcome)
                    position += value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x10:
                    f_heartbeat = value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x1a:
                    f_credit = _scan_Credit(data, position, position + value, f_credit)
                    position += value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x22:
                    while True:
                        f_answers.append(_scan_GroupAnswer(data, view, position, position + value))
                        position += value
                        if position >= end:
                            break
                        tag = data[position]
                        value = data[position + 1]
                        position += 2
                        if value > 0x7F:
                            value, position = long_varint(data, position, value, tag)
                        if tag != 0x22:
                            break
                    if tag == 0x22:
                        break
                if tag == 0x2a:
                    while True:
                        f_times.append(_scan_Times(data, position, position + value))
                        position += value
                        if position >= end:
                            break
                        tag = data[position]
                        value = data[position + 1]
                        position += 2
                        if value > 0x7F:
                            value, position = long_varint(data, position, value, tag)
                        if tag != 0x2a:
                            break
                    if tag == 0x2a:
                        break
                if tag not in {16, 34, 26, 42, 10}:
                    position = skip_unknown(data, position, tag, value)
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
        if position != end:
            raise truncated('CoordinateResponse')
        return CoordinateResponse(f_welcome, f_heartbeat, f_credit, f_answers, f_times)
    except IndexError:
        raise MalformedMessage('a message is truncated') from None


def pack_park_request(message: ParkRequest) -> bytes:
    n: int
    d: bytes
    parts: list[Any] = []
    if message.hello is not None:
        m0 = message.hello
        b0 = b''
        if m0.cluster_id:
            d = m0.cluster_id.encode()
            b0 += b'\n' + varint(len(d)) + d
        if m0.peer:
            d = m0.peer.encode()
            b0 += b'\x12' + varint(len(d)) + d
        parts.append(b'\n' + (SHORT_VARINTS[n] if (n := len(b0)) < 16384 else varint(n)) + b0)
    if message.heartbeat:
        parts.append((b'\x10' + SHORT_VARINTS[n] if 0 < (n := message.heartbeat) < 16384 else b'' if not n else b'\x10' + varint(n)))
    for m1 in message.produces:
        b1 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m1.entry_id) < 16384 else b'' if not n else b'\x08' + varint(n)) + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m1.wait_ms) < 16384 else b'' if not n else b'\x10' + varint(n))
        if m1.conditions:
            p0 = [b1]
            for m2 in m1.conditions:
                b2 = (b'\n' + varint(len(d)) + d if (d := m2.topic_id) else b'') + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m2.partition) < 16384 else b'' if not n else b'\x10' + varint(n)) + (b'\x18' + SHORT_VARINTS[n] if 0 < (n := m2.leader_id) < 16384 else b'' if not n else b'\x18' + varint(n & 0xFFFF_FFFF_FFFF_FFFF)) + (b' ' + SHORT_VARINTS[n + n] if 0 < (n := m2.leader_epoch) < 8192 else b' ' + varint(n + n) if n > 0 else b'' if not n else b' \x01' if n == -1 else b' ' + varint(-n - n - 1)) + (b'(' + SHORT_VARINTS[n + n] if 0 < (n := m2.required_offset) < 8192 else b'(' + varint(n + n) if n > 0 else b'' if not n else b'(\x01' if n == -1 else b'(' + varint(-n - n - 1))
                p0.append(b'\x1a' + (SHORT_VARINTS[n] if (n := len(b2)) < 16384 else varint(n)) + b2)
            b1 = b''.join(p0)
        parts.append(b'\x1a' + (SHORT_VARINTS[n] if (n := len(b1)) < 16384 else varint(n)) + b1)
    for m3 in message.fetches:
        b3 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m3.entry_id) < 16384 else b'' if not n else b'\x08' + varint(n)) + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m3.wait_ms) < 16384 else b'' if not n else b'\x10' + varint(n)) + (b'\x18' + SHORT_VARINTS[n] if 0 < (n := m3.bytes_wanted) < 16384 else b'' if not n else b'\x18' + varint(n))
        if m3.conditions:
            p1 = [b3]
            for m4 in m3.conditions:
                b4 = (b'\n' + varint(len(d)) + d if (d := m4.topic_id) else b'') + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m4.partition) < 16384 else b'' if not n else b'\x10' + varint(n)) + (b'\x18' + SHORT_VARINTS[n] if 0 < (n := m4.leader_id) < 16384 else b'' if not n else b'\x18' + varint(n & 0xFFFF_FFFF_FFFF_FFFF)) + (b' ' + SHORT_VARINTS[n + n] if 0 < (n := m4.leader_epoch) < 8192 else b' ' + varint(n + n) if n > 0 else b'' if not n else b' \x01' if n == -1 else b' ' + varint(-n - n - 1)) + (b'(' + SHORT_VARINTS[n + n] if 0 < (n := m4.fetch_offset) < 8192 else b'(' + varint(n + n) if n > 0 else b'' if not n else b'(\x01' if n == -1 else b'(' + varint(-n - n - 1)) + (b'0' + SHORT_VARINTS[n + n] if 0 < (n := m4.fetch_position) < 8192 else b'0' + varint(n + n) if n > 0 else b'' if not n else b'0\x01' if n == -1 else b'0' + varint(-n - n - 1)) + (b'8' + SHORT_VARINTS[n] if 0 < (n := m4.isolation_level) < 16384 else b'' if not n else b'8' + varint(n))
                if m4.from_follower:
                    b4 += b'@\x01'
                p1.append(b'"' + (SHORT_VARINTS[n] if (n := len(b4)) < 16384 else varint(n)) + b4)
            b3 = b''.join(p1)
        parts.append(b'"' + (SHORT_VARINTS[n] if (n := len(b3)) < 16384 else varint(n)) + b3)
    if message.cancels:
        parts.append(packed_uints(b'*', message.cancels))
    for m5 in message.groups:
        b5 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m5.entry_id) < 16384 else b'' if not n else b'\x08' + varint(n)) + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m5.wait_ms) < 16384 else b'' if not n else b'\x10' + varint(n)) + (b'\x1a' + varint(len(d)) + d if (d := m5.topic_id) else b'') + (b' ' + SHORT_VARINTS[n] if 0 < (n := m5.partition) < 16384 else b'' if not n else b' ' + varint(n)) + (b'(' + SHORT_VARINTS[n] if 0 < (n := m5.leader_id) < 16384 else b'' if not n else b'(' + varint(n & 0xFFFF_FFFF_FFFF_FFFF)) + (b'0' + SHORT_VARINTS[n + n] if 0 < (n := m5.coordinator_epoch) < 8192 else b'0' + varint(n + n) if n > 0 else b'' if not n else b'0\x01' if n == -1 else b'0' + varint(-n - n - 1))
        if m5.group_id:
            d = m5.group_id.encode()
            b5 += b':' + varint(len(d)) + d
        b5 += (b'@' + SHORT_VARINTS[n] if 0 < (n := m5.step) < 16384 else b'' if not n else b'@' + varint(n))
        parts.append(b'2' + (SHORT_VARINTS[n] if (n := len(b5)) < 16384 else varint(n)) + b5)
    for m6 in message.traced:
        b6 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m6.request_id) < 16384 else b'' if not n else b'\x08' + varint(n)) + (b'\x12' + varint(len(d)) + d if (d := m6.trace_id) else b'') + (b'\x1a' + varint(len(d)) + d if (d := m6.span_id) else b'')
        parts.append(b':' + (SHORT_VARINTS[n] if (n := len(b6)) < 16384 else varint(n)) + b6)
    return b"".join(parts)


def scan_park_request(data: bytes) -> ParkRequest:
    try:
        position = 0
        end = len(data)
        f_hello: Hello | None = None
        f_heartbeat: int = 0
        f_produces: list[ParkProduce] = []
        f_fetches: list[ParkFetch] = []
        f_cancels: list[int] = []
        f_groups: list[ParkGroup] = []
        f_traced: list[Timed] = []
        if position < end:
            tag = data[position]
            value = data[position + 1]
            position += 2
            if value > 0x7F:
                value, position = long_varint(data, position, value, tag)
            while True:
                if tag == 0x0a:
                    f_hello = _scan_Hello(data, position, position + value, f_hello)
                    position += value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x10:
                    f_heartbeat = value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x1a:
                    while True:
                        f_produces.append(_scan_ParkProduce(data, position, position + value))
                        position += value
                        if position >= end:
                            break
                        tag = data[position]
                        value = data[position + 1]
                        position += 2
                        if value > 0x7F:
                            value, position = long_varint(data, position, value, tag)
                        if tag != 0x1a:
                            break
                    if tag == 0x1a:
                        break
                if tag == 0x22:
                    while True:
                        f_fetches.append(_scan_ParkFetch(data, position, position + value))
                        position += value
                        if position >= end:
                            break
                        tag = data[position]
                        value = data[position + 1]
                        position += 2
                        if value > 0x7F:
                            value, position = long_varint(data, position, value, tag)
                        if tag != 0x22:
                            break
                    if tag == 0x22:
                        break
                if tag == 0x2a:
                    f_cancels += scan_varints(data, position, position + value)
                    position += value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x28:
                    f_cancels.append(value)
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x32:
                    while True:
                        f_groups.append(_scan_ParkGroup(data, position, position + value))
                        position += value
                        if position >= end:
                            break
                        tag = data[position]
                        value = data[position + 1]
                        position += 2
                        if value > 0x7F:
                            value, position = long_varint(data, position, value, tag)
                        if tag != 0x32:
                            break
                    if tag == 0x32:
                        break
                if tag == 0x3a:
                    while True:
                        f_traced.append(_scan_Timed(data, position, position + value))
                        position += value
                        if position >= end:
                            break
                        tag = data[position]
                        value = data[position + 1]
                        position += 2
                        if value > 0x7F:
                            value, position = long_varint(data, position, value, tag)
                        if tag != 0x3a:
                            break
                    if tag == 0x3a:
                        break
                if tag not in {16, 34, 10, 42, 50, 26, 40, 58}:
                    position = skip_unknown(data, position, tag, value)
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
        if position != end:
            raise truncated('ParkRequest')
        return ParkRequest(f_hello, f_heartbeat, f_produces, f_fetches, f_cancels, f_groups, f_traced)
    except IndexError:
        raise MalformedMessage('a message is truncated') from None


def pack_park_response(message: ParkResponse) -> bytes:
    n: int
    d: bytes
    parts: list[Any] = []
    if message.pod_id:
        d = message.pod_id.encode()
        parts.append(b'\n' + varint(len(d)) + d)
    if message.heartbeat:
        parts.append((b'\x10' + SHORT_VARINTS[n] if 0 < (n := message.heartbeat) < 16384 else b'' if not n else b'\x10' + varint(n)))
    for m0 in message.completions:
        b0 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m0.entry_id) < 16384 else b'' if not n else b'\x08' + varint(n)) + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m0.outcome) < 16384 else b'' if not n else b'\x10' + varint(n & 0xFFFF_FFFF_FFFF_FFFF))
        if m0.error_codes:
            b0 += packed_ints(b'\x1a', m0.error_codes)
        parts.append(b'\x1a' + (SHORT_VARINTS[n] if (n := len(b0)) < 16384 else varint(n)) + b0)
    return b"".join(parts)


def scan_park_response(data: bytes) -> ParkResponse:
    try:
        position = 0
        end = len(data)
        f_pod_id: str = ''
        f_heartbeat: int = 0
        f_completions: list[Completion] = []
        if position < end:
            tag = data[position]
            value = data[position + 1]
            position += 2
            if value > 0x7F:
                value, position = long_varint(data, position, value, tag)
            while True:
                if tag == 0x0a:
                    f_pod_id = scan_string(data, position, value)
                    position += value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x10:
                    f_heartbeat = value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x1a:
                    while True:
                        f_completions.append(_scan_Completion(data, position, position + value))
                        position += value
                        if position >= end:
                            break
                        tag = data[position]
                        value = data[position + 1]
                        position += 2
                        if value > 0x7F:
                            value, position = long_varint(data, position, value, tag)
                        if tag != 0x1a:
                            break
                    if tag == 0x1a:
                        break
                if tag not in {16, 10, 26}:
                    position = skip_unknown(data, position, tag, value)
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
        if position != end:
            raise truncated('ParkResponse')
        return ParkResponse(f_pod_id, f_heartbeat, f_completions)
    except IndexError:
        raise MalformedMessage('a message is truncated') from None


def pack_watch_request(message: WatchRequest) -> bytes:
    n: int
    d: bytes
    parts: list[Any] = []
    if message.hello is not None:
        m0 = message.hello
        b0 = b''
        if m0.cluster_id:
            d = m0.cluster_id.encode()
            b0 += b'\n' + varint(len(d)) + d
        if m0.peer:
            d = m0.peer.encode()
            b0 += b'\x12' + varint(len(d)) + d
        parts.append(b'\n' + (SHORT_VARINTS[n] if (n := len(b0)) < 16384 else varint(n)) + b0)
    if message.heartbeat:
        parts.append((b'\x10' + SHORT_VARINTS[n] if 0 < (n := message.heartbeat) < 16384 else b'' if not n else b'\x10' + varint(n)))
    for m1 in message.watches:
        b1 = (b'\n' + varint(len(d)) + d if (d := m1.topic_id) else b'') + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m1.partition) < 16384 else b'' if not n else b'\x10' + varint(n))
        parts.append(b'\x1a' + (SHORT_VARINTS[n] if (n := len(b1)) < 16384 else varint(n)) + b1)
    for m2 in message.unwatches:
        b2 = (b'\n' + varint(len(d)) + d if (d := m2.topic_id) else b'') + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m2.partition) < 16384 else b'' if not n else b'\x10' + varint(n))
        parts.append(b'"' + (SHORT_VARINTS[n] if (n := len(b2)) < 16384 else varint(n)) + b2)
    for m3 in message.group_watches:
        b3 = (b'\n' + varint(len(d)) + d if (d := m3.topic_id) else b'') + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m3.partition) < 16384 else b'' if not n else b'\x10' + varint(n))
        if m3.group_id:
            d = m3.group_id.encode()
            b3 += b'\x1a' + varint(len(d)) + d
        parts.append(b'*' + (SHORT_VARINTS[n] if (n := len(b3)) < 16384 else varint(n)) + b3)
    for m4 in message.group_unwatches:
        b4 = (b'\n' + varint(len(d)) + d if (d := m4.topic_id) else b'') + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m4.partition) < 16384 else b'' if not n else b'\x10' + varint(n))
        if m4.group_id:
            d = m4.group_id.encode()
            b4 += b'\x1a' + varint(len(d)) + d
        parts.append(b'2' + (SHORT_VARINTS[n] if (n := len(b4)) < 16384 else varint(n)) + b4)
    return b"".join(parts)


def scan_watch_request(data: bytes) -> WatchRequest:
    try:
        position = 0
        end = len(data)
        f_hello: Hello | None = None
        f_heartbeat: int = 0
        f_watches: list[WatchedPartition] = []
        f_unwatches: list[WatchedPartition] = []
        f_group_watches: list[WatchedGroup] = []
        f_group_unwatches: list[WatchedGroup] = []
        if position < end:
            tag = data[position]
            value = data[position + 1]
            position += 2
            if value > 0x7F:
                value, position = long_varint(data, position, value, tag)
            while True:
                if tag == 0x0a:
                    f_hello = _scan_Hello(data, position, position + value, f_hello)
                    position += value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x10:
                    f_heartbeat = value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x1a:
                    while True:
                        f_watches.append(_scan_WatchedPartition(data, position, position + value))
                        position += value
                        if position >= end:
                            break
                        tag = data[position]
                        value = data[position + 1]
                        position += 2
                        if value > 0x7F:
                            value, position = long_varint(data, position, value, tag)
                        if tag != 0x1a:
                            break
                    if tag == 0x1a:
                        break
                if tag == 0x22:
                    while True:
                        f_unwatches.append(_scan_WatchedPartition(data, position, position + value))
                        position += value
                        if position >= end:
                            break
                        tag = data[position]
                        value = data[position + 1]
                        position += 2
                        if value > 0x7F:
                            value, position = long_varint(data, position, value, tag)
                        if tag != 0x22:
                            break
                    if tag == 0x22:
                        break
                if tag == 0x2a:
                    while True:
                        f_group_watches.append(_scan_WatchedGroup(data, position, position + value))
                        position += value
                        if position >= end:
                            break
                        tag = data[position]
                        value = data[position + 1]
                        position += 2
                        if value > 0x7F:
                            value, position = long_varint(data, position, value, tag)
                        if tag != 0x2a:
                            break
                    if tag == 0x2a:
                        break
                if tag == 0x32:
                    while True:
                        f_group_unwatches.append(_scan_WatchedGroup(data, position, position + value))
                        position += value
                        if position >= end:
                            break
                        tag = data[position]
                        value = data[position + 1]
                        position += 2
                        if value > 0x7F:
                            value, position = long_varint(data, position, value, tag)
                        if tag != 0x32:
                            break
                    if tag == 0x32:
                        break
                if tag not in {16, 34, 50, 42, 26, 10}:
                    position = skip_unknown(data, position, tag, value)
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
        if position != end:
            raise truncated('WatchRequest')
        return WatchRequest(f_hello, f_heartbeat, f_watches, f_unwatches, f_group_watches, f_group_unwatches)
    except IndexError:
        raise MalformedMessage('a message is truncated') from None


def pack_watch_response(message: WatchResponse) -> bytes:
    n: int
    d: bytes
    parts: list[Any] = []
    if message.welcome is not None:
        m0 = message.welcome
        b0 = (b'\x08' + SHORT_VARINTS[n] if 0 < (n := m0.node_id) < 16384 else b'' if not n else b'\x08' + varint(n & 0xFFFF_FFFF_FFFF_FFFF)) + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m0.broker_epoch) < 16384 else b'' if not n else b'\x10' + varint(n & 0xFFFF_FFFF_FFFF_FFFF))
        parts.append(b'\n' + (SHORT_VARINTS[n] if (n := len(b0)) < 16384 else varint(n)) + b0)
    if message.heartbeat:
        parts.append((b'\x10' + SHORT_VARINTS[n] if 0 < (n := message.heartbeat) < 16384 else b'' if not n else b'\x10' + varint(n)))
    for m1 in message.states:
        b1 = (b'\n' + varint(len(d)) + d if (d := m1.topic_id) else b'') + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m1.partition) < 16384 else b'' if not n else b'\x10' + varint(n)) + (b'\x18' + SHORT_VARINTS[n + n] if 0 < (n := m1.leader_epoch) < 8192 else b'\x18' + varint(n + n) if n > 0 else b'' if not n else b'\x18\x01' if n == -1 else b'\x18' + varint(-n - n - 1)) + (b' ' + SHORT_VARINTS[n + n] if 0 < (n := m1.high_watermark) < 8192 else b' ' + varint(n + n) if n > 0 else b'' if not n else b' \x01' if n == -1 else b' ' + varint(-n - n - 1)) + (b'(' + SHORT_VARINTS[n + n] if 0 < (n := m1.last_stable_offset) < 8192 else b'(' + varint(n + n) if n > 0 else b'' if not n else b'(\x01' if n == -1 else b'(' + varint(-n - n - 1)) + (b'0' + SHORT_VARINTS[n + n] if 0 < (n := m1.log_start_offset) < 8192 else b'0' + varint(n + n) if n > 0 else b'' if not n else b'0\x01' if n == -1 else b'0' + varint(-n - n - 1)) + (b'8' + SHORT_VARINTS[n + n] if 0 < (n := m1.high_watermark_position) < 8192 else b'8' + varint(n + n) if n > 0 else b'' if not n else b'8\x01' if n == -1 else b'8' + varint(-n - n - 1))
        if m1.leading:
            b1 += b'@\x01'
        if m1.online:
            b1 += b'H\x01'
        if m1.in_sync_replicas_at_minimum:
            b1 += b'P\x01'
        b1 += (b'X' + SHORT_VARINTS[n] if 0 < (n := m1.earlier_epochs_led) < 16384 else b'' if not n else b'X' + varint(n)) + (b'`' + SHORT_VARINTS[n + n] if 0 < (n := m1.last_stable_position) < 8192 else b'`' + varint(n + n) if n > 0 else b'' if not n else b'`\x01' if n == -1 else b'`' + varint(-n - n - 1))
        parts.append(b'\x1a' + (SHORT_VARINTS[n] if (n := len(b1)) < 16384 else varint(n)) + b1)
    for m2 in message.group_states:
        b2 = (b'\n' + varint(len(d)) + d if (d := m2.topic_id) else b'') + (b'\x10' + SHORT_VARINTS[n] if 0 < (n := m2.partition) < 16384 else b'' if not n else b'\x10' + varint(n))
        if m2.group_id:
            d = m2.group_id.encode()
            b2 += b'\x1a' + varint(len(d)) + d
        b2 += (b' ' + SHORT_VARINTS[n + n] if 0 < (n := m2.coordinator_epoch) < 8192 else b' ' + varint(n + n) if n > 0 else b'' if not n else b' \x01' if n == -1 else b' ' + varint(-n - n - 1)) + (b'(' + SHORT_VARINTS[n] if 0 < (n := m2.step) < 16384 else b'' if not n else b'(' + varint(n))
        parts.append(b'"' + (SHORT_VARINTS[n] if (n := len(b2)) < 16384 else varint(n)) + b2)
    return b"".join(parts)


def scan_watch_response(data: bytes) -> WatchResponse:
    try:
        position = 0
        end = len(data)
        f_welcome: Welcome | None = None
        f_heartbeat: int = 0
        f_states: list[PartitionState] = []
        f_group_states: list[GroupState] = []
        if position < end:
            tag = data[position]
            value = data[position + 1]
            position += 2
            if value > 0x7F:
                value, position = long_varint(data, position, value, tag)
            while True:
                if tag == 0x0a:
                    f_welcome = _scan_Welcome(data, position, position + value, f_welcome)
                    position += value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x10:
                    f_heartbeat = value
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
                if tag == 0x1a:
                    while True:
                        f_states.append(_scan_PartitionState(data, position, position + value))
                        position += value
                        if position >= end:
                            break
                        tag = data[position]
                        value = data[position + 1]
                        position += 2
                        if value > 0x7F:
                            value, position = long_varint(data, position, value, tag)
                        if tag != 0x1a:
                            break
                    if tag == 0x1a:
                        break
                if tag == 0x22:
                    while True:
                        f_group_states.append(_scan_GroupState(data, position, position + value))
                        position += value
                        if position >= end:
                            break
                        tag = data[position]
                        value = data[position + 1]
                        position += 2
                        if value > 0x7F:
                            value, position = long_varint(data, position, value, tag)
                        if tag != 0x22:
                            break
                    if tag == 0x22:
                        break
                if tag not in {16, 10, 26, 34}:
                    position = skip_unknown(data, position, tag, value)
                    if position >= end:
                        break
                    tag = data[position]
                    value = data[position + 1]
                    position += 2
                    if value > 0x7F:
                        value, position = long_varint(data, position, value, tag)
        if position != end:
            raise truncated('WatchResponse')
        return WatchResponse(f_welcome, f_heartbeat, f_states, f_group_states)
    except IndexError:
        raise MalformedMessage('a message is truncated') from None
