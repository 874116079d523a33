from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.wire import record_batch
from barnabas.wire.primitives import MalformedFrame
from barnabas.wire.record_batch import Record
from tests.tiers import Cost, examples

CONTENT = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), CONTENT), max_size=3)
RECORDS = st.lists(
    st.builds(Record, CONTENT, CONTENT, st.integers(0, 2**62), HEADERS.map(tuple)), min_size=1, max_size=5
)


@given(RECORDS, st.integers(0, 2**62))
def test_what_is_built_is_decoded(records: list[Record], base_offset: int) -> None:
    batch = record_batch.build_batch(records, base_offset=base_offset)
    for number, record in enumerate(records):
        record.offset = base_offset + number
    assert record_batch.crc_is_valid(batch)
    assert record_batch.decode_records(batch) == records
    header = record_batch.parse_header(batch)
    assert header.last_offset == records[-1].offset
    assert header.max_timestamp == max(record.timestamp_ms for record in records)


@examples(Cost.LOW)
@given(RECORDS, st.data())
def test_a_changed_batch_decodes_or_is_malformed(records: list[Record], data: st.DataObject) -> None:
    batch = bytearray(record_batch.build_batch(records))
    for _ in range(5):
        position = data.draw(st.integers(0, len(batch) - 1))
        batch[position] = data.draw(st.integers(0, 255))
    buffer = batch[: data.draw(st.integers(0, len(batch)))] if data.draw(st.booleans()) else batch
    for read in (
        record_batch.decode_records,
        record_batch.parse_header,
        lambda b: list(record_batch.iterate_headers(b)),
    ):
        try:
            read(buffer)
        except MalformedFrame:
            continue
    assert record_batch.crc_is_valid(buffer) in (True, False)


@given(st.binary(max_size=100))
def test_random_bytes_are_no_batches(noise: bytes) -> None:
    for _, header in _headers(noise):
        assert header.size_bytes >= record_batch.HEADER_BYTES


def _headers(noise: bytes) -> list[tuple[int, record_batch.BatchHeader]]:
    try:
        return list(record_batch.iterate_headers(noise))
    except MalformedFrame:
        return []
