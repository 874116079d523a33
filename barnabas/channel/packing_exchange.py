"""What a processor says on the Exchange stream (protos/logstore/v1/data.proto): appends, offset and state queries."""

from __future__ import annotations

from barnabas.channel.messages import (
    Append,
    Buffer,
    ExchangeRequest,
    OffsetQuery,
    StateQuery,
)
from barnabas.channel.packing_primitives import (
    bytes_field,
    long_varint,
    message_field,
    pack_hello,
    scan_hello,
    scan_message,
    sint_field,
    skip_field,
    truncated,
    uint_field,
    varint,
)
from barnabas.channel.packing_timing import pack_timed, scan_timed


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
                + uint_field(b"\x18", state_query.partition)
                + sint_field(b"\x20", state_query.leader_epoch)
                + sint_field(b"\x28", state_query.required_offset),
            )
        )
    if message.timed:
        parts.append(pack_timed(b"\x32", message.timed))
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
        elif tag == 0x32:
            message.timed.append(scan_timed(data, position, position + value))
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
    request_id = partition = leader_epoch = required_offset = 0
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
            leader_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
        elif tag == 0x28:
            required_offset = value >> 1 ^ -(value & 1)
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("StateQuery")
    return StateQuery(request_id, topic_id, partition, leader_epoch, required_offset)
