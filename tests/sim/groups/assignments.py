"""What consumers of a group tell each other, in the bytes that Kafka's clients write; brokers hand it on unread.

Source: Kafka's ConsumerProtocolSubscription.json and ConsumerProtocolAssignment.json, version 0.
"""

from __future__ import annotations

from struct import Struct

_HEAD = Struct(">hi")
_LENGTH = Struct(">h")
_COUNT = Struct(">i")
_NO_USER_DATA = _COUNT.pack(-1)

TopicPartition = tuple[str, int]


def subscription(topics: list[str]) -> bytes:
    return b"".join([_HEAD.pack(0, len(topics)), *map(_string, topics), _NO_USER_DATA])


def pack_assignment(partitions: list[TopicPartition]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    parts = [_HEAD.pack(0, len(by_topic))]
    for topic, numbers in by_topic.items():
        parts += [_string(topic), _COUNT.pack(len(numbers)), *map(_COUNT.pack, numbers)]
    return b"".join([*parts, _NO_USER_DATA])


def scan_assignment(data: bytes) -> list[TopicPartition]:
    """Nothing is assigned by no bytes."""
    if not data:
        return []
    _, topics = _HEAD.unpack_from(data)
    position, partitions = _HEAD.size, []
    for _ in range(topics):
        (length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        topic = data[position : position + length].decode()
        position += length
        (count,) = _COUNT.unpack_from(data, position)
        for index in range(count):
            partitions.append((topic, _COUNT.unpack_from(data, position + _COUNT.size * (index + 1))[0]))
        position += _COUNT.size * (count + 1)
    assert data[position:] == _NO_USER_DATA, "an assignment is returned as the leader has written it"
    return partitions


def assign(members: list[str], topics: dict[str, int], turn: int) -> dict[str, bytes]:
    """Every partition to one of the members, in turn from the `turn`-th on; by member id."""
    given: dict[str, list[TopicPartition]] = {member: [] for member in members}
    partitions = [(topic, partition) for topic, count in topics.items() for partition in range(count)]
    for index, partition in enumerate(partitions, turn):
        given[members[index % len(members)]].append(partition)
    return {member: pack_assignment(owned) for member, owned in given.items()}


def _string(text: str) -> bytes:
    return _LENGTH.pack(len(text)) + text.encode()
