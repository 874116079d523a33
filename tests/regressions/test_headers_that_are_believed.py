"""Largest timestamps that a producer left out of its headers, or wrote wrong: they were stored, so offsets by time were
wrong, and retention deleted records that were seconds old.

Sarama 1.43 writes −1, others 0. Kafka reads the records and writes the largest of their timestamps into the header.
"""

from __future__ import annotations

import pytest

from barnabas.runtime.compression import compress
from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import (
    HEADER_BYTES,
    BatchHeader,
    Compression,
    Record,
    assemble_batch,
    build_batch,
    crc_is_valid,
    parse_header,
)
from barnabas.wire.records import outline_records
from barnabas_logstore.core.storage.batches.batch_validation import PLAUSIBLE_SPAN_MS
from barnabas_logstore.core.storage.batches.record_timestamps import READ_BYTES
from barnabas_logstore.core.storage.effects import ReadTimestampsEffect
from tests.unit.logstore.service.support import EXCHANGE, READ, WALL_MS, Host, fetch, topic

CHECK_MS = 1_000
WEEK_MS = 7 * 24 * 3_600_000
MAX_TIMESTAMP = -3
SECOND_MS = 1_000


def batch(
    timestamps_ms: list[int],
    codec: int = Compression.NONE,
    value_bytes: int = 10,
    base_timestamp: int | None = None,
    **changes: int,
) -> bytes:
    """A batch whose records have these timestamps; `changes` are to its header."""
    records = [Record(b"k", b"v" * value_bytes, timestamp_ms) for timestamp_ms in timestamps_ms]
    base_ms = timestamps_ms[0] if base_timestamp is None else base_timestamp
    # The first one gives the base of all others.
    built = build_batch([Record(None, None, base_ms), *records])
    outlines = list(outline_records(built[HEADER_BYTES:], len(records) + 1))
    header = parse_header(built).with_compression(codec)
    header = header._replace(
        records_count=len(records), last_offset_delta=len(records) - 1, max_timestamp=max(timestamps_ms)
    )._replace(**changes)
    payload = b"".join(
        _renumbered(built[HEADER_BYTES + start : HEADER_BYTES + end], index)
        for index, (start, end, *_) in enumerate(outlines[1:])
    )
    return assemble_batch(header, compress(codec, payload, None))


def _renumbered(record: bytes, index: int) -> bytes:
    """A record with the offset `index` in its batch, which it follows by one: both have one byte."""
    at = record.rindex(bytes([2 * (index + 1)]) + b"\x02k")
    return record[:at] + bytes([2 * index]) + record[at + 1 :]


def host_of(configs: dict[str, str] | None = None) -> Host:
    """A logstore, on a disk whose files were written at WALL_MS."""
    host = Host(retention_check_interval_ms=CHECK_MS)
    host.disk.modified_wall_ms = WALL_MS
    host.greet(EXCHANGE, READ)
    host.lead(topic(configs=configs or {}))
    return host


def stored(host: Host, offset: int = 0) -> BatchHeader:
    records = host.read(fetch(offset)).partitions[0].records
    assert crc_is_valid(records)
    return parse_header(records)


def check_retention(host: Host, now_ms: int = CHECK_MS) -> int:
    """Let retention look, as often as it wants to; the log start."""
    for each in (now_ms - 1, now_ms):
        host.now_ms = each
        host.core.tick(each)
        host.settle()
    return host.query_offset(-2).offset


TIMES_MS = [WALL_MS - 3_000, WALL_MS - 1_000, WALL_MS - 2_000]
WRONG = {
    "left out": {"max_timestamp": -1},
    "0": {"max_timestamp": 0},
    "before the first": {"max_timestamp": WALL_MS - 3_001},
    "as long ago as a number can say": {"max_timestamp": -(2**63)},
    "long after the first": {"max_timestamp": WALL_MS - 3_000 + PLAUSIBLE_SPAN_MS + 1},
    "past all bounds": {"max_timestamp": 2**63 - 1},
    "without a base": {"base_timestamp": -1, "max_timestamp": -1},
    "with a base of 0": {"base_timestamp": 0, "max_timestamp": 0},
    "with a base of 0 and the right one": {"base_timestamp": 0},
}
FORMS = {
    "small": (Compression.NONE, 10),
    "too large to be opened in place": (Compression.NONE, 1_000),
    "lz4": (Compression.LZ4, 10),
    "zstd": (Compression.ZSTD, 1_000),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("wrong", WRONG)
def test_the_records_say_it(wrong: str, form: str) -> None:
    host = host_of({"retention.ms": str(WEEK_MS), "segment.bytes": "1048576"})
    changes = dict(WRONG[wrong])
    records = batch(TIMES_MS, *FORMS[form], changes.pop("base_timestamp", None), **changes)
    assert host.append(records).error_code == ErrorCode.NONE
    assert host.append(batch([WALL_MS])).base_offset == 3
    assert stored(host).max_timestamp == WALL_MS - 1_000
    assert host.query_offset(WALL_MS - 1_500).offset == 1
    assert host.query_offset(WALL_MS - 3_000).offset == 0
    assert host.query_offset(WALL_MS - 500).offset == 3
    assert host.query_offset(MAX_TIMESTAMP).offset == 3
    assert check_retention(host) == 0


@pytest.mark.parametrize("wrong", WRONG)
def test_one_record_is_found_by_time_and_kept(wrong: str) -> None:
    host = host_of({"retention.ms": str(WEEK_MS)})
    changes = dict(WRONG[wrong])
    host.append(batch([WALL_MS], Compression.NONE, 10, changes.pop("base_timestamp", None), **changes))
    found = host.query_offset(MAX_TIMESTAMP)
    assert (found.offset, found.timestamp) == (0, WALL_MS)
    assert host.query_offset(WALL_MS).offset == 0
    assert host.query_offset(WALL_MS + 1).offset == -1
    assert check_retention(host) == 0


@pytest.mark.parametrize("largest_ms", [WALL_MS - 1, WALL_MS + 1])
def test_one_record_has_one_timestamp(largest_ms: int) -> None:
    host = host_of()
    host.append(batch([WALL_MS], max_timestamp=largest_ms))
    assert stored(host).max_timestamp == WALL_MS


def test_records_without_timestamps_have_none() -> None:
    host = host_of()
    host.append(batch([-1, -1]))
    assert stored(host).max_timestamp == -1
    assert host.query_offset(MAX_TIMESTAMP).offset == -1


def test_bounds_are_the_records_and_the_header_breaks_none() -> None:
    """A header past `message.timestamp.after.max.ms` was refused, though no record was; such a record was taken."""
    host = host_of({"message.timestamp.after.max.ms": "5000", "message.timestamp.before.max.ms": "5000"})
    assert host.append(batch(TIMES_MS, max_timestamp=WALL_MS + 5_001)).error_code == ErrorCode.NONE
    assert host.append(batch(TIMES_MS, max_timestamp=WALL_MS - 5_001)).error_code == ErrorCode.NONE
    assert [stored(host, offset).max_timestamp for offset in (0, 3)] == [WALL_MS - 1_000] * 2
    late = host.append(batch([WALL_MS, WALL_MS + 5_001, WALL_MS], max_timestamp=-1))
    assert late.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in late.record_errors] == [1]
    early = host.append(batch([WALL_MS - 5_001, WALL_MS]))
    assert early.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in early.record_errors] == [0]


def test_times_of_the_append_need_no_record() -> None:
    host = host_of({"message.timestamp.type": "LogAppendTime"})
    host.holds_effects = True
    host.send(host.append_request(batch(TIMES_MS, Compression.LZ4, max_timestamp=-1)))
    host.turn()
    assert [type(effect).__name__ for effect in host.held] == ["WriteEffect"]
    host.holds_effects = False
    host.settle()
    assert stored(host).max_timestamp == WALL_MS


def test_a_producer_without_largest_timestamps_keeps_its_order_and_is_not_doubled() -> None:
    host = host_of()
    host.holds_effects = True
    batches = [
        batch(
            TIMES_MS, codec, 1_000, producer_id=5, producer_epoch=0, base_sequence=3 * number, max_timestamp=largest_ms
        )
        for number, (codec, largest_ms) in enumerate([(3, -1), (0, WALL_MS - 1_000), (0, 0), (3, WALL_MS - 1_000)])
    ]
    requests = [host.append_request(each) for each in (*batches, batches[2])]
    host.send(*requests)
    results = []
    for _ in range(20):
        results += [result for _, response in host.turn().exchanges for result in response.append_results]
        host.run_effects()
    assert [result.request_id for result in results] == [request.request_id for request in requests]
    assert [(result.error_code, result.base_offset) for result in results] == [
        (ErrorCode.NONE, offset) for offset in (0, 3, 6, 9, 6)
    ]


# --- what retention deletes ---


OLD_MS = WALL_MS - 2 * WEEK_MS


def rolled(host: Host, *batches: bytes) -> None:
    """Each batch in a segment of its own, and one of now behind them, all durable."""
    for each in (*batches, batch([WALL_MS])):
        assert host.append(each).error_code == ErrorCode.NONE
    host.core.tick(0)
    host.settle()


def kept_for_a_week(**configs: str) -> Host:
    host = host_of({"retention.ms": str(WEEK_MS), "segment.ms": "1", "segment.bytes": "2097152", **configs})
    host.disk.modified_wall_ms = WALL_MS
    return host


def plausible(codec: int = Compression.NONE, value_bytes: int = 10) -> bytes:
    """A batch whose header can be right, and is not: its second record is of now."""
    return batch([OLD_MS, WALL_MS], codec, value_bytes, max_timestamp=OLD_MS + 5)


@pytest.mark.parametrize("form", FORMS)
def test_what_a_header_says_is_not_enough_to_delete(form: str) -> None:
    host = kept_for_a_week()
    rolled(host, plausible(*FORMS[form]))
    assert check_retention(host) == 0
    assert check_retention(host, 2 * CHECK_MS) == 0


def test_records_that_were_old_when_they_came_go_as_in_kafka() -> None:
    host = kept_for_a_week()
    rolled(host, batch([OLD_MS]), batch([OLD_MS, OLD_MS + 5], Compression.LZ4), batch([OLD_MS + 10, OLD_MS + 9]))
    assert check_retention(host) == 5


def test_a_log_of_old_records_alone_goes_as_well() -> None:
    host = kept_for_a_week()
    host.append(batch([OLD_MS, OLD_MS + 1], Compression.GZIP))
    assert check_retention(host) == 0
    host.now_ms = 2 * CHECK_MS
    for _ in range(3):
        host.core.tick(host.now_ms)
        host.settle()
    assert host.query_offset(-2).offset == 2


def test_what_was_written_long_ago_goes_without_being_read() -> None:
    host = kept_for_a_week()
    rolled(host, plausible())
    host.disk.modified_wall_ms = WALL_MS - WEEK_MS - 1
    host.holds_effects = True
    host.now_ms = CHECK_MS
    host.core.tick(CHECK_MS)
    host.turn()
    assert "ReadTimestampsEffect" not in [type(effect).__name__ for effect in host.held]
    host.holds_effects = False
    host.settle()
    assert host.query_offset(-2).offset == 2


def test_a_file_that_is_over_soon_is_waited_for() -> None:
    """A producer whose clock is slow must not have every segment read."""
    host = kept_for_a_week()
    rolled(host, batch([OLD_MS]))
    host.disk.modified_wall_ms = WALL_MS - WEEK_MS + 10 * 60 * SECOND_MS
    host.holds_effects = True
    host.now_ms = CHECK_MS
    host.core.tick(CHECK_MS)
    host.turn()
    assert not any(isinstance(effect, ReadTimestampsEffect) for effect in host.held)
    host.holds_effects = False
    host.settle()
    assert host.query_offset(-2).offset == 0
    host.disk.modified_wall_ms = WALL_MS - WEEK_MS - 1
    assert check_retention(host, 2 * CHECK_MS) == 1


def test_a_batch_that_no_one_can_open_is_as_old_as_its_file() -> None:
    host = kept_for_a_week()
    header = parse_header(batch([OLD_MS, OLD_MS])).with_compression(Compression.GZIP)
    rolled(host, assemble_batch(header, b"no gzip"))
    assert check_retention(host) == 0
    host.disk.modified_wall_ms = WALL_MS - WEEK_MS - 1
    assert check_retention(host, 2 * CHECK_MS) == 2


def test_a_segment_is_read_in_parts_one_at_a_time_and_once() -> None:
    """Its last record, in the last of several parts, is of now."""
    host = kept_for_a_week(**{"segment.ms": str(WEEK_MS)})
    large = [batch([OLD_MS, OLD_MS], Compression.NONE, READ_BYTES // 4) for _ in range(6)]
    for each in (*large, plausible()):
        assert host.append(each).error_code == ErrorCode.NONE
    rolled(host)
    host.holds_effects = True
    reads = []
    for now_ms in range(CHECK_MS, 5 * CHECK_MS, CHECK_MS // 2):
        host.now_ms = now_ms
        host.core.tick(now_ms)
        host.turn()
        while host.held:
            under_way = [effect for effect in host.held if isinstance(effect, ReadTimestampsEffect)]
            assert len(under_way) <= 1
            reads += under_way
            host.run_effects()
            host.turn()
    assert len(reads) > 2
    parts = [(effect.position, effect.end_position) for effect in reads]
    assert parts == sorted(set(parts))
    assert len({end for _, end in parts}) == 1
    host.holds_effects = False
    assert host.query_offset(-2).offset == 0


def test_a_largest_timestamp_that_no_record_has_is_the_latest_records() -> None:
    """Within what is plausible a header is believed, but the answer is a record."""
    host = host_of()
    host.append(batch(TIMES_MS, max_timestamp=WALL_MS - 1))
    found = host.query_offset(MAX_TIMESTAMP)
    assert (found.offset, found.timestamp) == (1, WALL_MS - 1_000)
