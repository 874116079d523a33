"""`__consumer_offsets` and `__transaction_state`: their partitions, replicas and configs unless the request specifies
them.

A gateway asks for one with -1 partitions and replicas when the first group, or the first transactional id, appears.
Kafka's brokers refuse to create it while there are fewer of them than its replication factor; Barnabas gives it as many
replicas as there are logstores then, so that one logstore is a complete cluster.

Source: Kafka's DefaultAutoTopicCreationManager, GroupCoordinator.groupMetadataTopicConfigs and
TransactionStateManager.transactionTopicConfigs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from barnabas.cluster.messages import NewTopic


@dataclass(slots=True, frozen=True)
class OffsetsTopic:
    """`offsets.topic.*`"""

    partitions: int = 50
    replication_factor: int = 3
    segment_bytes: int = 100 * 1024 * 1024

    def filled_in(self, asked: NewTopic, logstores: int) -> NewTopic:
        """Return the request with defaults filled in; `logstores`: how many are registered, or were."""
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(self.segment_bytes),
        }
        return _filled_in(asked, configs, self.partitions, min(self.replication_factor, max(logstores, 1)))


@dataclass(slots=True, frozen=True)
class TransactionStateTopic:
    """`transaction.state.log.*`"""

    partitions: int = 50
    replication_factor: int = 3
    segment_bytes: int = 100 * 1024 * 1024
    min_insync_replicas: int = 2

    def filled_in(self, asked: NewTopic, logstores: int) -> NewTopic:
        """Return the request with defaults filled in; `logstores`: how many are registered, or were."""
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(self.min_insync_replicas),
            "segment.bytes": str(self.segment_bytes),
            "unclean.leader.election.enable": "false",
        }
        return _filled_in(asked, configs, self.partitions, min(self.replication_factor, max(logstores, 1)))


def _filled_in(asked: NewTopic, configs: Mapping[str, str], partitions: int, replicas: int) -> NewTopic:
    filled_in = replace(asked, configs={**configs, **asked.configs})
    if asked.assignments:
        return filled_in
    return replace(
        filled_in,
        partitions=partitions if asked.partitions == -1 else asked.partitions,
        replication_factor=replicas if asked.replication_factor == -1 else asked.replication_factor,
    )
