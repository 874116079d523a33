"""A client that authenticates: produces and consumes some records, where the cluster is reached, and reports as JSON.

`python -m tests.k8s.authenticated BOOTSTRAP TOPIC JSON`, the last with librdkafka's properties. The report is
{"consumed": …} or {"refused": "…"}.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

RECORDS = 20
TIMEOUT_S = 20.0


def main() -> None:
    bootstrap, topic, properties = sys.argv[1:]
    said: list[str] = []

    def reported(error: KafkaError) -> None:
        said.append(str(error))

    config: dict[str, Any] = {"bootstrap.servers": bootstrap, "error_cb": reported, **json.loads(properties)}
    try:
        print(json.dumps({"consumed": run(config, topic)}))
    except KafkaException as error:
        # That all brokers are down is said after why.
        reasons = [each for each in said if "_ALL_BROKERS_DOWN" not in each]
        print(json.dumps({"refused": (reasons or [str(error)])[0]}))


def run(config: dict[str, Any], topic: str) -> int:
    """Return how many of the records came back. Raises KafkaException."""
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer({**config, "message.timeout.ms": int(TIMEOUT_S * 1000)})
    for number in range(RECORDS):
        producer.produce(topic, str(number), partition=0, on_delivery=delivered)
    producer.flush(2 * TIMEOUT_S)
    if failed:
        raise KafkaException(failed[0])
    consumer = Consumer({**config, "group.id": topic})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found = 0
    while found < RECORDS:
        message = consumer.poll(TIMEOUT_S)
        if message is None:
            break
        error = message.error()
        if error is not None:
            raise KafkaException(error)
        found += 1
    consumer.close()
    return found


if __name__ == "__main__":
    main()
