"""Appends whose batches are opened first: in the order of their partition, on few workers, answered whatever comes."""

from __future__ import annotations

import pytest

from barnabas.cluster.messages import LeaderAndIsr
from barnabas.runtime.compression import compress
from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import HEADER_BYTES, Compression, Record, assemble_batch, build_batch, parse_header
from barnabas_logstore.core.data.batch_validation_queue import (
    IN_PLACE_BYTES_MAX,
    VALIDATIONS_MAX,
    BatchValidationQueue,
    WaitingAppend,
)
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.storage.effects import ValidateBatchEffect, WriteEffect
from barnabas_logstore.core.streams.outbox import CompletionFault
from barnabas_logstore.core.streams.streams import ExchangeStream
from tests.unit.logstore.service.support import (
    EXCHANGE,
    READ,
    WALL_MS,
    Host,
    append_results,
    exchange,
    fetch,
    led_by_other,
    topic,
)

OTHER = EXCHANGE + 10
"""Another processor's stream."""
COMPACT = {"cleanup.policy": "compact"}


def compacted(host: Host, **topic_fields: object) -> Host:
    host.greet(EXCHANGE, READ)
    host.lead(topic(configs=COMPACT, **topic_fields))  # type: ignore[arg-type]
    return host


@pytest.fixture
def host() -> Host:
    return compacted(Host())


def gzip(key: bytes | None = b"k", value: bytes = b"v") -> bytes:
    batch = build_batch([Record(key, value, WALL_MS)])
    header = parse_header(batch).with_compression(Compression.GZIP)
    return assemble_batch(header, compress(Compression.GZIP, batch[HEADER_BYTES:], None))


def openings(host: Host) -> list[ValidateBatchEffect]:
    return [effect for effect in host.held if isinstance(effect, ValidateBatchEffect)]


def stored(host: Host, partition: int = 0) -> list[int]:
    """The codecs of what is in the log."""
    records = host.read(fetch(partition=partition)).partitions[0].records
    codecs, position = [], 0
    while position < len(records):
        header = parse_header(records, position)
        codecs.append(header.compression)
        position += header.size_bytes
    return codecs


def test_a_record_without_a_key_is_refused_by_a_compacted_topic(host: Host) -> None:
    result = host.append(gzip(key=None))
    assert result.error_code == ErrorCode.INVALID_RECORD
    assert result.error_message.startswith("One or more records have been rejected")
    (error,) = result.record_errors
    assert error.batch_index == 0
    assert error.message.endswith("in topic partition orders-0")
    assert host.append(gzip()).base_offset == 0


def test_batches_get_their_topics_codec() -> None:
    host = Host()
    host.greet(EXCHANGE, READ)
    host.lead(topic(configs={"compression.type": "zstd"}))
    host.append(gzip())
    assert host.append(build_batch([Record(None, b"v", WALL_MS)])).base_offset == 1
    assert stored(host) == [Compression.ZSTD] * 2


def test_after_a_change_of_codec_max_message_bytes_counts_again() -> None:
    host = Host()
    host.greet(EXCHANGE, READ)
    host.lead(topic(configs={"compression.type": "uncompressed", "max.message.bytes": "1000"}))
    assert host.append(gzip(value=bytes(900))).error_code == ErrorCode.NONE
    assert host.append(gzip(value=bytes(1000))).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_appends_of_one_partition_keep_their_order_and_others_go_on(host: Host) -> None:
    host.lead(topic(1, partitions=2, configs=COMPACT))
    host.holds_effects = True
    small = build_batch([Record(b"k", b"v", WALL_MS)])
    requests = [host.append_request(records, leader_epoch=1) for records in (gzip(), small, gzip(), small)]
    elsewhere = host.append_request(small, leader_epoch=1, partition=1)
    host.send(*requests, elsewhere)
    host.turn()
    assert [type(effect) for effect in host.held] == [ValidateBatchEffect, WriteEffect]
    results = []
    while host.held:
        host.run_effects()
        results += append_results(host.turn())
    assert [result.request_id for result in results if result.request_id != elsewhere.request_id] == [
        request.request_id for request in requests
    ]
    assert [result.base_offset for result in results if result.request_id != elsewhere.request_id] == [0, 1, 2, 3]
    host.holds_effects = False
    assert stored(host) == [1, 0, 1, 0]


def test_few_records_that_are_not_compressed_are_looked_at_at_once(host: Host) -> None:
    host.holds_effects = True
    host.send(host.append_request(build_batch([Record(None, b"v", WALL_MS)])))
    assert [result.error_code for result in append_results(host.turn())] == [ErrorCode.INVALID_RECORD]
    large = build_batch([Record(None, bytes(IN_PLACE_BYTES_MAX), WALL_MS)])
    host.send(host.append_request(large))
    assert append_results(host.turn()) == []
    assert len(openings(host)) == 1


def test_few_batches_are_open_at_once() -> None:
    host = Host()
    host.greet(EXCHANGE)
    host.lead(topic(partitions=5, configs=COMPACT))
    host.holds_effects = True
    host.send(*[host.append_request(gzip(), partition=partition) for partition in range(5)])
    host.turn()
    assert len(openings(host)) == VALIDATIONS_MAX
    results = []
    while host.held:
        assert len(openings(host)) <= VALIDATIONS_MAX
        host.run_effects()
        results += append_results(host.turn())
    assert [result.error_code for result in results] == [ErrorCode.NONE] * 5


def test_an_append_counts_as_handled_only_when_it_is_through(host: Host) -> None:
    """Credit bounds how many wait: a logstore must not gather a million tiny batches behind one large one."""
    host.holds_effects = True
    host.send(*[host.append_request(gzip()) for _ in range(3)])
    out = host.turn()
    assert all(response.credit is None for _, response in out.exchanges)
    granted = 0
    while host.held:
        host.run_effects()
        for _, response in host.turn().exchanges:
            granted += response.credit.requests if response.credit is not None else 0
    assert granted == 3


def test_a_new_epoch_answers_everything_that_waits_and_appends_nothing_of_it(host: Host) -> None:
    host.holds_effects = True
    host.send(host.append_request(gzip()), host.append_request(gzip()))
    host.turn()
    host.core.on_control(7, host.command(LeaderAndIsr(False, [led_by_other(1, configs=COMPACT)])))
    results = append_results(host.turn())
    assert [result.error_code for result in results] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    while host.held:
        host.run_effects()
        assert append_results(host.turn()) == []
    host.holds_effects = False
    host.lead(topic(2, configs=COMPACT))
    assert host.append(gzip(), leader_epoch=2).base_offset == 0


def test_an_append_of_the_new_epoch_waits_for_nothing_of_the_old_one(host: Host) -> None:
    host.holds_effects = True
    host.send(host.append_request(gzip()))
    host.turn()
    host.core.on_control(7, host.command(LeaderAndIsr(False, [led_by_other(1, configs=COMPACT)])))
    host.turn()
    host.core.on_control(7, host.command(LeaderAndIsr(False, [topic(2, configs=COMPACT)])))
    host.send(host.append_request(gzip(), leader_epoch=2))
    host.turn()
    results = []
    while host.held:
        host.run_effects()
        results += append_results(host.turn())
    assert [(result.error_code, result.base_offset) for result in results] == [(ErrorCode.NONE, 0)]


def test_a_processor_that_is_gone_holds_up_no_other(host: Host) -> None:
    host.greet(OTHER)
    host.holds_effects = True
    host.send(host.append_request(gzip()), host.append_request(gzip()), stream_id=OTHER)
    mine = host.append_request(gzip())
    host.send(mine)
    host.turn()
    host.core.on_stream_closed(OTHER)
    results = []
    while host.held:
        host.run_effects()
        results += append_results(host.turn())
    assert [(result.request_id, result.base_offset) for result in results] == [(mine.request_id, 0)]


def test_a_config_that_asks_for_it_no_longer_does_not_change_the_order(host: Host) -> None:
    host.holds_effects = True
    first, second = host.append_request(gzip()), host.append_request(gzip())
    host.send(first)
    host.turn()
    host.core.partitions[0].log.state.config = type(host.core.partitions[0].log.config)()
    host.send(second)
    results = append_results(host.turn())
    while host.held:
        host.run_effects()
        results += append_results(host.turn())
    assert [result.request_id for result in results] == [first.request_id, second.request_id]
    assert exchange(host.out) is not None


def test_stopping_finishes_what_is_being_opened(host: Host) -> None:
    host.holds_effects = True
    host.send(host.append_request(gzip()))
    host.turn()
    host.core.stopping.begin()
    assert not host.core.is_idle
    results = []
    while host.held:
        host.run_effects()
        results += append_results(host.turn())
    assert [result.error_code for result in results] == [ErrorCode.NONE]
    assert host.core.is_idle


@pytest.mark.parametrize("at_once", [True, False])
def test_what_comes_behind_an_append_that_raises_goes_on(at_once: bool) -> None:
    """Seed 21 of runs with exceptions: a second one came as the first was contained, and every later append of the
    partition waited for ever behind nothing, with the credit of its stream.
    """
    host = compacted(Host())
    (partition,) = host.core.partitions
    outbox = host.core._outbox
    stream = ExchangeStream(EXCHANGE)
    taken: list[int] = []

    def take(waiting: WaitingAppend, partition: Partition, records: object) -> None:
        taken.append(waiting.append.request_id)
        if len(taken) == 1:
            raise ValueError("planted")

    queue = BatchValidationQueue(
        outbox,
        host.core._appends._validations._codecs,
        take,
        lambda *arguments: pytest.fail("it is not contained here"),
    )
    records = build_batch([Record(b"k", b"v", WALL_MS)]) if at_once else gzip()

    def add(request_id: int) -> None:
        append = host.append_request(records)
        append.request_id = request_id
        queue.add(WaitingAppend(stream, append, WALL_MS), partition)

    def work() -> None:
        for effect in [each for each in outbox._effects if isinstance(each, ValidateBatchEffect)]:
            outbox._effects.remove(effect)
            outbox.effect_done(effect, memoryview(records))

    if at_once:
        with pytest.raises(ValueError, match="planted"):
            add(1)
    else:
        add(1)
        add(2)
        with pytest.raises(CompletionFault):
            work()
        work()
    add(3)
    work()
    assert taken == ([1, 3] if at_once else [1, 2, 3])
    assert queue.lines == {}
