"""Message sets: what is written is read; damage is an error or fewer messages, and nothing else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.wire.lz4_frame import with_checksum_of_magic_0, with_right_checksum
from barnabas.wire.message_set import encode_message, iterate_messages
from barnabas.wire.primitives import MalformedFrame
from tests.tiers import Cost, examples

CONTENT = st.none() | st.binary(max_size=40)
MESSAGES = st.lists(st.tuples(st.integers(0, 2**63 - 1), CONTENT, CONTENT, st.integers(-1, 2**63 - 1)), max_size=5)
MAGIC = st.integers(0, 1)


@given(MESSAGES, MAGIC)
def test_what_is_written_is_read(messages: list[tuple[int, bytes | None, bytes | None, int]], magic: int) -> None:
    encoded = b"".join(
        encode_message(offset, magic, key, value, timestamp_ms=timestamp_ms)
        for offset, key, value, timestamp_ms in messages
    )
    assert [
        (message.offset, message.key, message.value, message.timestamp_ms) for message in iterate_messages(encoded)
    ] == [(offset, key, value, timestamp_ms if magic else -1) for offset, key, value, timestamp_ms in messages]


@examples(Cost.LOW)
@given(MESSAGES.filter(bool), MAGIC, st.data())
def test_no_bit_of_a_message_can_change_unseen(
    messages: list[tuple[int, bytes | None, bytes | None, int]], magic: int, data: st.DataObject
) -> None:
    encoded = bytearray(b"".join(encode_message(offset, magic, key, value) for offset, key, value, _ in messages))
    intact = [message[1:] for message in iterate_messages(bytes(encoded))]
    position = data.draw(st.integers(8, len(encoded) - 1))
    encoded[position] ^= 1 << data.draw(st.integers(0, 7))
    try:
        found = [message[1:] for message in iterate_messages(encoded)]
    except MalformedFrame:
        return
    # Offsets and sizes lie outside of the CRC: a size too large makes the rest look incomplete.
    assert found == intact[: len(found)]


@given(st.binary(max_size=80))
def test_random_bytes_are_no_trouble(noise: bytes) -> None:
    for correct in (with_right_checksum, with_checksum_of_magic_0):
        corrected = correct(b"\x04\x22\x4d\x18" + noise)
        assert len(corrected) == 4 + len(noise)
    try:
        for message in iterate_messages(noise):
            assert message.magic in (0, 1)
    except MalformedFrame:
        pass
