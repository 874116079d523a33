"""Which batches a log takes, where they go, and when they count."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from barnabas.cluster.topic_config import LOG_APPEND_TIME, TopicConfig
from barnabas.ports.disk import DiskError, DiskErrorKind
from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import Record, build_batch, crc_is_valid, iterate_headers, parse_header
from barnabas_logstore.core.storage.effect_execution import execute
from tests.sim.disk_model import DiskModel, Fault
from tests.unit.logstore.storage.support import WALL_MS, append, batch, new_log, read, refusal, settle


def patched(records: bytes, position: int, layout: str, value: int, *, fix_crc: bool = True) -> bytes:
    changed = bytearray(records)
    struct.pack_into(layout, changed, position, value)
    if fix_crc:
        struct.pack_into(">I", changed, 17, crc32c(memoryview(changed)[21:]))
    return bytes(changed)


def test_offsets_and_leader_epoch_are_set_in_place_under_the_producers_crc() -> None:
    disk = DiskModel()
    log = new_log(disk)
    first = append(log, batch(3), leader_epoch=4)
    second = append(log, batch(2), leader_epoch=5)
    settle(disk, log)
    data = read(disk, log, 0)
    assert isinstance(data, bytes)
    headers = list(iterate_headers(data))
    assert [(header.base_offset, header.last_offset, header.partition_leader_epoch) for _, header in headers] == [
        (0, 2, 4),
        (3, 4, 5),
    ]
    assert all(crc_is_valid(data, position) for position, _ in headers)
    assert (first.base_offset, first.required_offset, second.base_offset, second.required_offset) == (0, 3, 3, 5)


def test_a_large_batch_is_not_copied_and_arrives_whole() -> None:
    disk = DiskModel()
    log = new_log(disk)
    records = batch(1, value_bytes=100_000)
    append(log, records)
    effect = log.begin_write()
    assert effect is not None
    assert sum(len(buffer) for buffer in effect.buffers) == len(records)
    assert isinstance(effect.buffers[1], memoryview)
    assert effect.buffers[1].obj is records
    execute(disk, effect)
    log.on_written(effect)
    data = read(disk, log, 0)
    assert isinstance(data, bytes)
    assert crc_is_valid(data)


@pytest.mark.parametrize(
    ("records", "error"),
    [
        pytest.param(b"", ErrorCode.INVALID_RECORD, id="nothing"),
        pytest.param(batch()[:16], ErrorCode.INVALID_RECORD, id="shorter than a magic byte"),
        pytest.param(batch()[:60], ErrorCode.INVALID_RECORD, id="shorter than a header"),
        pytest.param(patched(batch(), 16, ">b", 0), ErrorCode.INVALID_RECORD, id="magic 0"),
        pytest.param(patched(batch(), 16, ">b", 1), ErrorCode.INVALID_RECORD, id="magic 1"),
        pytest.param(patched(batch(), 16, ">b", 3), ErrorCode.CORRUPT_MESSAGE, id="magic 3"),
        pytest.param(patched(batch(), 16, ">b", -1), ErrorCode.CORRUPT_MESSAGE, id="magic -1"),
        pytest.param(batch() + batch(), ErrorCode.INVALID_RECORD, id="two batches"),
        pytest.param(batch() + b"\0" * 12, ErrorCode.CORRUPT_MESSAGE, id="a length of 0 behind the batch"),
        pytest.param(
            batch() + b"\0" * 11 + b"\xff\0\0\0\0\x03", ErrorCode.CORRUPT_MESSAGE, id="magic 3 behind the batch"
        ),
        pytest.param(batch()[:-1], ErrorCode.INVALID_RECORD, id="a torn batch"),
        pytest.param(patched(batch(), 8, ">i", -1), ErrorCode.CORRUPT_MESSAGE, id="length -1"),
        pytest.param(patched(batch(), 8, ">i", 48), ErrorCode.CORRUPT_MESSAGE, id="length below a header"),
        pytest.param(patched(batch(), 8, ">i", 2**31 - 1), ErrorCode.INVALID_RECORD, id="length 2^31-1"),
        pytest.param(patched(batch(), 0, ">q", 7), ErrorCode.INVALID_RECORD, id="base offset not 0"),
        pytest.param(patched(batch(), 17, ">I", 1, fix_crc=False), ErrorCode.CORRUPT_MESSAGE, id="wrong CRC"),
        pytest.param(patched(batch(), 57, ">i", 0), ErrorCode.INVALID_RECORD, id="no records"),
        pytest.param(patched(batch(), 57, ">i", -1), ErrorCode.INVALID_RECORD, id="-1 records"),
        pytest.param(patched(batch(3), 23, ">i", 1), ErrorCode.INVALID_RECORD, id="offset delta below the count"),
        pytest.param(patched(batch(3), 23, ">i", 9), ErrorCode.INVALID_RECORD, id="offset delta above the count"),
        pytest.param(patched(batch(), 23, ">i", -1), ErrorCode.INVALID_RECORD, id="offset delta -1"),
        pytest.param(
            build_batch([Record(b"", b"")], is_control=True), ErrorCode.INVALID_RECORD, id="control batch of a client"
        ),
        pytest.param(
            build_batch([Record(b"", b"")], producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True),
            ErrorCode.INVALID_TXN_STATE,
            id="transaction unknown to its coordinator",
        ),
        pytest.param(
            patched(batch(timestamp_ms=-1), 21, ">h", 0x08),
            ErrorCode.INVALID_TIMESTAMP,
            id="LogAppendTime without a time",
        ),
        pytest.param(batch(producer_id=1, producer_epoch=0), ErrorCode.INVALID_RECORD, id="producer without sequence"),
        pytest.param(batch(producer_id=1, base_sequence=0), ErrorCode.INVALID_RECORD, id="producer without epoch"),
    ],
)
def test_what_is_not_one_sound_batch_is_refused(records: bytes, error: ErrorCode) -> None:
    log = new_log(DiskModel())
    assert refusal(log, records) is error
    assert log.begin_write() is None


@pytest.mark.parametrize("length", [1, 11, 12, 60, 61, -1])
def test_an_incomplete_batch_at_the_end_is_cut_off(length: int) -> None:
    """As Kafka does; only what is whole is one batch too many."""
    disk = DiskModel()
    log = new_log(disk)
    append(log, batch() + batch()[:length])
    settle(disk, log)
    data = read(disk, log, 0)
    assert isinstance(data, bytes)
    assert data[16:] == batch()[16:]


def test_log_append_time_of_a_client_is_its_batchs_one_timestamp_and_is_not_kept() -> None:
    disk = DiskModel()
    log = new_log(disk, TopicConfig(message_timestamp_after_max_ms=1000))
    records = patched(batch(2), 21, ">h", 0x08)
    append(log, records)
    settle(disk, log)
    data = read(disk, log, 0)
    assert isinstance(data, bytes)
    assert crc_is_valid(data)
    assert not parse_header(data).is_log_append_time
    assert data[61:] == records[61:]
    assert refusal(log, patched(batch(timestamp_ms=WALL_MS + 1001), 21, ">h", 0x08)) is ErrorCode.INVALID_TIMESTAMP
    stamping = new_log(DiskModel(), TopicConfig(message_timestamp_type=LOG_APPEND_TIME))
    assert refusal(stamping, records) is ErrorCode.INVALID_TIMESTAMP


def test_max_message_bytes_counts_the_whole_batch() -> None:
    records = batch()
    log = new_log(DiskModel(), TopicConfig(max_message_bytes=len(records)))
    append(log, records)
    assert refusal(log, batch(value_bytes=21)) is ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_that_fits_no_segment_is_refused() -> None:
    log = new_log(DiskModel(), TopicConfig(segment_bytes=100))
    assert refusal(log, batch(value_bytes=100)) is ErrorCode.RECORD_LIST_TOO_LARGE


def test_create_time_is_held_to_its_bounds() -> None:
    config = TopicConfig(message_timestamp_after_max_ms=1000, message_timestamp_before_max_ms=2000)
    log = new_log(DiskModel(), config)
    append(log, batch(timestamp_ms=WALL_MS + 1000))
    append(log, batch(timestamp_ms=WALL_MS - 2000))
    append(log, batch(timestamp_ms=-1))
    assert refusal(log, batch(timestamp_ms=WALL_MS + 1001)) is ErrorCode.INVALID_TIMESTAMP
    assert refusal(log, batch(timestamp_ms=WALL_MS - 2001)) is ErrorCode.INVALID_TIMESTAMP
    assert refusal(log, batch(2, timestamp_ms=WALL_MS + 1000)) is ErrorCode.INVALID_TIMESTAMP


def test_log_append_time_rewrites_timestamp_attributes_and_crc() -> None:
    disk = DiskModel()
    log = new_log(disk, TopicConfig(message_timestamp_type=LOG_APPEND_TIME))
    outcome = append(log, batch(2, timestamp_ms=5))
    settle(disk, log)
    data = read(disk, log, 0)
    assert isinstance(data, bytes)
    header = parse_header(data)
    assert outcome.log_append_time_ms == WALL_MS
    assert (header.is_log_append_time, header.max_timestamp, crc_is_valid(data)) == (True, WALL_MS, True)


def test_appends_wait_for_their_write_and_gather_meanwhile() -> None:
    disk = DiskModel()
    log = new_log(disk)
    append(log, batch(), token="first")
    write = log.begin_write()
    assert write is not None
    append(log, batch(2), token="second")
    append(log, batch(3), token="third")
    assert log.begin_write() is None, "one write at a time"
    assert (log.next_offset, log.log_end_offset) == (6, 0)
    assert read(disk, log, 0) == b""
    execute(disk, write)
    assert log.on_written(write) == ["first"]
    assert log.log_end_offset == 1
    gathered = log.begin_write()
    assert gathered is not None
    assert gathered.byte_count == len(batch(2)) + len(batch(3))
    execute(disk, gathered)
    assert log.on_written(gathered) == ["second", "third"]
    assert log.log_end_offset == 6
    assert log.begin_write() is None


def test_a_failed_write_fails_every_append_that_waits_and_takes_the_log_offline() -> None:
    disk = DiskModel()
    log = new_log(disk)
    append(log, batch(), token="done")
    assert settle(disk, log) == ["done"]
    disk.faults.append(Fault("write_at", ".log", written_bytes=10))
    append(log, batch(), token="first")
    write = log.begin_write()
    append(log, batch(), token="second")
    assert write is not None
    with pytest.raises(DiskError) as caught:
        execute(disk, write)
    assert log.fail(caught.value) == ["first", "second"]
    assert log.on_written(write) == []
    assert (log.log_end_offset, log.begin_write(), log.begin_due_flush(0)) == (1, None, None)
    assert log.append(memoryview(batch()), 0, WALL_MS, None) is ErrorCode.KAFKA_STORAGE_ERROR
    assert read(disk, log, 0) is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_full_disk_is_named_and_nothing_torn_is_read() -> None:
    disk = DiskModel(capacity_bytes=1000)
    log = new_log(disk)
    append(log, batch(value_bytes=500), token="fits")
    append(log, batch(value_bytes=500), token="does not")
    assert settle(disk, log) == ["fits", "does not"]
    assert log.error is not None
    assert log.error.kind is DiskErrorKind.NO_SPACE


def test_flush_messages_1_counts_nothing_before_it_is_on_the_disk() -> None:
    disk = DiskModel()
    log = new_log(disk, TopicConfig(flush_messages=1))
    append(log, batch(), token="first")
    write = log.begin_write()
    assert write is not None
    assert write.flush is not None
    append(log, batch(), token="second")
    assert log.begin_write() is None
    execute(disk, write)
    assert log.on_written(write) == ["first"]
    assert log.recovery_point == 1
    assert settle(disk, log) == ["second"]
    assert (log.recovery_point, log.log_end_offset) == (2, 2)


def test_flush_messages_counts_messages_since_the_last_flush() -> None:
    disk = DiskModel()
    log = new_log(disk, TopicConfig(flush_messages=3))
    for _ in range(2):
        append(log, batch())
        settle(disk, log)
    assert log.recovery_point == 0
    append(log, batch())
    settle(disk, log)
    assert log.recovery_point == 3


def test_a_failed_flush_is_never_tried_again() -> None:
    disk = DiskModel()
    log = new_log(disk, TopicConfig(flush_messages=1))
    fault = Fault("flush", ".log", times=100)
    disk.faults.append(fault)
    append(log, batch(), token="lost")
    assert settle(disk, log) == ["lost"]
    assert log.error is not None
    assert (log.log_end_offset, log.recovery_point, log.begin_write(), log.begin_due_flush(1 << 40)) == (
        0,
        0,
        None,
        None,
    )
    assert fault.hits == 1


def test_flush_ms_flushes_what_is_written() -> None:
    disk = DiskModel()
    log = new_log(disk, TopicConfig(flush_ms=1000))
    assert log.begin_due_flush(5) is None
    append(log, batch())
    settle(disk, log, now_ms=1004)
    assert log.recovery_point == 0
    settle(disk, log, now_ms=1005)
    assert log.recovery_point == 1
    assert log.begin_due_flush(9000) is None, "nothing new"
