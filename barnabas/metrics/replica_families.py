"""Of a logstore's replicas: Kafka's ReplicaManager."""

from __future__ import annotations

from barnabas.metrics.family import Family, Kind

_GAUGE = Kind.GAUGE
PARTITIONS = Family("kafka_server_replicamanager_partitioncount", _GAUGE, "Replicas on this logstore.")
LEADERS = Family("kafka_server_replicamanager_leadercount", _GAUGE, "Partitions that it leads.")
OFFLINE_REPLICAS = Family(
    "kafka_server_replicamanager_offlinereplicacount", _GAUGE, "Replicas whose log directory has failed."
)
UNDER_REPLICATED_PARTITIONS = Family(
    "kafka_server_replicamanager_underreplicatedpartitions",
    _GAUGE,
    "Partitions led here with a replica that is not in sync.",
)
UNDER_MIN_ISR_PARTITIONS = Family(
    "kafka_server_replicamanager_underminisrpartitioncount",
    _GAUGE,
    "Partitions led here with fewer replicas in sync than min.insync.replicas: acks=all is refused.",
)
AT_MIN_ISR_PARTITIONS = Family(
    "kafka_server_replicamanager_atminisrpartitioncount",
    _GAUGE,
    "Partitions led here with just as many: with one less, acks=all is refused.",
)
