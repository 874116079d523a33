"""A logstore's replicas: Kafka's ReplicaManager, and how far followers lag."""

from __future__ import annotations

from typing import Final

from barnabas.metrics.family import Family, Kind

_PREFIX: Final = "kafka_server_replicamanager_"

PARTITIONS = Family(f"{_PREFIX}partitioncount", Kind.GAUGE, "Replicas on this logstore.")
LEADERS = Family(f"{_PREFIX}leadercount", Kind.GAUGE, "Partitions led by this logstore.")
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
    "Partitions led here with exactly min.insync.replicas in sync: with one less, acks=all is refused.",
)
ISR_SHRINKS = Family(f"{_PREFIX}isrshrinkspersec", Kind.COUNTER, "ISR changes that removed a replica.")
ISR_EXPANDS = Family(f"{_PREFIX}isrexpandspersec", Kind.COUNTER, "ISR changes that added a replica.")
FAILED_ISR_UPDATES = Family(
    f"{_PREFIX}failedisrupdatespersec", Kind.COUNTER, "ISR changes that the controller refused or did not answer."
)

FOLLOWER_LAG_RECORDS = Family(
    "barnabas_replication_follower_lag_records",
    Kind.GAUGE,
    "The maximum lag of a follower in any partition led here.",
    ("follower",),
)
FOLLOWER_LAGGING_PARTITIONS = Family(
    "barnabas_replication_follower_lagging_partitions",
    Kind.GAUGE,
    "Partitions led here in which a follower lags at all; a few records are normal under load.",
    ("follower",),
)
HIGH_WATERMARK_LAG_RECORDS = Family(
    "barnabas_replication_uncommitted_records",
    Kind.GAUGE,
    "Records of partitions led here that are written and not committed: acks=all waits for these.",
)
