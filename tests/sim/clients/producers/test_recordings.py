"""The simulated producers do what the real ones were recorded to do.

Compared for every script, round by round and broker by broker: the Produce requests with their batches (partition,
epoch, first sequence, values), and for each partition the delivery reports in order, with offsets or errors. Requests
to one broker are compared in order for Java, whose one thread sends them; librdkafka's are of one partition each, and
which partition is served first depends on its threads: the requests of each partition are compared in order. After a
fatal error another thread of it reports what waits: those reports are compared without order.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.sim.clients.producers.calls import IdempotentProducer, ProducerConfig
from tests.sim.clients.producers.java_sender import JavaProducer
from tests.sim.clients.producers.librdkafka_errors import PURGE_QUEUE
from tests.sim.clients.producers.librdkafka_producer import LibrdkafkaProducer
from tests.sim.clients.producers.play import config_of, play
from tests.sim.clients.producers.recordings import read_recordings
from tests.sim.clients.producers.scripted_broker import RecordedRound, Script
from tests.sim.clients.producers.scripts import SCRIPTS

Kind = Callable[[ProducerConfig, Callable[[], float]], IdempotentProducer]


def without_jitter() -> float:
    return 0.5


def by_partition(recorded: RecordedRound) -> dict[str, dict[str, list[list[str]]]]:
    """By broker and partition: the requests, each of which has one batch."""
    reported: dict[str, dict[str, list[list[str]]]] = {}
    for node_id, requests in recorded.items():
        for request in requests:
            assert len(request) == 1
            reported.setdefault(node_id, {}).setdefault(request[0].partition(":")[0], []).append(request)
    return reported


def without_order_of_purged(reports: dict[str, list[str]]) -> dict[str, tuple[list[str], list[str]]]:
    """By partition: what was decided in order, and what was not sent any more after a fatal error."""
    return {
        partition: (
            [line for line in lines if PURGE_QUEUE not in line],
            sorted(line for line in lines if PURGE_QUEUE in line),
        )
        for partition, lines in reports.items()
    }


def named(script: Script) -> str:
    return script.name


@pytest.mark.parametrize("script", SCRIPTS, ids=named)
def test_a_producer_like_javas(script: Script) -> None:
    recording = read_recordings("java")[script.name]
    played = play(script, "java", JavaProducer(config_of(script), without_jitter))
    assert played.rounds == recording.rounds
    assert played.reports == recording.reports


@pytest.mark.parametrize("script", SCRIPTS, ids=named)
def test_a_producer_like_librdkafkas(script: Script) -> None:
    recording = read_recordings("librdkafka")[script.name]
    played = play(script, "librdkafka", LibrdkafkaProducer(config_of(script), without_jitter))
    assert [by_partition(each) for each in played.rounds] == [by_partition(each) for each in recording.rounds]
    assert without_order_of_purged(played.reports) == without_order_of_purged(recording.reports)


@pytest.mark.parametrize(("client", "kind"), [("java", LibrdkafkaProducer), ("librdkafka", JavaProducer)])
def test_one_client_is_not_the_other(client: str, kind: Kind) -> None:
    """The recordings can tell them apart."""
    recordings = read_recordings(client)
    alike = [
        script.name
        for script in SCRIPTS
        if play(script, client, kind(config_of(script), without_jitter)).rounds == recordings[script.name].rounds
    ]
    assert set(alike) <= {"one record each"}
