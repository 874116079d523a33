"""Outlines of records: the same records as decoding finds, and the same faults."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.wire.primitives import MalformedFrame
from barnabas.wire.record_batch import HEADER_BYTES, Record, build_batch, decode_payload, parse_header
from barnabas.wire.records import outline_records
from tests.tiers import Cost, examples

CONTENT = st.none() | st.binary(max_size=200)
# Names of one byte: damage leaves them UTF-8 or makes them what decoding, which makes a str of them, refuses alone.
HEADERS = st.lists(st.tuples(st.sampled_from("abc"), CONTENT), max_size=3)
RECORDS = st.lists(
    st.builds(Record, CONTENT, CONTENT, st.integers(0, 2**62), HEADERS.map(tuple)), min_size=1, max_size=5
)


@given(RECORDS)
def test_an_outline_is_where_the_parts_of_a_record_are(records: list[Record]) -> None:
    batch = build_batch(records)
    payload = batch[HEADER_BYTES:]
    end_before = 0
    found = []
    for start, end, timestamp_delta, offset_delta, key_at, key_length, value_at, value_length in outline_records(
        payload, len(records)
    ):
        assert start == end_before
        end_before = end
        key = None if key_length < 0 else payload[key_at : key_at + key_length]
        value = None if value_length < 0 else payload[value_at : value_at + value_length]
        found.append((offset_delta, records[0].timestamp_ms + timestamp_delta, key, value))
    assert end_before == len(payload)
    assert found == [(index, record.timestamp_ms, record.key, record.value) for index, record in enumerate(records)]


@examples(Cost.LOW)
@given(RECORDS, st.data())
def test_what_can_be_decoded_has_an_outline_and_nothing_else_has(records: list[Record], data: st.DataObject) -> None:
    batch = bytearray(build_batch(records))
    for _ in range(data.draw(st.integers(0, 3))):
        batch[data.draw(st.integers(HEADER_BYTES, len(batch) - 1))] = data.draw(st.integers(0, 127))
    payload = batch[HEADER_BYTES : len(batch) - data.draw(st.integers(0, 2))]
    header = parse_header(batch)
    try:
        decoded: list[Record] | None = decode_payload(header, payload)
    except MalformedFrame:
        decoded = None
    try:
        outlines = list(outline_records(payload, header.records_count))
    except MalformedFrame:
        assert decoded is None
    else:
        assert decoded is not None
        assert len(outlines) == len(decoded)
