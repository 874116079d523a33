"""Damage to valid inputs: the numbers that parsers get wrong, cuts, and pieces put elsewhere."""

from __future__ import annotations

from random import Random
from typing import Final, Literal

from tests.fuzz.target import Target

# Lengths and counts as they are on wires and disks: nothing, null, one off, the largest there are.
_NUMBERS: Final = (0, 1, -1, -2, 2, 127, 128, 255, 256, 16383, 16384, 32767, 32768, 65535, 2**19, 2**24, 2**31 - 1)
_BIG: Final = (*_NUMBERS, -(2**31), 2**31, 2**32 - 1)
_HUGE: Final = (*_BIG, 2**63 - 1, -(2**63))
# Varints: no end, one byte too many, the largest of 32 and of 64 bits, longer than they need to be.
_VARINTS: Final = (
    b"\xff" * 11,
    b"\xff\xff\xff\xff\x10",
    b"\xff\xff\xff\xff\x0f",
    b"\xff" * 9 + b"\x01",
    b"\xff" * 9 + b"\x02",
    b"\x80" * 4 + b"\x00",
    b"\x80",
    b"\x00",
    b"\x01",
)
_MUTATIONS_MAX: Final = 4


def mutate(data: bytes, random: Random, target: Target) -> bytes:
    """Up to four changes, and the checksums put right again half of the time."""
    changed = bytearray(data)
    for _ in range(random.randint(1, _MUTATIONS_MAX)):
        _change(changed, random)
    damaged = bytes(changed[: target.input_bytes_max])
    return target.repair(damaged)[: target.input_bytes_max] if random.random() < 0.5 else damaged


def fresh_input(random: Random, target: Target) -> bytes:
    """A valid input, whole or damaged."""
    data = target.build(random)
    return data[: target.input_bytes_max] if random.random() < 0.2 else mutate(data, random, target)


def _change(data: bytearray, random: Random) -> None:
    position = random.randint(0, len(data))
    match random.randrange(9):
        case 0 if position < len(data):
            data[position] ^= 1 << random.randrange(8)
        case 1 if position < len(data):
            data[position] = random.randrange(256)
        case 2:
            _put(data, position, random.choice(_NUMBERS), 2, random)
        case 3:
            _put(data, position, random.choice(_BIG), 4, random)
        case 4:
            _put(data, position, random.choice(_HUGE), 8, random)
        case 5:
            varint = random.choice(_VARINTS)
            data[position : position + random.choice((0, 1, len(varint)))] = varint
        case 6:
            del data[position : position + random.choice((1, 2, 4, 8, len(data)))]
        case 7:
            start = random.randint(0, len(data))
            piece = data[start : start + random.choice((1, 4, 16, 64, 256))]
            data[position:position] = piece
        case _:
            data[position:position] = random.randbytes(random.choice((1, 2, 4, 16)))


def _put(data: bytearray, position: int, number: int, width: int, random: Random) -> None:
    order: Literal["big", "little"] = "big" if random.random() < 0.9 else "little"
    data[position : position + width] = (number % (1 << 8 * width)).to_bytes(width, order)
