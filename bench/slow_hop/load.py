"""`python -m bench.slow_hop.load BOOTSTRAP TOPIC SECONDS`: a steady producer with acks=all, and a consumer that reads.

A process of its own, so that scraping and evaluating does not slow it down.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Final

from confluent_kafka import Consumer, Producer

RECORDS_PER_SECOND: Final = 300
_VALUE: Final = b"x" * 1000


def _consume(bootstrap: str, topic: str, stopped: threading.Event) -> None:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "slow-hop", "auto.offset.reset": "earliest", "log_level": 2}
    )
    consumer.subscribe([topic])
    while not stopped.is_set():
        consumer.poll(0.1)
    consumer.close()


def main() -> None:
    bootstrap, topic, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    stopped = threading.Event()
    reader = threading.Thread(target=_consume, args=(bootstrap, topic, stopped), daemon=True)
    reader.start()
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 2, "log_level": 2})
    end_s = time.monotonic() + seconds
    due_s = time.monotonic()
    while due_s < end_s:
        producer.produce(topic, _VALUE)
        due_s += 1 / RECORDS_PER_SECOND
        producer.poll(max(0.0, due_s - time.monotonic()))
    left = producer.flush(30)
    stopped.set()
    reader.join(10)
    print(f"{left} records were not acknowledged")


if __name__ == "__main__":
    main()
