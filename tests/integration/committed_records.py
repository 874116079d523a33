"""What a consumer of committed records reads, by librdkafka."""

from __future__ import annotations

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

SECONDS_MAX = 90.0


def committed_values(bootstrap: str, topic: str, partitions: int) -> list[list[bytes]]:
    """Return the values up to the last stable offset, by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)])
        values: list[list[bytes]] = [[] for _ in range(partitions)]
        at_end: set[int] = set()
        while len(at_end) < partitions:
            message = consumer.poll(SECONDS_MAX)
            assert message is not None, f"only partitions {at_end} came to their end"
            partition = message.partition()
            assert partition is not None
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                at_end.add(partition)
            else:
                values[partition].append(message.value() or b"")
        return values
    finally:
        consumer.close()
