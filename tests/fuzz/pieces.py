"""Several byte strings in one input: each behind two bytes of length, which may promise more than there is."""

from __future__ import annotations

from collections.abc import Iterable


def join_pieces(pieces: Iterable[bytes]) -> bytes:
    return b"".join(len(piece).to_bytes(2, "big") + piece for piece in pieces)


def split_pieces(data: bytes) -> list[bytes]:
    pieces = []
    position = 0
    while position + 2 <= len(data):
        end = position + 2 + int.from_bytes(data[position : position + 2], "big")
        pieces.append(data[position + 2 : end])
        position = end
    return pieces
