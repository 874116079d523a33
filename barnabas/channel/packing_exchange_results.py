"""What a logstore says on the Exchange stream (protos/logstore/v1/data.proto): results and answers."""

from __future__ import annotations

from barnabas.channel.messages import (
    AppendResult,
    ExchangeResponse,
    OffsetAnswer,
    RecordError,
    StateAnswer,
)
from barnabas.channel.packing_partition_state import pack_partition_state, scan_partition_state
from barnabas.channel.packing_primitives import (
    bytes_field,
    int_field,
    long_varint,
    message_field,
    pack_credit,
    pack_welcome,
    scan_credit,
    scan_message,
    scan_string,
    scan_welcome,
    signed32,
    sint_field,
    skip_field,
    truncated,
    uint_field,
)
from barnabas.channel.packing_timing import pack_times, scan_times


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
        for error in result.record_errors:
            body += message_field(
                b"\x5a", uint_field(b"\x08", error.batch_index) + bytes_field(b"\x12", error.message.encode())
            )
        if result.record_epoch_age:
            body += uint_field(b"\x60", result.record_epoch_age)
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
        if state_answer.holds_append:
            body += b"\x20\x01"
        parts.append(message_field(b"\x32", body))
    if message.times:
        parts.append(pack_times(b"\x3a", message.times))
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
        elif tag == 0x3A:
            message.times.append(scan_times(data, position, position + value))
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
    leader_epoch = leader_id = required_offset = record_epoch_age = 0
    committed = False
    error_message = ""
    record_errors: list[RecordError] = []
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
        elif tag == 0x5A:
            record_errors.append(_scan_record_error(data, position, position + value))
            position += value
        elif tag == 0x60:
            record_epoch_age = value & 0xFFFF_FFFF
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
        record_errors,
        record_epoch_age,
    )


def _scan_record_error(data: bytes, position: int, end: int) -> RecordError:
    batch_index = 0
    message = ""
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x08:
            batch_index = value & 0xFFFF_FFFF
        elif tag == 0x12:
            message = scan_string(data, position, value)
            position += value
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("RecordError")
    return RecordError(batch_index, message)


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
        elif tag == 0x20:
            answer.holds_append = value != 0
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("StateAnswer")
    return answer
