from __future__ import annotations

import io
from collections.abc import Iterator

from barnabas_cli.commands.records import _batches


class Chunks(io.RawIOBase):
    """Gives its chunks one by one, as a pipe does that is written to slowly."""

    def __init__(self, *chunks: bytes) -> None:
        self._chunks: Iterator[bytes] = iter(chunks)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        chunk = next(self._chunks, b"")
        buffer[: len(chunk)] = chunk
        return len(chunk)


def batches(*chunks: bytes, key_separator: str | None = None) -> list[list[tuple[bytes | None, bytes | None]]]:
    stdin = io.BufferedReader(Chunks(*chunks))
    return [[(record.key, record.value) for record in batch] for batch in _batches(stdin, key_separator)]


def test_lines_go_out_as_they_come() -> None:
    assert batches(b"a\nb\n", b"c", b"d\n", b"\n") == [
        [(None, b"a"), (None, b"b")],
        [(None, b"cd")],
        [(None, b"")],
    ]


def test_a_last_line_without_an_end_counts() -> None:
    assert batches(b"a\nb") == [[(None, b"a")], [(None, b"b")]]
    assert batches() == []


def test_keys_stand_before_the_first_separator() -> None:
    assert batches(b"k:v:w\nplain\n:v\n", key_separator=":") == [[(b"k", b"v:w"), (None, b"plain"), (b"", b"v")]]
