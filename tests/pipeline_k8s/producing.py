"""Records for the trial: `python -m tests.pipeline_k8s.producing BOOTSTRAP TOPIC FIRST COUNT [RATE]`.

Record n has value n, goes to partition n mod 4, and so to offset n div 4: what a table has can be held against it. The
topic is made if FIRST is 0. RATE is in records per second, as fast as it goes without.
"""

from __future__ import annotations

import sys
import time

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

PARTITIONS = 4
SLICE = 100


def produce(bootstrap: str, topic: str, first: int, count: int, rate: float) -> None:
    """Every record acknowledged, or AssertionError."""
    if first == 0:
        admin = AdminClient({"bootstrap.servers": bootstrap})  # kept: its futures die with it
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(60)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20})
    begun_s = time.monotonic()
    for number in range(first, first + count):
        while True:
            try:
                producer.produce(topic, b"%d" % number, b"key-%d" % (number % 1000), number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
        if rate and number % SLICE == 0:
            time.sleep(max(0.0, begun_s + (number - first) / rate - time.monotonic()))
            producer.poll(0)
    assert producer.flush(300) == 0


if __name__ == "__main__":
    given = sys.argv[1:]
    produce(given[0], given[1], int(given[2]), int(given[3]), float(given[4]) if len(given) > 4 else 0.0)
