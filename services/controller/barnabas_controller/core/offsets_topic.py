"""`__consumer_offsets`: what it is unless whoever creates it says otherwise.

A gateway asks for it with -1 partitions and replicas when the first group comes. Kafka's brokers refuse to make it
while there are fewer of them than `offsets.topic.replication.factor`; here it gets as many replicas as there are
logstores then, so that one logstore is a whole cluster.

Source: Kafka's DefaultAutoTopicCreationManager and GroupCoordinator.groupMetadataTopicConfigs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from barnabas.cluster.messages import NewTopic

OFFSETS_TOPIC: Final = "__consumer_offsets"


@dataclass(slots=True, frozen=True)
class OffsetsTopic:
    """`offsets.topic.*`"""

    partitions: int = 50
    replication_factor: int = 3
    segment_bytes: int = 100 * 1024 * 1024

    def filled_in(self, asked: NewTopic, logstores: int) -> NewTopic:
        """What was asked for, with the rest of what it takes; `logstores`: how many are registered, or were."""
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(self.segment_bytes),
            **asked.configs,
        }
        if asked.assignments:
            return replace(asked, configs=configs)
        replicas = min(self.replication_factor, max(logstores, 1))
        return replace(
            asked,
            partitions=self.partitions if asked.partitions == -1 else asked.partitions,
            replication_factor=replicas if asked.replication_factor == -1 else asked.replication_factor,
            configs=configs,
        )
