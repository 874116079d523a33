"""A logstore's replicas: Kafka's ReplicaManager, and how far followers lag."""

from __future__ import annotations

from typing import Final

from barnabas.metrics.family import Family, Kind

_PREFIX: Final = "kafka_server_replicamanager_"

PARTITIONS = Family(f"{_PREFIX}partitioncount", Kind.GAUGE, "Replicas on this logstore.")
LEADERS = Family(f"{_PREFIX}leadercount", Kind.GAUGE, "Partitions that it leads.")
OFFLINE_REPLICAS = Family(f"{_PREFIX}offlinereplicacount", Kind.GAUGE, "Replicas whose log directory has failed.")
UNDER_REPLICATED_PARTITIONS = Family(
    f"{_PREFIX}underreplicatedpartitions", Kind.GAUGE, "Partitions led here with a replica that is not in sync."
)
UNDER_MIN_ISR_PARTITIONS = Family(
    f"{_PREFIX}underminisrpartitioncount",
    Kind.GAUGE,
    "Partitions led here with fewer replicas in sync than min.insync.replicas: acks=all is refused.",
)
AT_MIN_ISR_PARTITIONS = Family(
    f"{_PREFIX}atminisrpartitioncount",
    Kind.GAUGE,
    "Partitions led here with just as many: one less, and it is refused.",
)
ISR_SHRINKS = Family(f"{_PREFIX}isrshrinkspersec", Kind.COUNTER, "Changes by which a replica has left an ISR.")
ISR_EXPANDS = Family(f"{_PREFIX}isrexpandspersec", Kind.COUNTER, "Changes by which one has joined.")
FAILED_ISR_UPDATES = Family(
    f"{_PREFIX}failedisrupdatespersec", Kind.COUNTER, "Changes that the controller has refused, or did not answer."
)

FOLLOWER_LAG_RECORDS = Family(
    "barnabas_replication_follower_lag_records",
    Kind.GAUGE,
    "How far a follower is behind in the partition led here in which it is the furthest.",
    ("follower",),
)
FOLLOWER_LAGGING_PARTITIONS = Family(
    "barnabas_replication_follower_lagging_partitions",
    Kind.GAUGE,
    "Partitions led here in which a follower is behind at all; under load a few records are nothing.",
    ("follower",),
)
HIGH_WATERMARK_LAG_RECORDS = Family(
    "barnabas_replication_uncommitted_records",
    Kind.GAUGE,
    "Records of partitions led here that are written and not committed: acks=all waits for these.",
)
