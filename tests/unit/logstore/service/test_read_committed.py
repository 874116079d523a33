"""Reads of committed records: up to where, with which aborted transactions, and who learns that there is more."""

from __future__ import annotations

import pytest

from barnabas.channel.messages import (
    ABORTED_TRANSACTION,
    ExchangeRequest,
    OffsetQuery,
    Read,
    ReadPartitionResult,
    ReadRequest,
)
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from tests.unit.logstore.service.support import EXCHANGE, READ, TOPIC_ID, WATCH, Host, batch, fetch, offsets, topic
from tests.unit.logstore.storage.test_transactions import end, write

LATEST = -1


@pytest.fixture
def host() -> Host:
    host = Host()
    host.greet(EXCHANGE, READ)
    host.lead(topic())
    return host


def log_of(host: Host) -> PartitionLog:
    return host.core._replicas.by_key[(TOPIC_ID, 0)].log


def read(host: Host, offset: int, isolation_level: int = 1) -> ReadPartitionResult:
    host.core.on_read(READ, ReadRequest(reads=[Read(99, 1 << 20, isolation_level, [fetch(offset=offset)])]))
    host.settle()
    (result,) = host.read_results.pop(99).partitions
    return result


def latest(host: Host, isolation_level: int) -> int:
    query = OffsetQuery(98, TOPIC_ID, 0, -1, isolation_level, LATEST)
    host.core.on_exchange(EXCHANGE, ExchangeRequest(offset_queries=[query]))
    ((_, response),) = host.turn().exchanges
    return response.offset_answers[0].offset


def test_what_an_open_transaction_has_written_and_all_after_it_is_for_later(host: Host) -> None:
    host.append()
    write(log_of(host), 0)
    host.append()
    committed = read(host, 0)
    assert (offsets(committed.records), committed.high_watermark, committed.last_stable_offset) == ([0], 3, 1)
    assert offsets(read(host, 0, isolation_level=0).records) == [0, 1, 2]
    assert (latest(host, 1), latest(host, 0)) == (1, 3)
    assert len(read(host, 1).records) == 0


def test_aborted_transactions_go_along(host: Host) -> None:
    write(log_of(host), 0)
    write(log_of(host), 0, producer_id=2)
    end(log_of(host), commit=False)
    end(log_of(host), commit=True, producer_id=2)
    host.append()
    result = read(host, 0)
    assert offsets(result.records) == [0, 1, 2, 3, 4]
    assert list(ABORTED_TRANSACTION.iter_unpack(result.aborted_transactions)) == [(1, 0)]
    assert read(host, 0, isolation_level=0).aborted_transactions == b""
    assert read(host, 3).aborted_transactions == b""


def test_purgatory_learns_up_to_where_committed_records_can_be_read(host: Host) -> None:
    host.greet(WATCH)
    host.append()
    write(log_of(host), 0)
    host.append()
    (state,) = host.watch()
    assert (state.high_watermark, state.last_stable_offset) == (3, 1)
    assert state.last_stable_position == len(batch())
    end(log_of(host), commit=True)
    host.append()
    assert host.query_state().state is not None
    state = host.query_state().state
    assert (state.last_stable_offset, state.last_stable_position) == (5, 0)


def test_what_is_deleted_is_no_longer_waited_for(host: Host) -> None:
    write(log_of(host), 0)
    host.append()
    host.append()
    partition = host.core._replicas.by_key[(TOPIC_ID, 0)]
    assert partition.last_stable_offset == 0
    assert log_of(host).delete_records(2, partition.high_watermark) == 2
    assert partition.last_stable_offset == 2
