"""The partitions that this logstore hosts, and the cluster's metadata of all others."""

from __future__ import annotations

from barnabas.channel.messages import PartitionState
from barnabas.cluster.image import ClusterImage
from barnabas.cluster.messages import NO_EPOCH, NO_LEADER
from barnabas.ports.disk import DiskError, DiskErrorKind
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.replica.containment import LogstoreContainment
from barnabas_logstore.core.replica.known_deletions import KnownDeletions
from barnabas_logstore.core.replica.partition import Partition, PartitionKey
from barnabas_logstore.core.replica.topic_meters import TopicMeter, TopicMeters
from barnabas_logstore.core.storage.checkpoints import TopicPartition
from barnabas_logstore.core.storage.log.partition_log import PartitionLog


class Replicas:
    """The partitions by topic id, and by name where Kafka's files need one. `broker_epoch` is -1 until registered."""

    __slots__ = (
        "broker_epoch",
        "by_key",
        "by_log",
        "by_name",
        "cluster_id",
        "contained",
        "deletions",
        "image",
        "meters",
        "node_id",
        "without_disk",
    )

    def __init__(self, node_id: int, cluster_id: str, metered_topics_max: int = 100) -> None:
        """`metered_topics_max`: see `TopicMeters`."""
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.broker_epoch = -1
        self.image = ClusterImage()
        self.deletions = KnownDeletions(self.image)
        self.meters = TopicMeters(metered_topics_max)
        self.by_key: dict[PartitionKey, Partition] = {}
        self.by_name: dict[TopicPartition, Partition] = {}
        self.by_log: dict[PartitionLog, Partition] = {}
        # Assigned to this logstore by the controller, but without a disk for them; see `Control`.
        self.without_disk: set[PartitionKey] = set()
        self.contained = LogstoreContainment()

    def add(self, partition: Partition) -> None:
        assert partition.key not in self.by_key
        assert (partition.topic, partition.partition) not in self.by_name
        # First: what is removed gives its meter back, so no replica may be here without one.
        partition.meter = self.meters.of(partition.topic)
        self.without_disk.discard(partition.key)
        self.by_key[partition.key] = partition
        self.by_name[partition.topic, partition.partition] = partition
        self.by_log[partition.log] = partition

    def remove(self, partition: Partition) -> None:
        """Forget a replica. Repeating this does what is left of it: something unexpected may have ended it."""
        name = (partition.topic, partition.partition)
        if self.by_key.get(partition.key) is partition:
            del self.by_key[partition.key]
        if self.by_name.get(name) is partition:
            del self.by_name[name]
        self.contained.in_doubt.pop(partition.log, None)
        if self.by_log.pop(partition.log, None) is not None:
            self.meters.release(partition.topic)

    def disk_failed(self, log: PartitionLog, error: DiskError) -> None:
        """The directory of a log can't be trusted any more, unless that is said of the log alone."""
        if log not in self.contained.in_doubt or error is not log.error:
            self.directory_failed(log.state.log_directory, error)

    def state_of(self, partition: Partition) -> PartitionState:
        """Return what watches and StateQuery are answered. An index that can't be opened for it fails its directory."""
        try:
            return partition.state()
        except DiskError as error:
            self.disk_failed(partition.log, error)
            return PartitionState(partition.topic_id, partition.partition, leader_epoch=partition.leader_epoch)

    def directory_failed(self, path: str, error: DiskError) -> None:
        """A log directory can't be trusted any more, or has no free space (`DiskError.is_lack_of_room`)."""
        self.contained.failures.append((path, error))

    def log_effect_failed(self, log: PartitionLog, error: DiskError) -> None:
        """An effect on the files of `log` has failed, and not only for a lack of space that can be waited for."""
        is_hosted = log in self.by_log
        if not is_hosted:
            log.fail(error)
        # Files of a log that was removed meanwhile are not at the effect's paths any more.
        if is_hosted or error.kind is not DiskErrorKind.NOT_FOUND:
            self.disk_failed(log, error)

    def meter_of(self, topic_id: bytes, partition: int) -> TopicMeter:
        hosted = self.by_key.get((topic_id, partition))
        return self.meters.absent if hosted is None else hosted.meter

    def error_of_absent(self, topic_id: bytes, partition: int) -> ErrorCode:
        """Return why a partition that isn't hosted here can't be served: no disk for it, known elsewhere, or
        unknown.
        """
        if (topic_id, partition) in self.without_disk:
            return ErrorCode.KAFKA_STORAGE_ERROR
        known = self.image.partition(topic_id, partition) is not None
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def newest_leader(self, topic_id: bytes, partition: int) -> tuple[int, int]:
        """Return the newest known (leader id, leader epoch), -1 if unknown, for refusals to the gateway (KIP-951)."""
        leader_id, leader_epoch = NO_LEADER, NO_EPOCH
        hosted = self.by_key.get((topic_id, partition))
        if hosted is not None:
            leader_id, leader_epoch = hosted.leader_id, hosted.leader_epoch
        known = self.image.partition(topic_id, partition)
        if known is not None and (known.leader_epoch, known.leader) > (leader_epoch, leader_id):
            leader_id, leader_epoch = known.leader, known.leader_epoch
        return leader_id, leader_epoch
