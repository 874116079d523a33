"""How long timed requests are here: in the queue, at work; and of followers' fetches, what they waited for."""

from __future__ import annotations

import pytest

from barnabas.channel.messages import ExchangeRequest, OffsetQuery, Read, ReadRequest
from barnabas.channel.timing import Timed, Times
from barnabas_logstore.core.logstore import LogstoreCore
from tests.unit.logstore.service.support import (
    EXCHANGE,
    READ,
    TOPIC_ID,
    Host,
    batch,
    exchange,
    fetch,
)

QUEUED_US, DISK_US = 700, 4_000


@pytest.fixture
def host() -> Host:
    host = Host()
    host.greet(EXCHANGE, READ)
    host.lead()
    host.clock_us = 1_000_000
    return host


def samples_of(core: LogstoreCore) -> dict[tuple[str, ...], object]:
    return {(sample.family.name, *sample.labels): sample.value for sample in core.measures.samples()}


def test_a_slow_disk_is_work_and_a_late_turn_is_the_queue(host: Host) -> None:
    host.holds_effects = True
    appends = [host.append_request(batch()) for _ in range(3)]
    timed = [Timed(appends[1].request_id)]
    host.core.on_exchange(EXCHANGE, ExchangeRequest(appends=appends, timed=timed))
    host.clock_us += QUEUED_US
    host.turn()
    host.clock_us += DISK_US
    host.run_effects()
    response = exchange(host.collect())
    assert response.times == [Times(appends[1].request_id, QUEUED_US, DISK_US)]
    assert len(response.append_results) == 3


def test_a_read_tells_its_times_with_its_first_piece(host: Host) -> None:
    host.append(batch(3))
    host.holds_effects = True
    read = Read(901, 1 << 20, 0, [fetch(0)])
    host.core.on_read(READ, ReadRequest(reads=[read], timed=[Timed(901)]))
    host.clock_us += QUEUED_US
    host.turn()
    host.clock_us += DISK_US
    host.run_effects()
    ((_, response),) = host.collect().reads
    assert response.times == [Times(901, QUEUED_US, DISK_US)]
    assert response.pieces[0].request_id == 901


def test_queries_are_timed_too_and_what_is_not_asked_about_is_not_reported(host: Host) -> None:
    queries = [OffsetQuery(request_id, TOPIC_ID, 0, -1, 0, -1) for request_id in (901, 902)]
    host.core.on_exchange(EXCHANGE, ExchangeRequest(offset_queries=queries, timed=[Timed(902), Timed(12345)]))
    host.clock_us += QUEUED_US
    response = exchange(host.turn())
    assert len(response.offset_answers) == 2
    assert response.times == [Times(902, QUEUED_US, 0)]
    named = {key[1] for key in samples_of(host.core) if key[0] == "barnabas_logstore_request_ms"}
    assert named == {"ListOffsets"}


def test_what_is_refused_at_the_door_was_in_the_queue_for_no_time_at_all(host: Host) -> None:
    host.core.stopping.begin()
    append = host.append_request(batch())
    host.core.on_exchange(EXCHANGE, ExchangeRequest(appends=[append], timed=[Timed(append.request_id)]))
    host.clock_us += QUEUED_US
    assert exchange(host.turn()).times == []


def test_a_traced_request_is_handed_to_the_host_for_its_spans(host: Host) -> None:
    append = host.append_request(batch())
    timed = Timed(append.request_id, b"t" * 16, b"s" * 8)
    host.core.on_exchange(EXCHANGE, ExchangeRequest(appends=[append], timed=[timed]))
    host.clock_us += QUEUED_US
    (work,) = host.turn().traced
    assert (work.timed, work.name, work.begun_us - work.arrived_us) == (timed, "Produce", QUEUED_US)
    assert not host.turn().traced
