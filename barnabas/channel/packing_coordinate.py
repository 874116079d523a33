"""Coordinate: what gateways ask of coordinators of groups (protos/logstore/v1/coordination.proto), packed by hand."""

from __future__ import annotations

from barnabas.channel.messages import (
    Buffer,
    CoordinateRequest,
    CoordinateResponse,
    GroupAnswer,
    GroupCall,
    GroupCollect,
    GroupWait,
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
)
from barnabas.channel.packing_timing import pack_timed, pack_times, scan_timed, scan_times


def pack_coordinate_request(message: CoordinateRequest) -> bytes:
    parts: list[bytes] = []
    if message.hello is not None:
        parts.append(pack_hello(b"\x0a", message.hello))
    if message.heartbeat:
        parts.append(uint_field(b"\x10", message.heartbeat))
    for call in message.calls:
        body = (
            uint_field(b"\x08", call.request_id)
            + uint_field(b"\x10", call.partition)
            + uint_field(b"\x18", call.api_key)
            + uint_field(b"\x20", call.api_version)
            + bytes_field(b"\x2a", call.client_id.encode())
            + bytes_field(b"\x32", call.client_host.encode())
            + bytes_field(b"\x3a", bytes(call.body))
        )
        parts.append(message_field(b"\x1a", body))
    for collect in message.collects:
        body = (
            uint_field(b"\x08", collect.request_id)
            + uint_field(b"\x10", collect.partition)
            + uint_field(b"\x18", collect.api_key)
            + uint_field(b"\x20", collect.api_version)
            + sint_field(b"\x28", collect.coordinator_epoch)
            + bytes_field(b"\x32", collect.group_id.encode())
            + bytes_field(b"\x3a", collect.member_id.encode())
            + sint_field(b"\x40", collect.generation_id)
        )
        parts.append(message_field(b"\x22", body))
    if message.timed:
        parts.append(pack_timed(b"\x2a", message.timed))
    return b"".join(parts)


def scan_coordinate_request(data: bytes) -> CoordinateRequest:
    """Raises MalformedMessage. The bodies are slices of `data`."""
    return scan_message(_scan_coordinate_request, data)


def _scan_coordinate_request(data: bytes, view: memoryview, position: int, end: int) -> CoordinateRequest:
    message = CoordinateRequest()
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x1A:
            message.calls.append(_scan_group_call(data, view, position, position + value))
            position += value
        elif tag == 0x22:
            message.collects.append(_scan_group_collect(data, position, position + value))
            position += value
        elif tag == 0x2A:
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
        raise truncated("CoordinateRequest")
    return message


def _scan_group_call(data: bytes, view: memoryview, position: int, end: int) -> GroupCall:
    request_id = partition = api_key = api_version = 0
    client_id = client_host = ""
    body: Buffer = b""
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x3A:
            body = view[position : position + value]
            position += value
        elif tag == 0x08:
            request_id = value
        elif tag == 0x10:
            partition = value & 0xFFFF_FFFF
        elif tag == 0x18:
            api_key = value & 0xFFFF_FFFF
        elif tag == 0x20:
            api_version = value & 0xFFFF_FFFF
        elif tag == 0x2A:
            client_id = scan_string(data, position, value)
            position += value
        elif tag == 0x32:
            client_host = scan_string(data, position, value)
            position += value
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("GroupCall")
    return GroupCall(request_id, partition, api_key, api_version, client_id, client_host, body)


def _scan_group_collect(data: bytes, position: int, end: int) -> GroupCollect:
    collect = GroupCollect(0, 0, 0, 0, 0, "", "", 0)
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x08:
            collect.request_id = value
        elif tag == 0x10:
            collect.partition = value & 0xFFFF_FFFF
        elif tag == 0x18:
            collect.api_key = value & 0xFFFF_FFFF
        elif tag == 0x20:
            collect.api_version = value & 0xFFFF_FFFF
        elif tag == 0x28:
            collect.coordinator_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
        elif tag == 0x32:
            collect.group_id = scan_string(data, position, value)
            position += value
        elif tag == 0x3A:
            collect.member_id = scan_string(data, position, value)
            position += value
        elif tag == 0x40:
            collect.generation_id = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("GroupCollect")
    return collect


def pack_coordinate_response(message: CoordinateResponse) -> bytes:
    parts: list[bytes] = []
    if message.welcome is not None:
        parts.append(pack_welcome(b"\x0a", message.welcome))
    if message.heartbeat:
        parts.append(uint_field(b"\x10", message.heartbeat))
    if message.credit is not None:
        parts.append(pack_credit(b"\x1a", message.credit))
    for answer in message.answers:
        body = (
            uint_field(b"\x08", answer.request_id)
            + int_field(b"\x10", answer.error_code)
            + bytes_field(b"\x1a", bytes(answer.body))
        )
        if answer.wait is not None:
            body += _pack_group_wait(b"\x22", answer.wait)
        parts.append(message_field(b"\x22", body))
    if message.times:
        parts.append(pack_times(b"\x2a", message.times))
    return b"".join(parts)


def _pack_group_wait(tag: bytes, wait: GroupWait) -> bytes:
    return message_field(
        tag,
        sint_field(b"\x08", wait.coordinator_epoch)
        + bytes_field(b"\x12", wait.group_id.encode())
        + bytes_field(b"\x1a", wait.member_id.encode())
        + sint_field(b"\x20", wait.generation_id)
        + uint_field(b"\x28", wait.step)
        + uint_field(b"\x30", wait.wait_ms_max),
    )


def scan_coordinate_response(data: bytes) -> CoordinateResponse:
    """Raises MalformedMessage. The bodies are slices of `data`."""
    return scan_message(_scan_coordinate_response, data)


def _scan_coordinate_response(data: bytes, view: memoryview, position: int, end: int) -> CoordinateResponse:
    message = CoordinateResponse()
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x22:
            message.answers.append(_scan_group_answer(data, view, position, position + value))
            position += value
        elif tag == 0x1A:
            message.credit = scan_credit(data, position, position + value, message.credit)
            position += value
        elif tag == 0x2A:
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
        raise truncated("CoordinateResponse")
    return message


def _scan_group_answer(data: bytes, view: memoryview, position: int, end: int) -> GroupAnswer:
    answer = GroupAnswer(0)
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x1A:
            answer.body = view[position : position + value]
            position += value
        elif tag == 0x08:
            answer.request_id = value
        elif tag == 0x10:
            answer.error_code = signed32(value)
        elif tag == 0x22:
            answer.wait = _scan_group_wait(data, position, position + value, answer.wait)
            position += value
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("GroupAnswer")
    return answer


def _scan_group_wait(data: bytes, position: int, end: int, known: GroupWait | None) -> GroupWait:
    """`known` is an earlier one of the same answer: protobuf merges them."""
    wait = known or GroupWait(0, "", "", 0, 0, 0)
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x08:
            wait.coordinator_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
        elif tag == 0x12:
            wait.group_id = scan_string(data, position, value)
            position += value
        elif tag == 0x1A:
            wait.member_id = scan_string(data, position, value)
            position += value
        elif tag == 0x20:
            wait.generation_id = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
        elif tag == 0x28:
            wait.step = value
        elif tag == 0x30:
            wait.wait_ms_max = value & 0xFFFF_FFFF
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("GroupWait")
    return wait
