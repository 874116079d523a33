"""Exchange: appends, offset and state queries, and their results (protos/logstore/v1/data.proto), packed by hand."""

from __future__ import annotations

from barnabas.channel.messages import (
    Append,
    AppendResult,
    Buffer,
    ExchangeRequest,
    ExchangeResponse,
    OffsetAnswer,
    OffsetQuery,
    PartitionState,
    StateAnswer,
    StateQuery,
)
from barnabas.channel.packing_primitives import (
    bytes_field,
    int_field,
    long_varint,
    message_field,
    pack_credit,
    pack_hello,
    pack_welcome,
    scan_credit,
    scan_hello,
    scan_message,
    scan_string,
    scan_welcome,
    signed32,
    sint_field,
    skip_field,
    truncated,
    uint_field,
    varint,
)


def pack_exchange_request(message: ExchangeRequest) -> bytes:
    """One copy of the records: they join the small parts once."""
    parts: list[Buffer] = []
    if message.hello is not None:
        parts.append(pack_hello(b"\x0a", message.hello))
    if message.heartbeat:
        parts.append(uint_field(b"\x10", message.heartbeat))
    for append in message.appends:
        records = append.records
        head = (
            uint_field(b"\x08", append.request_id)
            + bytes_field(b"\x12", append.topic_id)
            + uint_field(b"\x18", append.partition)
            + sint_field(b"\x20", append.leader_epoch)
            + sint_field(b"\x28", append.acks)
        )
        if records:
            length = len(records)
            head += b"\x32" + varint(length)
            parts.append(b"\x1a" + varint(len(head) + length) + head)
            parts.append(records)
        else:
            parts.append(b"\x1a" + varint(len(head)) + head)
    for query in message.offset_queries:
        parts.append(
            message_field(
                b"\x22",
                uint_field(b"\x08", query.request_id)
                + bytes_field(b"\x12", query.topic_id)
                + uint_field(b"\x18", query.partition)
                + sint_field(b"\x20", query.current_leader_epoch)
                + uint_field(b"\x28", query.isolation_level)
                + sint_field(b"\x30", query.timestamp),
            )
        )
    for state_query in message.state_queries:
        parts.append(
            message_field(
                b"\x2a",
                uint_field(b"\x08", state_query.request_id)
                + bytes_field(b"\x12", state_query.topic_id)
                + uint_field(b"\x18", state_query.partition),
            )
        )
    return b"".join(parts)


def scan_exchange_request(data: bytes) -> ExchangeRequest:
    """Raises MalformedMessage. The records are slices of `data`."""
    return scan_message(_scan_exchange_request, data)


def _scan_exchange_request(data: bytes, view: memoryview, position: int, end: int) -> ExchangeRequest:
    message = ExchangeRequest()
    appends = message.appends
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x1A:
            appends.append(_scan_append(data, view, position, position + value))
            position += value
        elif tag == 0x22:
            message.offset_queries.append(_scan_offset_query(data, position, position + value))
            position += value
        elif tag == 0x2A:
            message.state_queries.append(_scan_state_query(data, position, position + value))
            position += value
        elif tag == 0x10:
            message.heartbeat = value
        elif tag == 0x0A:
            message.hello = scan_hello(data, position, position + value, message.hello)
            position += value
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("ExchangeRequest")
    return message


def _scan_append(data: bytes, view: memoryview, position: int, end: int) -> Append:
    request_id = partition = leader_epoch = acks = 0
    topic_id = b""
    records: Buffer = b""
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x08:
            request_id = value
        elif tag == 0x12:
            topic_id = data[position : position + value]
            position += value
        elif tag == 0x18:
            partition = value & 0xFFFF_FFFF
        elif tag == 0x20:
            leader_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
        elif tag == 0x28:
            acks = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
        elif tag == 0x32:
            records = view[position : position + value]
            position += value
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("Append")
    return Append(request_id, topic_id, partition, leader_epoch, acks, records)


def _scan_offset_query(data: bytes, position: int, end: int) -> OffsetQuery:
    request_id = partition = current_leader_epoch = isolation_level = timestamp = 0
    topic_id = b""
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x08:
            request_id = value
        elif tag == 0x12:
            topic_id = data[position : position + value]
            position += value
        elif tag == 0x18:
            partition = value & 0xFFFF_FFFF
        elif tag == 0x20:
            current_leader_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
        elif tag == 0x28:
            isolation_level = value & 0xFFFF_FFFF
        elif tag == 0x30:
            timestamp = value >> 1 ^ -(value & 1)
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("OffsetQuery")
    return OffsetQuery(request_id, topic_id, partition, current_leader_epoch, isolation_level, timestamp)


def _scan_state_query(data: bytes, position: int, end: int) -> StateQuery:
    request_id = partition = 0
    topic_id = b""
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x08:
            request_id = value
        elif tag == 0x12:
            topic_id = data[position : position + value]
            position += value
        elif tag == 0x18:
            partition = value & 0xFFFF_FFFF
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("StateQuery")
    return StateQuery(request_id, topic_id, partition)


def pack_exchange_response(message: ExchangeResponse) -> bytes:
    parts: list[bytes] = []
    if message.welcome is not None:
        parts.append(pack_welcome(b"\x0a", message.welcome))
    if message.heartbeat:
        parts.append(uint_field(b"\x10", message.heartbeat))
    if message.credit is not None:
        parts.append(pack_credit(b"\x1a", message.credit))
    for result in message.append_results:
        body = (
            uint_field(b"\x08", result.request_id)
            + int_field(b"\x10", result.error_code)
            + sint_field(b"\x18", result.base_offset)
            + sint_field(b"\x20", result.log_append_time_ms)
            + sint_field(b"\x28", result.log_start_offset)
            + sint_field(b"\x30", result.leader_epoch)
            + sint_field(b"\x38", result.leader_id)
            + sint_field(b"\x40", result.required_offset)
        )
        if result.committed:
            body += b"\x48\x01"
        if result.error_message:
            body += bytes_field(b"\x52", result.error_message.encode())
        parts.append(message_field(b"\x22", body))
    for answer in message.offset_answers:
        parts.append(
            message_field(
                b"\x2a",
                uint_field(b"\x08", answer.request_id)
                + int_field(b"\x10", answer.error_code)
                + sint_field(b"\x18", answer.timestamp)
                + sint_field(b"\x20", answer.offset)
                + sint_field(b"\x28", answer.leader_epoch),
            )
        )
    for state_answer in message.state_answers:
        body = uint_field(b"\x08", state_answer.request_id) + int_field(b"\x10", state_answer.error_code)
        if state_answer.state is not None:
            body += pack_partition_state(b"\x1a", state_answer.state)
        parts.append(message_field(b"\x32", body))
    return b"".join(parts)


def scan_exchange_response(data: bytes) -> ExchangeResponse:
    """Raises MalformedMessage."""
    return scan_message(_scan_exchange_response, data)


def _scan_exchange_response(data: bytes, _view: memoryview, position: int, end: int) -> ExchangeResponse:
    message = ExchangeResponse()
    append_results = message.append_results
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x22:
            append_results.append(_scan_append_result(data, position, position + value))
            position += value
        elif tag == 0x1A:
            message.credit = scan_credit(data, position, position + value, message.credit)
            position += value
        elif tag == 0x2A:
            message.offset_answers.append(_scan_offset_answer(data, position, position + value))
            position += value
        elif tag == 0x32:
            message.state_answers.append(_scan_state_answer(data, position, position + value))
            position += value
        elif tag == 0x10:
            message.heartbeat = value
        elif tag == 0x0A:
            message.welcome = scan_welcome(data, position, position + value, message.welcome)
            position += value
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("ExchangeResponse")
    return message


def _scan_append_result(data: bytes, position: int, end: int) -> AppendResult:
    request_id = error_code = base_offset = log_append_time_ms = log_start_offset = 0
    leader_epoch = leader_id = required_offset = 0
    committed = False
    error_message = ""
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x08:
            request_id = value
        elif tag == 0x18:
            base_offset = value >> 1 ^ -(value & 1)
        elif tag == 0x20:
            log_append_time_ms = value >> 1 ^ -(value & 1)
        elif tag == 0x28:
            log_start_offset = value >> 1 ^ -(value & 1)
        elif tag == 0x30:
            leader_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
        elif tag == 0x38:
            leader_id = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
        elif tag == 0x40:
            required_offset = value >> 1 ^ -(value & 1)
        elif tag == 0x48:
            committed = value != 0
        elif tag == 0x10:
            error_code = signed32(value)
        elif tag == 0x52:
            error_message = scan_string(data, position, value)
            position += value
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("AppendResult")
    return AppendResult(
        request_id,
        error_code,
        base_offset,
        log_append_time_ms,
        log_start_offset,
        leader_epoch,
        leader_id,
        required_offset,
        committed,
        error_message,
    )


def _scan_offset_answer(data: bytes, position: int, end: int) -> OffsetAnswer:
    request_id = error_code = timestamp = offset = leader_epoch = 0
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x08:
            request_id = value
        elif tag == 0x10:
            error_code = signed32(value)
        elif tag == 0x18:
            timestamp = value >> 1 ^ -(value & 1)
        elif tag == 0x20:
            offset = value >> 1 ^ -(value & 1)
        elif tag == 0x28:
            leader_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("OffsetAnswer")
    return OffsetAnswer(request_id, error_code, timestamp, offset, leader_epoch)


def _scan_state_answer(data: bytes, position: int, end: int) -> StateAnswer:
    answer = StateAnswer(0, 0)
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x08:
            answer.request_id = value
        elif tag == 0x10:
            answer.error_code = signed32(value)
        elif tag == 0x1A:
            answer.state = scan_partition_state(data, position, position + value, answer.state)
            position += value
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("StateAnswer")
    return answer


def pack_partition_state(tag: bytes, state: PartitionState) -> bytes:
    body = (
        bytes_field(b"\x0a", state.topic_id)
        + uint_field(b"\x10", state.partition)
        + sint_field(b"\x18", state.leader_epoch)
        + sint_field(b"\x20", state.high_watermark)
        + sint_field(b"\x28", state.last_stable_offset)
        + sint_field(b"\x30", state.log_start_offset)
        + sint_field(b"\x38", state.high_watermark_position)
    )
    if state.leading:
        body += b"\x40\x01"
    if state.online:
        body += b"\x48\x01"
    if state.in_sync_replicas_at_minimum:
        body += b"\x50\x01"
    return message_field(tag, body)


def scan_partition_state(data: bytes, position: int, end: int, known: PartitionState | None = None) -> PartitionState:
    """`known` is an earlier one in the same field: protobuf merges them."""
    state = known or PartitionState(b"", 0, 0, 0, 0, 0, 0)
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x0A:
            state.topic_id = data[position : position + value]
            position += value
        elif tag == 0x10:
            state.partition = value & 0xFFFF_FFFF
        elif tag == 0x18:
            state.leader_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
        elif tag == 0x20:
            state.high_watermark = value >> 1 ^ -(value & 1)
        elif tag == 0x28:
            state.last_stable_offset = value >> 1 ^ -(value & 1)
        elif tag == 0x30:
            state.log_start_offset = value >> 1 ^ -(value & 1)
        elif tag == 0x38:
            state.high_watermark_position = value >> 1 ^ -(value & 1)
        elif tag == 0x40:
            state.leading = value != 0
        elif tag == 0x48:
            state.online = value != 0
        elif tag == 0x50:
            state.in_sync_replicas_at_minimum = value != 0
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("PartitionState")
    return state
