"""Read: reads and the pieces of their results (protos/logstore/v1/data.proto), packed by hand."""

from __future__ import annotations

from barnabas.channel.messages import (
    Buffer,
    Read,
    ReadPartition,
    ReadPartitionResult,
    ReadPiece,
    ReadRequest,
    ReadResponse,
)
from barnabas.channel.packing_primitives import (
    bytes_field,
    int_field,
    long_varint,
    message_field,
    pack_credit,
    pack_hello,
    pack_welcome,
    packed_uints,
    scan_credit,
    scan_hello,
    scan_message,
    scan_string,
    scan_varints,
    scan_welcome,
    signed32,
    sint_field,
    skip_field,
    truncated,
    uint_field,
    varint,
)
from barnabas.channel.packing_timing import pack_timed, pack_times, scan_timed, scan_times


def pack_read_request(message: ReadRequest) -> bytes:
    parts: list[bytes] = []
    if message.hello is not None:
        parts.append(pack_hello(b"\x0a", message.hello))
    if message.heartbeat:
        parts.append(uint_field(b"\x10", message.heartbeat))
    for read in message.reads:
        body = (
            uint_field(b"\x08", read.request_id)
            + uint_field(b"\x10", read.bytes_max)
            + uint_field(b"\x18", read.isolation_level)
        )
        partitions = [
            message_field(
                b"\x22",
                bytes_field(b"\x0a", partition.topic_id)
                + uint_field(b"\x10", partition.partition)
                + sint_field(b"\x18", partition.current_leader_epoch)
                + sint_field(b"\x20", partition.fetch_offset)
                + uint_field(b"\x28", partition.partition_bytes_max),
            )
            for partition in read.partitions
        ]
        if read.rack_id:
            partitions.append(bytes_field(b"\x2a", read.rack_id.encode()))
        parts.append(message_field(b"\x1a", body + b"".join(partitions)))
    if message.cancels:
        parts.append(packed_uints(b"\x22", message.cancels))
    if message.timed:
        parts.append(pack_timed(b"\x2a", message.timed))
    return b"".join(parts)


def scan_read_request(data: bytes) -> ReadRequest:
    """Raises MalformedMessage."""
    return scan_message(_scan_read_request, data)


def _scan_read_request(data: bytes, _view: memoryview, position: int, end: int) -> ReadRequest:
    message = ReadRequest()
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x1A:
            message.reads.append(_scan_read(data, position, position + value))
            position += value
        elif tag == 0x22:
            message.cancels += scan_varints(data, position, position + value)
            position += value
        elif tag == 0x2A:
            message.timed.append(scan_timed(data, position, position + value))
            position += value
        elif tag == 0x20:
            message.cancels.append(value)
        elif tag == 0x10:
            message.heartbeat = value
        elif tag == 0x0A:
            message.hello = scan_hello(data, position, position + value, message.hello)
            position += value
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("ReadRequest")
    return message


def _scan_read(data: bytes, position: int, end: int) -> Read:
    request_id = bytes_max = isolation_level = 0
    rack_id = ""
    partitions: list[ReadPartition] = []
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x22:
            partitions.append(_scan_read_partition(data, position, position + value))
            position += value
        elif tag == 0x08:
            request_id = value
        elif tag == 0x10:
            bytes_max = value & 0xFFFF_FFFF
        elif tag == 0x18:
            isolation_level = value & 0xFFFF_FFFF
        elif tag == 0x2A:
            rack_id = scan_string(data, position, value)
            position += value
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("Read")
    return Read(request_id, bytes_max, isolation_level, partitions, rack_id)


def _scan_read_partition(data: bytes, position: int, end: int) -> ReadPartition:
    partition = current_leader_epoch = fetch_offset = partition_bytes_max = 0
    topic_id = b""
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x0A:
            topic_id = data[position : position + value]
            position += value
        elif tag == 0x10:
            partition = value & 0xFFFF_FFFF
        elif tag == 0x18:
            current_leader_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
        elif tag == 0x20:
            fetch_offset = value >> 1 ^ -(value & 1)
        elif tag == 0x28:
            partition_bytes_max = value & 0xFFFF_FFFF
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("ReadPartition")
    return ReadPartition(topic_id, partition, current_leader_epoch, fetch_offset, partition_bytes_max)


def pack_read_response(message: ReadResponse) -> bytes:
    """One copy of the records: they join the small parts once."""
    parts: list[Buffer] = []
    if message.welcome is not None:
        parts.append(pack_welcome(b"\x0a", message.welcome))
    if message.heartbeat:
        parts.append(uint_field(b"\x10", message.heartbeat))
    if message.credit is not None:
        parts.append(pack_credit(b"\x1a", message.credit))
    for piece in message.pieces:
        _pack_piece(parts, piece)
    if message.times:
        parts.append(pack_times(b"\x2a", message.times))
    return b"".join(parts)


def _pack_piece(parts: list[Buffer], piece: ReadPiece) -> None:
    """Append a piece; its length is known after its partitions, so its head takes a place kept for it."""
    head = uint_field(b"\x08", piece.request_id)
    if piece.last:
        head += b"\x10\x01"
    length = len(head)
    place = len(parts)
    parts.append(head)
    for partition in piece.partitions:
        records = partition.records
        body = (
            uint_field(b"\x08", partition.index)
            + int_field(b"\x10", partition.error_code)
            + sint_field(b"\x18", partition.high_watermark)
            + sint_field(b"\x20", partition.last_stable_offset)
            + sint_field(b"\x28", partition.log_start_offset)
            + sint_field(b"\x30", partition.leader_epoch)
            + sint_field(b"\x38", partition.leader_id)
            + sint_field(b"\x40", partition.fetch_position)
        )
        replica = partition.preferred_read_replica
        tail = b"" if replica is None else b"\x50" + varint(replica)
        if records:
            records_length = len(records)
            body += b"\x4a" + varint(records_length)
            body = b"\x1a" + varint(len(body) + records_length + len(tail)) + body
            length += len(body) + records_length + len(tail)
            parts += (body, records, tail)
        else:
            body = message_field(b"\x1a", body + tail)
            length += len(body)
            parts.append(body)
    parts[place] = b"\x22" + varint(length) + head


def scan_read_response(data: bytes) -> ReadResponse:
    """Raises MalformedMessage. The records are slices of `data`."""
    return scan_message(_scan_read_response, data)


def _scan_read_response(data: bytes, view: memoryview, position: int, end: int) -> ReadResponse:
    message = ReadResponse()
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x22:
            message.pieces.append(_scan_piece(data, view, position, position + value))
            position += value
        elif tag == 0x2A:
            message.times.append(scan_times(data, position, position + value))
            position += value
        elif tag == 0x1A:
            message.credit = scan_credit(data, position, position + value, message.credit)
            position += value
        elif tag == 0x10:
            message.heartbeat = value
        elif tag == 0x0A:
            message.welcome = scan_welcome(data, position, position + value, message.welcome)
            position += value
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("ReadResponse")
    return message


def _scan_piece(data: bytes, view: memoryview, position: int, end: int) -> ReadPiece:
    request_id = 0
    last = False
    partitions: list[ReadPartitionResult] = []
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x1A:
            partitions.append(_scan_read_partition_result(data, view, position, position + value))
            position += value
        elif tag == 0x08:
            request_id = value
        elif tag == 0x10:
            last = value != 0
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("ReadPiece")
    return ReadPiece(request_id, last, partitions)


def _scan_read_partition_result(data: bytes, view: memoryview, position: int, end: int) -> ReadPartitionResult:
    index = error_code = high_watermark = last_stable_offset = log_start_offset = 0
    leader_epoch = leader_id = fetch_position = 0
    records: Buffer = b""
    preferred_read_replica: int | None = None
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x08:
            index = value & 0xFFFF_FFFF
        elif tag == 0x18:
            high_watermark = value >> 1 ^ -(value & 1)
        elif tag == 0x20:
            last_stable_offset = value >> 1 ^ -(value & 1)
        elif tag == 0x28:
            log_start_offset = value >> 1 ^ -(value & 1)
        elif tag == 0x30:
            leader_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
        elif tag == 0x38:
            leader_id = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
        elif tag == 0x40:
            fetch_position = value >> 1 ^ -(value & 1)
        elif tag == 0x4A:
            records = view[position : position + value]
            position += value
        elif tag == 0x10:
            error_code = signed32(value)
        elif tag == 0x50:
            preferred_read_replica = value & 0xFFFF_FFFF
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("ReadPartitionResult")
    return ReadPartitionResult(
        index,
        error_code,
        high_watermark,
        last_stable_offset,
        log_start_offset,
        leader_epoch,
        leader_id,
        fetch_position,
        records,
        preferred_read_replica,
    )
