"""PartitionState (protos/logstore/v1/data.proto), which answers to queries and watches carry."""

from __future__ import annotations

from barnabas.channel.messages import PartitionState
from barnabas.channel.packing_primitives import (
    bytes_field,
    long_varint,
    message_field,
    sint_field,
    skip_field,
    truncated,
    uint_field,
)


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
    if state.earlier_epochs_led:
        body += uint_field(b"\x58", state.earlier_epochs_led)
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
        elif tag == 0x58:
            state.earlier_epochs_led = value & 0xFFFF_FFFF
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("PartitionState")
    return state
