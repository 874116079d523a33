from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.wire.primitives import (
    TAGGED_FIELDS_MAX,
    MalformedFrame,
    check_count,
    nullable_string,
    read_nullable_string,
    read_tag,
    read_uvarint,
    read_varint,
    read_varlong,
    skip_tags,
    uvarint,
    varint,
)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (16383, "ff7f"),
        (16384, "808001"),
        (2**28, "8080808001"),
        (2**31 - 1, "ffffffff07"),
        (2**32 - 1, "ffffffff0f"),
    ],
)
def test_uvarint(value: int, encoded: str) -> None:
    assert uvarint(value).hex() == encoded
    assert read_uvarint(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (-1, "01"), (1, "02"), (-64, "7f"), (64, "8001"), (2**31 - 1, "feffffff0f"), (-(2**31), "ffffffff0f")],
)
def test_varint_is_zigzag(value: int, encoded: str) -> None:
    assert varint(value).hex() == encoded
    assert read_varint(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(2**63 - 1, "feffffffffffffffff01"), (-(2**63), "ffffffffffffffffff01"), (-1, "01"), (2**31, "8080808010")],
)
def test_varlong(value: int, encoded: str) -> None:
    assert varint(value).hex() == encoded
    assert read_varlong(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3))
def test_varlong_anywhere_in_a_buffer(value: int, before: bytes) -> None:
    encoded = varint(value)
    assert read_varlong(before + encoded + b"\xff", len(before)) == (value, len(before) + len(encoded))


@pytest.mark.parametrize("encoded", ["ffffffff10", "ffffffffff00", "808080808000"])
def test_a_varint_past_32_bits_is_malformed(encoded: str) -> None:
    with pytest.raises(MalformedFrame, match="32 bits"):
        read_uvarint(bytes.fromhex(encoded), 0)


@pytest.mark.parametrize("encoded", ["ffffffffffffffffff02", "8080808080808080808000"])
def test_a_varlong_past_64_bits_is_malformed(encoded: str) -> None:
    with pytest.raises(MalformedFrame, match="64 bits"):
        read_varlong(bytes.fromhex(encoded), 0)


@given(st.none() | st.text(max_size=40))
def test_nullable_string(value: str | None) -> None:
    encoded = nullable_string(value)
    assert read_nullable_string(encoded, 0) == (value, len(encoded))
    for length in range(len(encoded)):
        with pytest.raises(MalformedFrame):
            read_nullable_string(encoded[:length], 0)


@pytest.mark.parametrize("encoded", ["fffe6162", "80006162", "00036162"])
def test_a_string_that_is_none(encoded: str) -> None:
    with pytest.raises(MalformedFrame):
        read_nullable_string(bytes.fromhex(encoded), 0)


def test_what_is_no_utf_8_is_replaced_as_by_kafka() -> None:
    assert read_nullable_string(bytes.fromhex("0003c32841"), 0) == ("\ufffd(A", 5)


def test_tags_are_read_in_ascending_order() -> None:
    encoded = bytes.fromhex("0501aa0700810102bbcc")
    assert read_tag(encoded, 0, -1) == (5, 2, 3)
    assert read_tag(encoded, 3, 5) == (7, 5, 5)
    assert read_tag(encoded, 5, 7) == (129, 8, 10)
    assert skip_tags(encoded, 0, 3) == len(encoded)


@pytest.mark.parametrize(
    ("encoded", "count"),
    [
        ("0501aa0501aa", 2),  # the same tag twice
        ("0501aa0301aa", 2),  # descending
        ("0502aa", 1),  # larger than what is there
        ("05ffffffff0f", 1),
        ("0500", 2**31 - 1),
        ("0500", 2),
    ],
)
def test_malformed_tags(encoded: str, count: int) -> None:
    with pytest.raises(MalformedFrame):
        skip_tags(bytes.fromhex(encoded), 0, count)


def test_more_tags_than_any_message_has_are_malformed() -> None:
    tags = b"".join(uvarint(tag) + b"\0" for tag in range(TAGGED_FIELDS_MAX + 1))
    assert skip_tags(tags, 0, TAGGED_FIELDS_MAX) == len(tags) - 3
    with pytest.raises(MalformedFrame, match="1025 tagged fields in one struct"):
        skip_tags(tags, 0, TAGGED_FIELDS_MAX + 1)


def test_a_count_is_held_against_the_bytes_that_remain() -> None:
    check_count("topics", 5, 2, 10)
    with pytest.raises(MalformedFrame, match="topics: 6 elements can't be in the 10 bytes"):
        check_count("topics", 6, 2, 10)
