"""All log directories of this logstore: placement of new partitions, checkpoints, failures."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import DiskError
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.storage.checkpoints import TopicPartition
from barnabas_logstore.core.storage.directories.log_directory import ClosingFlush, LogDirectory
from barnabas_logstore.core.storage.directories.topic_register import TOPIC_REGISTER, TopicRegister
from barnabas_logstore.core.storage.effects import DeleteDirectoryEffect, FileReplacement, ReplaceEffect
from barnabas_logstore.core.storage.log.partition_log import PartitionLog


class Directories:
    def __init__(self, directories: Sequence[LogDirectory], replicas: Replicas) -> None:
        self._directories = list(directories)
        self._replicas = replicas
        self.by_path = {directory.path: directory for directory in self._directories}
        self._failed: set[str] = set()
        self._topic_register = TopicRegister(replicas.image)
        self.hides_partitions = any(directory.error is not None for directory in self._directories)
        """Whether a directory was offline from the start: its content is unknown, so a partition that is not found may
        well exist.
        """
        self.preferred: dict[TopicPartition, LogDirectory] = {}
        """Target directories of partitions that are not here yet, by AlterReplicaLogDirs; forgotten at a restart, as in
        Kafka.
        """

    @property
    def online(self) -> list[LogDirectory]:
        return [directory for directory in self._directories if directory.error is None]

    @property
    def offline_count(self) -> int:
        return sum(directory.error is not None for directory in self._directories)

    @property
    def full_count(self) -> int:
        return sum(directory.no_room is not None for directory in self.online)

    def directory_of(self, log: PartitionLog) -> LogDirectory:
        return self.by_path[log.state.log_directory]

    def create_log(self, topic_partition: TopicPartition, topic_id: bytes, config: TopicConfig) -> PartitionLog | None:
        """Create a log in the directory with the fewest, as in Kafka, if it has space; None if no directory can take
        it. An empty log that an unexpected exception has left without its partition is taken.
        """
        online = self.online
        if not online:
            return None
        for each in online:
            if topic_partition in each.logs:
                error = each.record_topic_id(topic_partition, topic_id)
                if error is None:
                    return each.logs[topic_partition]
                self._replicas.directory_failed(each.path, error)
                return None
        directory = self.preferred.pop(topic_partition, None)
        if directory is None or directory.error is not None:
            directory = min(online, key=lambda each: (each.no_room is not None, len(each.logs)))
        log = directory.create(topic_partition, topic_id, config)
        if isinstance(log, DiskError):
            self._replicas.directory_failed(directory.path, log)
            return None
        return log

    def holds(self, log: PartitionLog) -> bool:
        """Whether its files are still those of its partition: what follows their removal may have failed."""
        return self.directory_of(log).logs.get(log.topic_partition) is log

    def delete(self, log: PartitionLog, now_ms: int) -> DiskError | None:
        """Remove a log at once, and its files later."""
        if not self.holds(log):
            return None
        error = self.directory_of(log).delete(log.topic_partition, now_ms)
        if error is not None:
            self._replicas.disk_failed(log, error)
        return error

    def set_aside(self, log: PartitionLog) -> DiskError | None:
        """Remove a log and keep its files for the operator: a stray."""
        if not self.holds(log):
            return None
        error = self.directory_of(log).set_aside(log.topic_partition)
        if error is not None:
            self._replicas.disk_failed(log, error)
        return error

    def high_watermarks(self, directory: LogDirectory) -> dict[TopicPartition, int]:
        by_name = self._replicas.by_name
        return {key: by_name[key].high_watermark for key in directory.logs if key in by_name}

    def topic_register(self, directory: LogDirectory) -> ReplaceEffect:
        """Return what to write when the topics of the cluster, or their configs, have changed."""
        return ReplaceEffect(FileReplacement(f"{directory.path}/{TOPIC_REGISTER}", self._topic_register.content()))

    def deletions(self, now_ms: int) -> list[DeleteDirectoryEffect]:
        """Return removals whose delay is over."""
        return [effect for directory in self.online for effect in directory.take_deletions(now_ms)]

    def go_offline(self, path: str, error: DiskError) -> list[PartitionLog] | None:
        """An I/O error ends the use of a directory. Return its logs, or None if that was already known."""
        if path in self._failed:
            self.by_path[path].note_failed_flush(error)
            return None
        self._failed.add(path)
        return [log for log, _ in self.by_path[path].go_offline(error)]

    def closing_flushes(self) -> list[ClosingFlush]:
        return [closing for directory in self.online for closing in directory.closing_flushes()]

    def shut_down(self, broker_epoch: int) -> list[str]:
        """Write the last checkpoints and the clean-shutdown markers, by direct calls; return the directories left
        without one.
        """
        return [each.path for each in self._directories if not self._shut_down(each, broker_epoch)]

    def _shut_down(self, directory: LogDirectory, broker_epoch: int) -> bool:
        if directory.error is not None:
            return False
        try:
            # A register that the controller has never filled must not overwrite an earlier one.
            register = [self.topic_register(directory)] if self._replicas.image.revision >= 0 else []
            return directory.shut_down(self.high_watermarks(directory), broker_epoch, *register)
        except DiskError:
            return False
