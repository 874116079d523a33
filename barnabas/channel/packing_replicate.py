"""Replicate: how followers fetch from leaders (protos/logstore/v1/replication.proto), packed by hand."""

from __future__ import annotations

from barnabas.channel.messages import (
    Buffer,
    ReplicaData,
    ReplicaFetch,
    ReplicaHello,
    ReplicaPiece,
    ReplicaPosition,
    ReplicateRequest,
    ReplicateResponse,
)
from barnabas.channel.packing_primitives import (
    bytes_field,
    int_field,
    long_varint,
    message_field,
    pack_welcome,
    packed_uints,
    scan_message,
    scan_string,
    scan_varints,
    scan_welcome,
    signed32,
    signed64,
    sint_field,
    skip_field,
    truncated,
    uint_field,
    varint,
)


def pack_replicate_request(message: ReplicateRequest) -> bytes:
    parts: list[bytes] = []
    hello, fetch = message.hello, message.fetch
    if hello is not None:
        body = (
            bytes_field(b"\x0a", hello.cluster_id.encode())
            + int_field(b"\x10", hello.replica_id)
            + int_field(b"\x18", hello.broker_epoch)
        )
        parts.append(message_field(b"\x0a", body))
    if message.heartbeat:
        parts.append(uint_field(b"\x10", message.heartbeat))
    if fetch is not None:
        fields = [
            uint_field(b"\x08", fetch.request_id)
            + uint_field(b"\x10", fetch.bytes_max)
            + uint_field(b"\x18", fetch.partition_bytes_max)
            + uint_field(b"\x20", fetch.wait_ms_max)
        ]
        fields += [
            message_field(
                b"\x2a",
                uint_field(b"\x08", position.slot)
                + bytes_field(b"\x12", position.topic_id)
                + uint_field(b"\x18", position.partition)
                + sint_field(b"\x20", position.current_leader_epoch)
                + sint_field(b"\x28", position.fetch_offset)
                + sint_field(b"\x30", position.last_fetched_epoch)
                + sint_field(b"\x38", position.log_start_offset),
            )
            for position in fetch.positions
        ]
        fields.append(packed_uints(b"\x32", fetch.forgotten))
        parts.append(message_field(b"\x1a", b"".join(fields)))
    return b"".join(parts)


def scan_replicate_request(data: bytes) -> ReplicateRequest:
    """Raises MalformedMessage."""
    return scan_message(_scan_replicate_request, data)


def _scan_replicate_request(data: bytes, _view: memoryview, position: int, end: int) -> ReplicateRequest:
    message = ReplicateRequest()
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x1A:
            message.fetch = _scan_fetch(data, position, position + value, message.fetch)
            position += value
        elif tag == 0x10:
            message.heartbeat = value
        elif tag == 0x0A:
            message.hello = _scan_hello(data, position, position + value, message.hello)
            position += value
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("ReplicateRequest")
    return message


def _scan_hello(data: bytes, position: int, end: int, known: ReplicaHello | None) -> ReplicaHello:
    hello = known or ReplicaHello("", 0, 0)
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x0A:
            hello.cluster_id = scan_string(data, position, value)
            position += value
        elif tag == 0x10:
            hello.replica_id = signed32(value)
        elif tag == 0x18:
            hello.broker_epoch = signed64(value)
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("ReplicaHello")
    return hello


def _scan_fetch(data: bytes, position: int, end: int, known: ReplicaFetch | None) -> ReplicaFetch:
    fetch = known or ReplicaFetch(0, 0, 0, 0)
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x2A:
            fetch.positions.append(_scan_position(data, position, position + value))
            position += value
        elif tag == 0x08:
            fetch.request_id = value
        elif tag == 0x10:
            fetch.bytes_max = value & 0xFFFF_FFFF
        elif tag == 0x18:
            fetch.partition_bytes_max = value & 0xFFFF_FFFF
        elif tag == 0x20:
            fetch.wait_ms_max = value & 0xFFFF_FFFF
        elif tag == 0x32:
            fetch.forgotten += [slot & 0xFFFF_FFFF for slot in scan_varints(data, position, position + value)]
            position += value
        elif tag == 0x30:
            fetch.forgotten.append(value & 0xFFFF_FFFF)
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("ReplicaFetch")
    return fetch


def _scan_position(data: bytes, position: int, end: int) -> ReplicaPosition:
    slot = partition = current_leader_epoch = fetch_offset = last_fetched_epoch = log_start_offset = 0
    topic_id = b""
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x08:
            slot = value & 0xFFFF_FFFF
        elif tag == 0x12:
            topic_id = data[position : position + value]
            position += value
        elif tag == 0x18:
            partition = value & 0xFFFF_FFFF
        elif tag == 0x20:
            current_leader_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
        elif tag == 0x28:
            fetch_offset = value >> 1 ^ -(value & 1)
        elif tag == 0x30:
            last_fetched_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
        elif tag == 0x38:
            log_start_offset = value >> 1 ^ -(value & 1)
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("ReplicaPosition")
    return ReplicaPosition(
        slot, topic_id, partition, current_leader_epoch, fetch_offset, last_fetched_epoch, log_start_offset
    )


def pack_replicate_response(message: ReplicateResponse) -> bytes:
    """One copy of the records: they join the small parts once."""
    parts: list[Buffer] = []
    if message.welcome is not None:
        parts.append(pack_welcome(b"\x0a", message.welcome))
    if message.heartbeat:
        parts.append(uint_field(b"\x10", message.heartbeat))
    if message.piece is not None:
        _pack_piece(parts, message.piece)
    return b"".join(parts)


def _pack_piece(parts: list[Buffer], piece: ReplicaPiece) -> None:
    """Append a piece; its length is known after its partitions, so its head takes a place kept for it."""
    head = uint_field(b"\x08", piece.request_id)
    if piece.last:
        head += b"\x10\x01"
    length = len(head)
    place = len(parts)
    parts.append(head)
    for data in piece.partitions:
        records = data.records
        body = (
            uint_field(b"\x08", data.slot)
            + int_field(b"\x10", data.error_code)
            + sint_field(b"\x18", data.leader_epoch)
            + sint_field(b"\x20", data.leader_id)
            + sint_field(b"\x28", data.high_watermark)
            + sint_field(b"\x30", data.log_start_offset)
            + sint_field(b"\x38", data.diverging_epoch)
            + sint_field(b"\x40", data.diverging_end_offset)
        )
        if records:
            body += b"\x4a" + varint(len(records))
        body = b"\x1a" + varint(len(body) + len(records)) + body
        length += len(body) + len(records)
        parts.append(body)
        if records:
            parts.append(records)
    parts[place] = b"\x1a" + varint(length) + head


def scan_replicate_response(data: bytes) -> ReplicateResponse:
    """Raises MalformedMessage. The records are slices of `data`."""
    return scan_message(_scan_replicate_response, data)


def _scan_replicate_response(data: bytes, view: memoryview, position: int, end: int) -> ReplicateResponse:
    message = ReplicateResponse()
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x1A:
            message.piece = _scan_piece(data, view, position, position + value, message.piece)
            position += value
        elif tag == 0x10:
            message.heartbeat = value
        elif tag == 0x0A:
            message.welcome = scan_welcome(data, position, position + value, message.welcome)
            position += value
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("ReplicateResponse")
    return message


def _scan_piece(data: bytes, view: memoryview, position: int, end: int, known: ReplicaPiece | None) -> ReplicaPiece:
    piece = known or ReplicaPiece(0, False, [])
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x1A:
            piece.partitions.append(_scan_data(data, view, position, position + value))
            position += value
        elif tag == 0x08:
            piece.request_id = value
        elif tag == 0x10:
            piece.last = value != 0
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("ReplicaPiece")
    return piece


def _scan_data(data: bytes, view: memoryview, position: int, end: int) -> ReplicaData:
    slot = error_code = leader_epoch = leader_id = high_watermark = log_start_offset = 0
    diverging_epoch = diverging_end_offset = 0
    records: Buffer = b""
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x08:
            slot = value & 0xFFFF_FFFF
        elif tag == 0x10:
            error_code = signed32(value)
        elif tag == 0x18:
            leader_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
        elif tag == 0x20:
            leader_id = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
        elif tag == 0x28:
            high_watermark = value >> 1 ^ -(value & 1)
        elif tag == 0x30:
            log_start_offset = value >> 1 ^ -(value & 1)
        elif tag == 0x38:
            diverging_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
        elif tag == 0x40:
            diverging_end_offset = value >> 1 ^ -(value & 1)
        elif tag == 0x4A:
            records = view[position : position + value]
            position += value
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("ReplicaData")
    return ReplicaData(
        slot,
        error_code,
        leader_epoch,
        leader_id,
        high_watermark,
        log_start_offset,
        diverging_epoch,
        diverging_end_offset,
        records,
    )
