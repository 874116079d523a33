"""What the leader of a group of consumers has assigned to a member: the one thing in it that brokers can read, if they
have to tell operators of it. Source: Kafka's ConsumerProtocolAssignment.json, versions 0 to 3, which begin alike.
"""

from __future__ import annotations

from struct import Struct, error
from typing import Final

_HEAD: Final = Struct(">hi")
_LENGTH: Final = Struct(">h")
_COUNT: Final = Struct(">i")


def read_assignment(data: bytes) -> dict[str, list[int]]:
    """Partitions by topic; nothing where it is none of the consumer protocol's."""
    try:
        return _read(data)
    except (error, ValueError):
        return {}


def _read(data: bytes) -> dict[str, list[int]]:
    """Raises struct.error or ValueError."""
    _, topics = _HEAD.unpack_from(data)
    position = _HEAD.size
    partitions: dict[str, list[int]] = {}
    for _ in range(topics):
        (length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        if length < 0:
            raise ValueError("a name has no negative length")
        topic = data[position : position + length].decode()
        position += length
        (count,) = _COUNT.unpack_from(data, position)
        position += _COUNT.size
        if not 0 <= count <= (len(data) - position) // _COUNT.size:
            raise ValueError("more partitions than bytes")
        partitions[topic] = [number for (number,) in _COUNT.iter_unpack(data[position : position + 4 * count])]
        position += 4 * count
    return partitions
