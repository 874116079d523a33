"""Park: conditions parked in purgatory and their completions (protos/purgatory/v1/purgatory.proto), packed by hand."""

from __future__ import annotations

from barnabas.channel.messages import (
    Completion,
    FetchCondition,
    Outcome,
    ParkFetch,
    ParkGroup,
    ParkProduce,
    ParkRequest,
    ParkResponse,
    ProduceCondition,
)
from barnabas.channel.packing_primitives import (
    MalformedMessage,
    bytes_field,
    int_field,
    long_varint,
    message_field,
    pack_hello,
    packed_ints,
    packed_uints,
    scan_hello,
    scan_message,
    scan_string,
    scan_varints,
    signed32,
    sint_field,
    skip_field,
    truncated,
    uint_field,
)
from barnabas.channel.packing_timing import pack_timed, scan_timed

_OUTCOMES = {int(outcome): outcome for outcome in Outcome}


def pack_park_request(message: ParkRequest) -> bytes:
    parts: list[bytes] = []
    if message.hello is not None:
        parts.append(pack_hello(b"\x0a", message.hello))
    if message.heartbeat:
        parts.append(uint_field(b"\x10", message.heartbeat))
    for produce in message.produces:
        head = uint_field(b"\x08", produce.entry_id) + uint_field(b"\x10", produce.wait_ms)
        conditions = [
            message_field(
                b"\x1a",
                bytes_field(b"\x0a", condition.topic_id)
                + uint_field(b"\x10", condition.partition)
                + int_field(b"\x18", condition.leader_id)
                + sint_field(b"\x20", condition.leader_epoch)
                + sint_field(b"\x28", condition.required_offset),
            )
            for condition in produce.conditions
        ]
        parts.append(message_field(b"\x1a", head + b"".join(conditions)))
    for fetch in message.fetches:
        parts.append(_pack_park_fetch(fetch))
    if message.cancels:
        parts.append(packed_uints(b"\x2a", message.cancels))
    for group in message.groups:
        parts.append(_pack_park_group(group))
    if message.traced:
        parts.append(pack_timed(b"\x3a", message.traced))
    return b"".join(parts)


def _pack_park_fetch(fetch: ParkFetch) -> bytes:
    head = (
        uint_field(b"\x08", fetch.entry_id)
        + uint_field(b"\x10", fetch.wait_ms)
        + uint_field(b"\x18", fetch.bytes_wanted)
    )
    conditions = [
        message_field(
            b"\x22",
            bytes_field(b"\x0a", condition.topic_id)
            + uint_field(b"\x10", condition.partition)
            + int_field(b"\x18", condition.leader_id)
            + sint_field(b"\x20", condition.leader_epoch)
            + sint_field(b"\x28", condition.fetch_offset)
            + sint_field(b"\x30", condition.fetch_position)
            + uint_field(b"\x38", condition.isolation_level)
            + uint_field(b"\x40", condition.from_follower),
        )
        for condition in fetch.conditions
    ]
    return message_field(b"\x22", head + b"".join(conditions))


def _pack_park_group(group: ParkGroup) -> bytes:
    return message_field(
        b"\x32",
        uint_field(b"\x08", group.entry_id)
        + uint_field(b"\x10", group.wait_ms)
        + bytes_field(b"\x1a", group.topic_id)
        + uint_field(b"\x20", group.partition)
        + int_field(b"\x28", group.leader_id)
        + sint_field(b"\x30", group.coordinator_epoch)
        + bytes_field(b"\x3a", group.group_id.encode())
        + uint_field(b"\x40", group.step),
    )


def scan_park_request(data: bytes) -> ParkRequest:
    """Raises MalformedMessage."""
    return scan_message(_scan_park_request, data)


def _scan_park_request(data: bytes, _view: memoryview, position: int, end: int) -> ParkRequest:
    message = ParkRequest()
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x1A:
            message.produces.append(_scan_park_produce(data, position, position + value))
            position += value
        elif tag == 0x22:
            message.fetches.append(_scan_park_fetch(data, position, position + value))
            position += value
        elif tag == 0x32:
            message.groups.append(_scan_park_group(data, position, position + value))
            position += value
        elif tag == 0x2A:
            message.cancels += scan_varints(data, position, position + value)
            position += value
        elif tag == 0x28:
            message.cancels.append(value)
        elif tag == 0x3A:
            message.traced.append(scan_timed(data, position, position + value))
            position += value
        elif tag == 0x10:
            message.heartbeat = value
        elif tag == 0x0A:
            message.hello = scan_hello(data, position, position + value, message.hello)
            position += value
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("ParkRequest")
    return message


def _scan_park_produce(data: bytes, position: int, end: int) -> ParkProduce:
    entry_id = wait_ms = 0
    conditions: list[ProduceCondition] = []
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x1A:
            conditions.append(_scan_produce_condition(data, position, position + value))
            position += value
        elif tag == 0x08:
            entry_id = value
        elif tag == 0x10:
            wait_ms = value & 0xFFFF_FFFF
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("ParkProduce")
    return ParkProduce(entry_id, wait_ms, conditions)


def _scan_produce_condition(data: bytes, position: int, end: int) -> ProduceCondition:
    partition = leader_id = leader_epoch = required_offset = 0
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
            leader_id = signed32(value)
        elif tag == 0x20:
            leader_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
        elif tag == 0x28:
            required_offset = value >> 1 ^ -(value & 1)
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("ProduceCondition")
    return ProduceCondition(topic_id, partition, leader_id, leader_epoch, required_offset)


def _scan_park_fetch(data: bytes, position: int, end: int) -> ParkFetch:
    entry_id = wait_ms = bytes_wanted = 0
    conditions: list[FetchCondition] = []
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x22:
            conditions.append(_scan_fetch_condition(data, position, position + value))
            position += value
        elif tag == 0x08:
            entry_id = value
        elif tag == 0x10:
            wait_ms = value & 0xFFFF_FFFF
        elif tag == 0x18:
            bytes_wanted = value & 0xFFFF_FFFF
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("ParkFetch")
    return ParkFetch(entry_id, wait_ms, bytes_wanted, conditions)


def _scan_fetch_condition(data: bytes, position: int, end: int) -> FetchCondition:
    partition = leader_id = leader_epoch = fetch_offset = fetch_position = isolation_level = 0
    topic_id = b""
    from_follower = False
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
            leader_id = signed32(value)
        elif tag == 0x20:
            leader_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
        elif tag == 0x28:
            fetch_offset = value >> 1 ^ -(value & 1)
        elif tag == 0x30:
            fetch_position = value >> 1 ^ -(value & 1)
        elif tag == 0x38:
            isolation_level = value & 0xFFFF_FFFF
        elif tag == 0x40:
            from_follower = value != 0
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("FetchCondition")
    return FetchCondition(
        topic_id, partition, leader_id, leader_epoch, fetch_offset, fetch_position, isolation_level, from_follower
    )


def _scan_park_group(data: bytes, position: int, end: int) -> ParkGroup:
    group = ParkGroup(0, 0, b"", 0, 0, 0, "", 0)
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x08:
            group.entry_id = value
        elif tag == 0x10:
            group.wait_ms = value & 0xFFFF_FFFF
        elif tag == 0x1A:
            group.topic_id = data[position : position + value]
            position += value
        elif tag == 0x20:
            group.partition = value & 0xFFFF_FFFF
        elif tag == 0x28:
            group.leader_id = signed32(value)
        elif tag == 0x30:
            group.coordinator_epoch = (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1)
        elif tag == 0x3A:
            group.group_id = scan_string(data, position, value)
            position += value
        elif tag == 0x40:
            group.step = value
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("ParkGroup")
    return group


def pack_park_response(message: ParkResponse) -> bytes:
    parts: list[bytes] = []
    if message.pod_id:
        parts.append(bytes_field(b"\x0a", message.pod_id.encode()))
    if message.heartbeat:
        parts.append(uint_field(b"\x10", message.heartbeat))
    for completion in message.completions:
        parts.append(
            message_field(
                b"\x1a",
                uint_field(b"\x08", completion.entry_id)
                + int_field(b"\x10", completion.outcome)
                + packed_ints(b"\x1a", completion.error_codes),
            )
        )
    return b"".join(parts)


def scan_park_response(data: bytes) -> ParkResponse:
    """Raises MalformedMessage, also for an outcome that is unspecified or unknown."""
    return scan_message(_scan_park_response, data)


def _scan_park_response(data: bytes, _view: memoryview, position: int, end: int) -> ParkResponse:
    message = ParkResponse()
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x1A:
            message.completions.append(_scan_completion(data, position, position + value))
            position += value
        elif tag == 0x10:
            message.heartbeat = value
        elif tag == 0x0A:
            message.pod_id = scan_string(data, position, value)
            position += value
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("ParkResponse")
    return message


def _scan_completion(data: bytes, position: int, end: int) -> Completion:
    entry_id = outcome = 0
    error_codes: list[int] = []
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x08:
            entry_id = value
        elif tag == 0x10:
            outcome = signed32(value)
        elif tag == 0x1A:
            error_codes += [signed32(each) for each in scan_varints(data, position, position + value)]
            position += value
        elif tag == 0x18:
            error_codes.append(signed32(value))
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("Completion")
    known = _OUTCOMES.get(outcome)
    if known is None:
        raise MalformedMessage(f"outcome {outcome} is not known")
    return Completion(entry_id, known, error_codes)
