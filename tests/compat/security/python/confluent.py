"""confluent-kafka, which is librdkafka, in each cell."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.compat.security.cells import GSSAPI, Cell
from tests.compat.security.python.cells import PATIENCE_S, RECORDS, REFUSED_WITHIN_S, run_cells, values_of


def settings(cell: Cell) -> dict[str, Any]:
    config: dict[str, Any] = {
        "bootstrap.servers": cell.bootstrap,
        "security.protocol": cell.protocol,
        "allow.auto.create.topics": True,
        "log_level": 0,
    }
    if cell.ca:
        config["ssl.ca.location"] = cell.ca
    if cell.certificate:
        config["ssl.certificate.location"] = config["ssl.key.location"] = cell.certificate
    if cell.token_path:
        token = Path(cell.token_path).read_text()
        config |= {"sasl.mechanism": cell.mechanism, "oauth_cb": lambda _: (token, time.time() + 3600)}
    elif cell.mechanism:
        config |= {"sasl.mechanism": cell.mechanism, "sasl.username": cell.user, "sasl.password": cell.password}
    return config


def use(cell: Cell) -> list[bytes]:
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            errors.append(error)

    producer = Producer(settings(cell))
    for value in values_of(cell):
        producer.produce(cell.topic, value, partition=0, on_delivery=delivered)
    assert producer.flush(PATIENCE_S) == 0, "records undelivered"
    assert not errors, errors[0]
    consumer = Consumer({**settings(cell), "group.id": cell.topic, "enable.auto.commit": False})
    consumer.assign([TopicPartition(cell.topic, 0, OFFSET_BEGINNING)])
    found: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < RECORDS and time.monotonic() < deadline:
        for message in consumer.consume(RECORDS, timeout=1):
            assert message.error() is None, message.error()
            found.append(message.value() or b"")
    consumer.close()
    return found


def connect(cell: Cell) -> None:
    """librdkafka goes on trying; the first error that it reports of its broker is the refusal."""
    refusals: list[KafkaError] = []
    admin = AdminClient({**settings(cell), "error_cb": refusals.append})
    deadline = time.monotonic() + 2 * REFUSED_WITHIN_S
    while time.monotonic() < deadline:
        admin.poll(0)
        try:
            admin.list_topics(timeout=0.2)
        except KafkaException:
            admin.poll(0)
            if refusals:
                raise KafkaException(refusals[0]) from None
        else:
            return


if __name__ == "__main__":
    library = confluent_kafka.libversion()[0]
    run_cells(f"{confluent_kafka.__version__} (librdkafka {library})", use, connect, lacking=[GSSAPI])
