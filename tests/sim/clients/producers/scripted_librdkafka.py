"""librdkafka's producer for a recording, a program of its own: as ScriptedProducer.java, line for line."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaException, Producer


def delivery_printer(partition: int, value: str) -> Callable[[Any, Any], None]:
    def delivered(error: Any, message: Any) -> None:
        offset = message.offset() if message.offset() is not None else -1
        print(partition, value, offset if error is None else error.name(), flush=True)

    return delivered


def main() -> None:
    producer = Producer(dict(each.split("=", 1) for each in sys.argv[1:]))
    for line in sys.stdin:
        if line == "\n":
            break
        topic, partition, value, padding = line.split()
        producer.produce(
            topic, f"{value} {padding}", partition=int(partition), on_delivery=delivery_printer(int(partition), value)
        )
    print("SENT", flush=True)
    # A fatal error is raised here, and what waits is reported all the same.
    while len(producer):
        with contextlib.suppress(KafkaException):
            producer.poll(0.1)


if __name__ == "__main__":
    main()
