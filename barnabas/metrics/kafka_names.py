"""Kafka's name of each metric that Kafka has too: the MBean, or one of its attributes (`type=…:attribute`), by family.

A family's name is what Prometheus' JMX exporter makes of it: a test compares the two.
"""

from __future__ import annotations

import re
from typing import Final

_REQUESTS: Final = (
    "RequestsPerSec",
    "ErrorsPerSec",
    "RequestBytes",
    "TotalTimeMs",
    "RequestQueueTimeMs",
    "LocalTimeMs",
    "RemoteTimeMs",
    "ThrottleTimeMs",
    "ResponseQueueTimeMs",
    "ResponseSendTimeMs",
    "MessageConversionsTimeMs",
    "TemporaryMemoryBytes",
)
_REPLICAS: Final = (
    "PartitionCount",
    "LeaderCount",
    "OfflineReplicaCount",
    "UnderReplicatedPartitions",
    "UnderMinIsrPartitionCount",
    "AtMinIsrPartitionCount",
    "IsrShrinksPerSec",
    "IsrExpandsPerSec",
    "FailedIsrUpdatesPerSec",
    "PartitionsWithLateTransactionsCount",
)
_TOPICS: Final = (
    "BytesInPerSec",
    "MessagesInPerSec",
    "BytesOutPerSec",
    "TotalProduceRequestsPerSec",
    "FailedProduceRequestsPerSec",
    "TotalFetchRequestsPerSec",
    "FailedFetchRequestsPerSec",
    "ReplicationBytesInPerSec",
    "ReplicationBytesOutPerSec",
)
_CONTROLLER: Final = (
    "ActiveControllerCount",
    "OfflinePartitionsCount",
    "PreferredReplicaImbalanceCount",
    "GlobalTopicCount",
    "GlobalPartitionCount",
    "ActiveBrokerCount",
    "FencedBrokerCount",
    "TopicsToDeleteCount",
)
_MBEANS: Final = (
    *(f"kafka.network:type=RequestMetrics,name={name}" for name in _REQUESTS),
    "kafka.network:type=RequestChannel,name=RequestQueueSize",
    "kafka.network:type=RequestChannel,name=ResponseQueueSize",
    "kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent",
    "kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent",
    *(f"kafka.server:type=ReplicaManager,name={name}" for name in _REPLICAS),
    *(f"kafka.server:type=BrokerTopicMetrics,name={name}" for name in _TOPICS),
    "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs",
    "kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
    "kafka.log:type=LogCleanerManager,name=max-dirty-percent",
    "kafka.log:type=LogCleanerManager,name=time-since-last-run-ms",
    "kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count",
    "kafka.coordinator.group:type=GroupMetadataManager,name=NumGroups",
    "kafka.coordinator.group:type=GroupMetadataManager,name=NumOffsets",
    "kafka.server:type=group-coordinator-metrics:offset-commit-count",
    "kafka.server:type=group-coordinator-metrics:offset-expiration-count",
    "kafka.server:type=group-coordinator-metrics:group-completed-rebalance-count",
    "kafka.server:type=AddPartitionsToTxnManager,name=VerificationTimeMs",
    "kafka.server:type=AddPartitionsToTxnManager,name=VerificationFailureRate",
    "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name=LogAppendRetryQueueSize",
    "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize",
    "kafka.server:type=DelayedOperationPurgatory,name=NumDelayedOperations",
    "kafka.server:type=socket-server-metrics:connection-count",
    "kafka.server:type=socket-server-metrics:connection-creation",
    "kafka.server:type=socket-server-metrics:connection-close",
    *(f"kafka.controller:type=KafkaController,name={name}" for name in _CONTROLLER),
    "kafka.controller:type=ControllerStats,name=LeaderElectionRateAndTimeMs",
    "kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec",
)


def exported_name(mbean: str) -> str:
    """Return the name that the JMX exporter's usual rules produce."""
    return re.sub(r"[^a-z0-9]+", "_", re.sub(r":type=|,name=", "_", mbean).lower())


KAFKA_NAMES: Final = {exported_name(mbean): mbean for mbean in _MBEANS}
