"""Timed and Times (protos/logstore/v1/data.proto), packed by hand."""

from __future__ import annotations

from barnabas.channel.packing_primitives import (
    bytes_field,
    long_varint,
    message_field,
    skip_field,
    truncated,
    uint_field,
)
from barnabas.channel.timing import Timed, Times


def pack_timed(tag: bytes, timed: list[Timed]) -> bytes:
    """The whole repeated field."""
    return b"".join(
        [
            message_field(
                tag,
                uint_field(b"\x08", each.request_id)
                + bytes_field(b"\x12", each.trace_id)
                + bytes_field(b"\x1a", each.span_id),
            )
            for each in timed
        ]
    )


def scan_timed(data: bytes, position: int, end: int) -> Timed:
    """One of them."""
    timed = Timed(0)
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x08:
            timed.request_id = value
        elif tag == 0x12:
            timed.trace_id = data[position : position + value]
            position += value
        elif tag == 0x1A:
            timed.span_id = data[position : position + value]
            position += value
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("Timed")
    return timed


def pack_times(tag: bytes, times: list[Times]) -> bytes:
    """The whole repeated field."""
    return b"".join(
        [
            message_field(
                tag,
                uint_field(b"\x08", each.request_id)
                + uint_field(b"\x10", each.queue_us)
                + uint_field(b"\x18", each.work_us),
            )
            for each in times
        ]
    )


def scan_times(data: bytes, position: int, end: int) -> Times:
    """One of them."""
    times = Times(0)
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x08:
            times.request_id = value
        elif tag == 0x10:
            times.queue_us = value
        elif tag == 0x18:
            times.work_us = value
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("Times")
    return times
