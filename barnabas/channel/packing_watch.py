"""Watch: what purgatory pods follow of partitions and groups (protos/logstore/v1/watch.proto), packed by hand."""

from __future__ import annotations

from barnabas.channel.messages import GroupState, WatchedGroup, WatchedPartition, WatchRequest, WatchResponse
from barnabas.channel.packing_partition_state import pack_partition_state, scan_partition_state
from barnabas.channel.packing_primitives import (
    bytes_field,
    long_varint,
    message_field,
    pack_hello,
    pack_welcome,
    scan_hello,
    scan_message,
    scan_string,
    scan_welcome,
    sint_field,
    skip_field,
    truncated,
    uint_field,
)


def pack_watch_request(message: WatchRequest) -> bytes:
    parts: list[bytes] = []
    if message.hello is not None:
        parts.append(pack_hello(b"\x0a", message.hello))
    if message.heartbeat:
        parts.append(uint_field(b"\x10", message.heartbeat))
    for watched in message.watches:
        parts.append(_pack_watched_partition(b"\x1a", watched))
    for unwatched in message.unwatches:
        parts.append(_pack_watched_partition(b"\x22", unwatched))
    for group in message.group_watches:
        parts.append(_pack_watched_group(b"\x2a", group))
    for group in message.group_unwatches:
        parts.append(_pack_watched_group(b"\x32", group))
    return b"".join(parts)


def _pack_watched_partition(tag: bytes, watched: WatchedPartition) -> bytes:
    return message_field(tag, bytes_field(b"\x0a", watched.topic_id) + uint_field(b"\x10", watched.partition))


def _pack_watched_group(tag: bytes, group: WatchedGroup) -> bytes:
    return message_field(
        tag,
        bytes_field(b"\x0a", group.topic_id)
        + uint_field(b"\x10", group.partition)
        + bytes_field(b"\x1a", group.group_id.encode()),
    )


def scan_watch_request(data: bytes) -> WatchRequest:
    """Raises MalformedMessage."""
    return scan_message(_scan_watch_request, data)


def _scan_watch_request(data: bytes, _view: memoryview, position: int, end: int) -> WatchRequest:
    message = WatchRequest()
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x1A:
            message.watches.append(_scan_watched_partition(data, position, position + value))
            position += value
        elif tag == 0x22:
            message.unwatches.append(_scan_watched_partition(data, position, position + value))
            position += value
        elif tag == 0x2A:
            message.group_watches.append(_scan_watched_group(data, position, position + value))
            position += value
        elif tag == 0x32:
            message.group_unwatches.append(_scan_watched_group(data, position, position + value))
            position += value
        elif tag == 0x10:
            message.heartbeat = value
        elif tag == 0x0A:
            message.hello = scan_hello(data, position, position + value, message.hello)
            position += value
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("WatchRequest")
    return message


def _scan_watched_partition(data: bytes, position: int, end: int) -> WatchedPartition:
    partition = 0
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
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("WatchedPartition")
    return WatchedPartition(topic_id, partition)


def _scan_watched_group(data: bytes, position: int, end: int) -> WatchedGroup:
    partition = 0
    topic_id = b""
    group_id = ""
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
        elif tag == 0x1A:
            group_id = scan_string(data, position, value)
            position += value
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("WatchedGroup")
    return WatchedGroup(topic_id, partition, group_id)


def pack_watch_response(message: WatchResponse) -> bytes:
    parts: list[bytes] = []
    if message.welcome is not None:
        parts.append(pack_welcome(b"\x0a", message.welcome))
    if message.heartbeat:
        parts.append(uint_field(b"\x10", message.heartbeat))
    for state in message.states:
        parts.append(pack_partition_state(b"\x1a", state))
    for group in message.group_states:
        body = (
            bytes_field(b"\x0a", group.topic_id)
            + uint_field(b"\x10", group.partition)
            + bytes_field(b"\x1a", group.group_id.encode())
            + sint_field(b"\x20", group.coordinator_epoch)
            + uint_field(b"\x28", group.step)
        )
        parts.append(message_field(b"\x22", body))
    return b"".join(parts)


def scan_watch_response(data: bytes) -> WatchResponse:
    """Raises MalformedMessage."""
    return scan_message(_scan_watch_response, data)


def _scan_watch_response(data: bytes, _view: memoryview, position: int, end: int) -> WatchResponse:
    message = WatchResponse()
    states = message.states
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x1A:
            states.append(scan_partition_state(data, position, position + value))
            position += value
        elif tag == 0x22:
            message.group_states.append(_scan_group_state(data, position, position + value))
            position += value
        elif tag == 0x10:
            message.heartbeat = value
        elif tag == 0x0A:
            message.welcome = scan_welcome(data, position, position + value, message.welcome)
            position += value
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("WatchResponse")
    return message


def _scan_group_state(data: bytes, position: int, end: int) -> GroupState:
    state = GroupState(b"", 0, "", 0, 0)
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
        elif tag == 0x1A:
            state.group_id = scan_string(data, position, value)
            position += value
        elif tag == 0x20:
            state.coordinator_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
        elif tag == 0x28:
            state.step = value
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("GroupState")
    return state
