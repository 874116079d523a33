"""Real clients create topics, produce in every way and read everything back, equal and in order."""

from __future__ import annotations

import itertools
import time
import uuid

import pytest

from tests.integration.kafka_clients import CLIENTS, MODES, Client

pytestmark = [
    pytest.mark.integration,
    # What the clients themselves do of old is not ours to mend.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

PROCESSORS = None
LOGSTORES = 2
RECORDS = 500


def new_topic(label: str) -> str:
    return f"{label}-{uuid.uuid4().hex[:8]}"


def values_of(label: str) -> list[bytes]:
    """Distinct values of many sizes, without line ends, which kcat could not tell from the next record."""
    return [f"{label}-{number}-".encode() + b"x" * (number % 97) for number in range(RECORDS)]


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, bootstrap: str) -> Client:
    return CLIENTS[request.param](bootstrap)


@pytest.fixture(scope="module")
def timed_topic(bootstrap: str) -> tuple[str, list[int]]:
    """A topic, and the timestamp of each of its records: batches of 50, each other one compressed, not all in order."""
    topic = new_topic("timed")
    CLIENTS["confluent-kafka"](bootstrap).create_topic(topic, 1)
    begun_ms = int(time.time() * 1000) - 3_600_000
    timestamps = [begun_ms + 10 * (number ^ 3) for number in range(RECORDS)]
    for first in range(0, RECORDS, 50):
        produce_at(bootstrap, topic, timestamps[first : first + 50], "none" if first % 100 else "zstd")
    return topic, timestamps


def produce_at(bootstrap: str, topic: str, timestamps: list[int], compression: str) -> None:
    """Write a record with each of these timestamps."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": compression, "linger.ms": 100})
    for timestamp_ms in timestamps:
        producer.produce(topic, b"timed", partition=0, timestamp=timestamp_ms)
    assert producer.flush(30) == 0


def test_offsets_are_found_by_time(client: Client, timed_topic: tuple[str, list[int]]) -> None:
    topic, timestamps = timed_topic
    wanted = [0, timestamps[0], *(at + 1 for at in timestamps[7::97]), max(timestamps)]
    for timestamp_ms in wanted:
        first = next(offset for offset, at in enumerate(timestamps) if at >= timestamp_ms)
        assert client.offset_for_time(topic, 0, timestamp_ms) == first
    assert client.offset_for_time(topic, 0, max(timestamps) + 1) is None


@pytest.mark.parametrize("mode", MODES)
def test_reads_back_what_it_produced(client: Client, mode: str) -> None:
    topic = new_topic(mode)
    client.create_topic(topic, 1)
    values = values_of(topic)
    client.produce(topic, 0, values, MODES[mode])
    assert client.consume(topic, 0, RECORDS) == values


def test_partitions_are_apart(client: Client, bootstrap: str) -> None:
    topic = new_topic("partitions")
    CLIENTS["confluent-kafka"](bootstrap).create_topic(topic, 4)
    for partition in range(4):
        client.produce(topic, partition, values_of(str(partition)), MODES["acks-all"])
    for partition in range(4):
        assert client.consume(topic, partition, RECORDS) == values_of(str(partition))


def test_every_client_reads_what_every_other_wrote(bootstrap: str) -> None:
    clients = {name: make(bootstrap) for name, make in CLIENTS.items()}
    topics = {name: new_topic(name) for name in clients}
    for name, writer in clients.items():
        writer.create_topic(topics[name], 1)
        for number, mode in enumerate(MODES.values(), 1):
            writer.produce(topics[name], 0, values_of(mode.compression), mode)
            # With acks=0 they are only sent: on another connection the next producer could overtake them.
            if mode.acks == 0:
                assert len(clients["confluent-kafka"].consume(topics[name], 0, number * RECORDS)) == number * RECORDS
    everything = list(itertools.chain.from_iterable(values_of(mode.compression) for mode in MODES.values()))
    for topic, reader in itertools.product(topics.values(), clients.values()):
        assert reader.consume(topic, 0, len(everything)) == everything
