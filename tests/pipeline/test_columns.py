"""The vectorised decoder, held to the record codec of the broker's wire package."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from typing import Any
from unittest.mock import patch

import pytest

pytest.importorskip("pyarrow", reason="no pyarrow here (make pipeline-test)")

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from barnabas.runtime.compression import compress
from barnabas.wire.messages.fetch import AbortedTransaction
from barnabas.wire.record_batch import (
    HEADER_BYTES,
    Compression,
    Record,
    assemble_batch,
    build_batch,
    empty_batch,
    parse_header,
    patch_log_append_time,
    rebuild_batch,
)
from barnabas_pipeline.core.errors import CorruptBatch
from barnabas_pipeline.core.positions import TopicPartition
from barnabas_pipeline.kafka import columns as columns_module
from barnabas_pipeline.kafka.batches import AbortedProducers, open_batches, whole_batches
from barnabas_pipeline.kafka.columns import ROWS_MAX, SCHEMA, SCHEMA_WITH_HEADERS, to_record_batches
from barnabas_pipeline.kafka.varints import read_varints
from tests.tiers import Cost, examples

PARTITION = TopicPartition("orders", 3)
EVERYTHING = (0, 1 << 62)


def decode(
    data: bytes,
    *,
    start: int = 0,
    end: int = 1 << 62,
    aborted: list[AbortedTransaction] | None = None,
    with_headers: bool = True,
) -> list[dict[str, Any]]:
    return [row for columns in decoded(data, start, end, aborted, with_headers) for row in columns.to_pylist()]


def decoded(
    data: bytes,
    start: int = 0,
    end: int = 1 << 62,
    aborted: list[AbortedTransaction] | None = None,
    with_headers: bool = True,
) -> list[pa.RecordBatch]:
    opened = open_batches(PARTITION, data, whole_batches(PARTITION, data), AbortedProducers(aborted), check_crcs=True)
    batches = []
    for payloads in opened:
        for columns in to_record_batches(PARTITION, payloads, start, end, with_headers=with_headers):
            columns.validate(full=True)
            assert columns.schema == (SCHEMA_WITH_HEADERS if with_headers else SCHEMA)
            batches.append(columns)
    return batches


def in_short(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [
        (
            row["offset"],
            row["key"],
            row["value"],
            round(row["timestamp"].timestamp() * 1000),
            tuple((each["key"], each["value"]) for each in row["headers"] or ()),
        )
        for row in rows
    ]


def compressed(batch: bytes, codec: Compression) -> bytes:
    header = parse_header(batch)
    return assemble_batch(header.with_compression(codec), compress(codec, batch[HEADER_BYTES:], None))


small_bytes = st.none() | st.binary(max_size=200)
records = st.builds(
    Record,
    small_bytes,
    small_bytes,
    st.integers(0, 4_000_000_000_000),
    st.lists(st.tuples(st.text(max_size=5), small_bytes), max_size=3).map(tuple),
)
batches = st.lists(st.tuples(st.lists(records, min_size=1, max_size=8), st.sampled_from(Compression)), max_size=5)


@given(batches)
def test_rows_are_the_records(contents: list[tuple[list[Record], Compression]]) -> None:
    data = b""
    expected = []
    offset = 10
    for batch, codec in contents:
        built = build_batch(batch, base_offset=offset)
        data += built if codec is Compression.NONE else compressed(built, codec)
        for record in batch:
            expected.append((offset, record.key, record.value, record.timestamp_ms, record.headers))
            offset += 1
        offset += 7
    assert in_short(decode(data)) == expected
    assert [row["topic"] for row in decode(data, with_headers=False)] == ["orders"] * len(expected)


@given(
    batches, st.integers(1, 9), st.integers(0, 3), st.none() | st.tuples(st.integers(0, 1 << 20), st.integers(0, 255))
)
def test_rows_are_the_same_however_records_and_headers_are_cut(
    contents: list[tuple[list[Record], Compression]], rows_max: int, rounds_max: int, broken: tuple[int, int] | None
) -> None:
    """And so is the error of broken ones."""
    data = b""
    for batch, _ in contents:
        payload = bytearray(build_batch(batch, base_offset=len(data))[HEADER_BYTES:])
        if broken is not None:
            payload[broken[0] % len(payload)] = broken[1]
        data += assemble_batch(parse_header(build_batch(batch, base_offset=len(data))), bytes(payload))

    def outcome() -> list[dict[str, Any]] | None:
        try:
            return [
                row
                for columns in decoded(data)
                for row in columns.set_column(5, "timestamp", columns.column("timestamp").cast(pa.int64())).to_pylist()
            ]
        except CorruptBatch:
            return None

    whole = outcome()
    with patch.multiple(columns_module, ROWS_MAX=rows_max, _ROUNDS_MAX=rounds_max):
        assert outcome() == whole


@examples(Cost.LOW)
@given(batches, st.integers(0, 1 << 20), st.integers(0, 255), st.booleans())
def test_broken_bytes_are_one_error_or_nothing(
    contents: list[tuple[list[Record], Compression]], at: int, byte: int, crc_is_mended: bool
) -> None:
    data = bytearray()
    for batch, codec in contents:
        built = build_batch(batch)
        data += built if codec is Compression.NONE else compressed(built, codec)
    if not data:
        return
    data[at % len(data)] = byte
    header = parse_header(data)
    if crc_is_mended and HEADER_BYTES <= header.size_bytes <= len(data):
        data = bytearray(assemble_batch(header, bytes(data[HEADER_BYTES : header.size_bytes])))
    # Whatever it is: rows, or the one error; anything else that is raised fails this.
    # (As columns: a timestamp of a year that Python doesn't have is no error of theirs.)
    with suppress(CorruptBatch):
        decoded(bytes(data))


def test_a_range_begins_and_ends_within_batches() -> None:
    data = b"".join(
        build_batch([Record(None, b"%d" % (base + each)) for each in range(5)], base_offset=base) for base in (0, 5, 10)
    )
    assert [row["value"] for row in decode(data, start=3, end=12)] == [b"%d" % each for each in range(3, 12)]
    assert decode(data, start=15) == []


def test_what_compaction_leaves_keeps_its_offsets() -> None:
    whole = build_batch([Record(b"k%d" % each, b"v") for each in range(4)], base_offset=100)
    header = parse_header(whole)
    kept = [build_batch([Record(b"k2", b"v")], base_offset=0)[HEADER_BYTES:]]
    # The record of offset delta 2, which stands in the byte behind length, attributes and timestamp delta.
    payload = bytearray(kept[0])
    payload[3] = 2 << 1
    gap = rebuild_batch(header, bytes(payload), records_count=1, max_timestamp=-1, delete_horizon_ms=None)
    later = build_batch([Record(b"z", None)], base_offset=104)
    data = gap + empty_batch(later_header := parse_header(later)) + later
    assert later_header.base_offset == 104
    assert [(row["offset"], row["key"], row["value"]) for row in decode(data)] == [
        (102, b"k2", b"v"),
        (104, b"z", None),
    ]


def test_log_append_time_is_the_batches_and_shown_by_the_type() -> None:
    batch = bytearray(build_batch([Record(None, b"a", 1_000), Record(None, b"b", 2_000)]))
    patch_log_append_time(batch, 0, 7_000)
    rows = decode(bytes(batch))
    assert [(row["timestamp"].timestamp(), row["timestampType"]) for row in rows] == [(7.0, 1), (7.0, 1)]


def test_no_timestamp_is_a_millisecond_before_1970() -> None:
    assert decode(build_batch([Record(None, b"a")]))[0]["timestamp"].timestamp() == -0.001


@pytest.mark.parametrize("time_ms", [1 << 62, -(1 << 62), 1_795_000_000_000_000_000])
def test_a_timestamp_that_microseconds_have_no_room_for_is_null(time_ms: int) -> None:
    batch = build_batch([Record(None, b"a", time_ms), Record(None, b"b", 1_000)], base_offset=3)
    assert [row["timestamp"] and row["timestamp"].timestamp() for row in decode(batch)] == [None, 1.0]


def test_records_without_headers_have_null_for_them() -> None:
    rows = decode(build_batch([Record(None, b"a"), Record(None, b"b", headers=(("h", None),))]))
    assert [row["headers"] for row in rows] == [None, [{"key": "h", "value": None}]]


def marker(offset: int, producer_id: int, is_commit: bool) -> bytes:
    record = Record(b"\0\0\0" + (b"\1" if is_commit else b"\0"), b"\0\0\0\0\0\0")
    return build_batch([record], base_offset=offset, producer_id=producer_id, is_transactional=True, is_control=True)


def transactional(offset: int, producer_id: int, value: bytes) -> bytes:
    return build_batch([Record(None, value)], base_offset=offset, producer_id=producer_id, is_transactional=True)


def test_control_records_and_aborted_transactions_are_left_out() -> None:
    data = b"".join(
        (
            transactional(0, 7, b"aborted"),
            transactional(1, 8, b"committed"),
            build_batch([Record(None, b"plain")], base_offset=2, producer_id=7),
            transactional(3, 7, b"aborted too"),
            marker(4, 7, is_commit=False),
            transactional(5, 7, b"another transaction"),
            marker(6, 8, is_commit=True),
            marker(7, 7, is_commit=True),
        )
    )
    aborted = [AbortedTransaction(7, 0)]
    values = [row["value"] for row in decode(data, aborted=aborted)]
    assert values == [b"committed", b"plain", b"another transaction"]
    assert len(decode(data, aborted=None)) == 5


def with_deltas(deltas: tuple[int, ...], last_offset_delta: int) -> bytes:
    whole = build_batch([Record(b"k", b"v") for _ in deltas], base_offset=100)
    payload = bytearray(whole[HEADER_BYTES:])
    record_bytes = len(payload) // len(deltas)
    for index, delta in enumerate(deltas):
        # The byte behind length, attributes and timestamp delta.
        payload[index * record_bytes + 3] = (delta << 1 ^ delta >> 31) & 0x7F
    return assemble_batch(parse_header(whole)._replace(last_offset_delta=last_offset_delta), bytes(payload))


@pytest.mark.parametrize("deltas", [(0, 0), (1, 0), (0, 5), (5, 5), (-1, 0), (0, -1), (-2, -1), (0, 1, 1), (0, 2, 1)])
def test_offsets_that_do_not_rise_within_their_batch_are_an_error(deltas: tuple[int, ...]) -> None:
    """Else an offset comes twice, comes before the one that it follows, or is passed over in silence."""
    good = build_batch([Record(None, b"a"), Record(None, b"b")], base_offset=98)
    for data in (with_deltas(deltas, 4), good + with_deltas(deltas, 4)):
        with pytest.raises(CorruptBatch, match="offsets that don't rise"):
            decode(data)


@pytest.mark.parametrize("deltas", [(0, 1), (0, 4), (3, 4), (2,), (0, 2, 3)])
def test_offsets_with_holes_are_what_compaction_leaves(deltas: tuple[int, ...]) -> None:
    good = build_batch([Record(None, b"a"), Record(None, b"b")], base_offset=98)
    rows = decode(good + with_deltas(deltas, 4) + build_batch([Record(None, b"z")], base_offset=105))
    assert [row["offset"] for row in rows] == [98, 99, *(100 + delta for delta in deltas), 105]


def test_the_crc_is_checked() -> None:
    batch = bytearray(build_batch([Record(None, b"hello")], base_offset=42))
    batch[-2] ^= 1
    with pytest.raises(CorruptBatch, match="orders-3: the batch at offset 42 fails its CRC"):
        decode(bytes(batch))


def test_a_count_that_no_payload_can_hold_costs_nothing() -> None:
    header = parse_header(build_batch([Record(None, b"x")]))
    with pytest.raises(CorruptBatch, match="can't have 1000000000 records"):
        decode(assemble_batch(header._replace(records_count=1_000_000_000), b"\0" * 100))


def test_a_topics_name_has_room_in_every_record_batch() -> None:
    """Arrow's texts have offsets of 32 bits, and a batch of Kafka's may hold 70 million records of 7 bytes."""
    name_bytes_max = 249
    assert ROWS_MAX * name_bytes_max < 1 << 31


@pytest.mark.parametrize("with_headers", [False, True])
def test_many_records_come_in_several_record_batches(with_headers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [Record(b"k%d" % number, b"v", headers=(("h", b"%d" % number),) * (number % 3)) for number in range(10)]
    data = build_batch(records, base_offset=5)
    (whole,) = decoded(data, start=6, with_headers=with_headers)
    monkeypatch.setattr(columns_module, "ROWS_MAX", 4)
    pieces = decoded(data, start=6, with_headers=with_headers)
    assert [each.num_rows for each in pieces] == [3, 4, 2]
    assert [row for each in pieces for row in each.to_pylist()] == whole.to_pylist()
    assert decoded(data, start=15, with_headers=with_headers) == []


def test_offsets_rise_from_one_record_batch_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns_module, "ROWS_MAX", 2)
    assert [row["offset"] for row in decode(with_deltas((0, 1, 2, 5, 9), 9))] == [100, 101, 102, 105, 109]
    with pytest.raises(CorruptBatch, match="offsets that don't rise"):
        decode(with_deltas((0, 1, 1), 9))
    # A record batch begins another batch.
    data = with_deltas((0, 1), 1) + build_batch([Record(None, b"a"), Record(None, b"b")], base_offset=200)
    assert [row["offset"] for row in decode(data)] == [100, 101, 200, 201]


def test_small_records_take_memory_by_the_record_batch_and_not_by_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """All at once, 512 MiB of 7 bytes each would take 6.7 GB."""
    monkeypatch.setattr(columns_module, "ROWS_MAX", 1 << 10)
    count = 100_000
    data = build_batch([Record(None, None)] * count)
    opened = open_batches(PARTITION, data, whole_batches(PARTITION, data), AbortedProducers(None), check_crcs=True)
    (payloads,) = list(opened)
    tracemalloc.start()
    try:
        offsets = 0
        for columns in to_record_batches(PARTITION, payloads, *EVERYTHING, with_headers=True):
            offsets += columns.num_rows
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert offsets == count
    assert peak_bytes < len(payloads.buffer)


COUNTS = [0, 1, 63, 64, 65, 66, 300]


def many_headers(count: int) -> Record:
    headers = ((f"ключ{number}" * (number % 40), None if number % 7 == 0 else bytes(number)) for number in range(count))
    return Record(b"k", b"v", 1_000, tuple(headers))


@pytest.mark.parametrize("walked_at_once", [1, 7, 1 << 16])
def test_headers_by_the_hundred_are_read_as_the_first_ones(
    walked_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns_module, "_WALKED_AT_ONCE", walked_at_once)
    records = [many_headers(count) for count in [*COUNTS, *reversed(COUNTS)]]
    rows = decode(build_batch(records))
    assert [row[4] for row in in_short(rows)] == [record.headers for record in records]


def test_headers_of_many_records_are_split_between_record_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record with more of them than one may have has a record batch to itself."""
    data = build_batch([many_headers(count) for count in [*COUNTS, 0, 4, 5, 6]], base_offset=7)
    (whole,) = decoded(data)
    monkeypatch.setattr(columns_module, "ROWS_MAX", 12)
    pieces = decoded(data)
    assert [each.num_rows for each in pieces] == [2, 1, 1, 1, 1, 1, 3, 1]
    assert [row for each in pieces for row in each.to_pylist()] == whole.to_pylist()


def test_a_record_with_very_many_headers_takes_no_round_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round costs as much for one record as for a hundred: half a million took 17 s, a batch of a few KB hours."""
    calls = 0

    def counted(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        return read_varints(*arguments)

    monkeypatch.setattr(columns_module, "read_varints", counted)
    (row,) = decode(build_batch([Record(None, b"v", headers=(("", None),) * 20_000)]))
    assert row["headers"] == [{"key": "", "value": None}] * 20_000
    assert calls < 200


def test_more_headers_than_a_row_of_sparks_has_room_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns_module, "HEADERS_MAX", 99)
    assert len(decode(build_batch([many_headers(99)]))[0]["headers"]) == 99
    with pytest.raises(CorruptBatch, match="a record with 100 headers, but a row of Spark can have at most 99"):
        decode(build_batch([many_headers(3), many_headers(100)]))
    assert len(decode(build_batch([many_headers(100)]), with_headers=False)) == 1


@pytest.mark.parametrize("at", [5, 69, 99])
@pytest.mark.parametrize(("name_length", "value_length"), [(b"\x01", b"\x01"), (b"\x00", b"\x03"), (b"\x7e", b"\x01")])
def test_a_header_of_a_wrong_length_is_an_error_wherever_it_is(
    at: int, name_length: bytes, value_length: bytes
) -> None:
    """Lengths below 0, -2 of a value, and past the record's end."""
    whole = build_batch([Record(None, b"v", headers=(("", None),) * 100)])
    payload = bytearray(whole[HEADER_BYTES:])
    first = len(payload) - 200
    payload[first + 2 * at : first + 2 * at + 2] = name_length + value_length
    with pytest.raises(CorruptBatch, match=r"a record header that is longer than its record|differs from its fields"):
        decode(assemble_batch(parse_header(whole), bytes(payload)) + build_batch([many_headers(80)], base_offset=1))


def test_header_names_that_are_no_text_are_read_as_java_does() -> None:
    batch = bytearray(build_batch([Record(None, b"v", headers=(("abc", b"x"),))]))
    at = batch.index(b"abc")
    batch[at] = 0xFF
    mended = assemble_batch(parse_header(batch), bytes(batch[HEADER_BYTES:]))
    assert decode(mended)[0]["headers"] == [{"key": "\ufffdbc", "value": b"x"}]
