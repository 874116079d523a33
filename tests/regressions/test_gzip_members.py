"""A batch of very many empty gzip members: each was followed by a copy of all that came after it.

Work is counted, not timed: bytes that zlib hands back to be read again.
"""

from __future__ import annotations

import gzip
import zlib
from typing import Any

import pytest

from barnabas.runtime import compression
from barnabas.wire.record_batch import Compression

MEMBER = gzip.compress(b"", mtime=0)
MEMBERS = 5000


def test_what_follows_a_member_is_not_copied_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    given_bytes = 0
    decompressobj = zlib.decompressobj

    class Counting:
        def __init__(self, window_bits: int) -> None:
            self.stream = decompressobj(window_bits)

        def decompress(self, data: bytes, limit: int) -> bytes:
            nonlocal given_bytes
            given_bytes += len(data)
            return self.stream.decompress(data, limit)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.stream, name)

    monkeypatch.setattr(zlib, "decompressobj", Counting)
    assert compression.decompress(Compression.GZIP, MEMBER * MEMBERS, 1000) == b""
    assert given_bytes <= MEMBERS * 16 * 1024


def test_members_are_joined_and_each_must_be_whole() -> None:
    two = gzip.compress(b"a" * 20_000, 0) + gzip.compress(b"b")
    assert compression.decompress(Compression.GZIP, two, 20_001) == b"a" * 20_000 + b"b"
    assert compression.decompress(Compression.GZIP, two, 20_000) is None
    assert compression.decompress(Compression.GZIP, two[:-1], 30_000) is None
    assert compression.decompress(Compression.GZIP, b"", 30_000) is None
