"""What commands of the controller do: LeaderAndIsr, StopReplica, UpdateMetadata.

Errors per partition: INCONSISTENT_TOPIC_ID (another topic of that name is here still), STALE_CONTROLLER_EPOCH (a state
older than the one known), FENCED_LEADER_EPOCH (StopReplica of an older epoch), INVALID_CONFIG, KAFKA_STORAGE_ERROR,
INVALID_TOPIC_EXCEPTION (a name that could be a path out of the log directory). A command that is repeated is answered
like the first time and changes nothing; the controller repeats what there was no disk for. The answer to a LeaderAndIsr
names those of its partitions whose log directory is full, which is no error: others may lead them.

While a directory has been offline since the start, only partitions that have never been led before are created: any
other that is not found may be in that directory, and an empty log instead of it would be lost records (as in Kafka,
whose LeaderAndIsr has `isNew`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from enum import Enum

from barnabas.cluster.messages import (
    ControlRequest,
    LeaderAndIsr,
    PartitionError,
    PartitionMetadata,
    PartitionReference,
    StopReplica,
    StopReplicaPartition,
    TopicMetadata,
    UpdateMetadata,
)
from barnabas.cluster.topic_config import TopicConfig
from barnabas.containment import CONTAINING
from barnabas.wire.errors import ErrorCode
from barnabas.wire.topic_names import is_legal_topic_name
from barnabas_logstore.core.maintenance.checkpoints import Checkpoints
from barnabas_logstore.core.maintenance.directories import Directories
from barnabas_logstore.core.replica.broker_settings import BrokerSettings
from barnabas_logstore.core.replica.containment import CONTROL
from barnabas_logstore.core.replica.partition import LeadershipChange, Partition, PartitionKey
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.replication.replication import Replication
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.streams.watches import Watches

FailPending = Callable[[Partition, ErrorCode], None]


class Pause(Enum):
    """Why a command is not done yet."""

    LOG_MADE = "a log has been created: after some of them, data is processed"
    REPLICA_STOPPED = "a replica has been stopped; as above"
    STATE_LEARNED = "a partition has learned its state or its settings; as above"
    DISK_BUSY = "a log of the same name is being deleted (see `checkpoints`), or the log is being truncated"


# A command's errors, and the partitions of a LeaderAndIsr whose disk is full.
Work = Generator[Pause, None, tuple[list[PartitionError], list[PartitionReference]]]


class ControlCommands:
    """`now_ms` is that of the last step."""

    def __init__(
        self,
        replicas: Replicas,
        settings: BrokerSettings,
        directories: Directories,
        checkpoints: Checkpoints,
        watches: Watches,
        replication: Replication,
        fail_pending: FailPending,
        topics_deleted: Callable[[list[str]], None],
    ) -> None:
        """`fail_pending` answers every pending request of a partition with one error. `topics_deleted` gets the names
        of topics that are deleted from the cluster.
        """
        self._replicas = replicas
        self._settings = settings
        self._directories = directories
        self._checkpoints = checkpoints
        self._watches = watches
        self._replication = replication
        self._fail_pending = fail_pending
        self._topics_deleted = topics_deleted
        # Whether the controller knows it, as of its last full command: it has looked through all partitions that may
        # have a replica here.
        self._knows_all_partitions = False
        self.now_ms = 0
        # Replicas that the last full LeaderAndIsr did not name: stopped, and set aside unless the controller deletes
        # them.
        self._strays: dict[PartitionKey, Partition] = {}

    def begin(self, request: ControlRequest) -> Work | None:
        """Return the work of a command that is not fenced, to be stepped to its end; None: it says nothing."""
        if request.leader_and_isr is not None:
            command = request.leader_and_isr
            if command.full:
                self._learn_broker_configs(request.controller_epoch, command)
                self._knows_all_partitions = not command.unknown_partitions and not command.unknown_topics
            if self._knows_all_partitions:
                # It is sent once the elections that the registration requires are over.
                self._checkpoints.controller_has_spoken()
            return self._leader_and_isr(command)
        if request.stop_replica is not None:
            return self._stop_replica(request.stop_replica)
        if request.update_metadata is not None:
            return self._update_metadata(request.update_metadata)
        return None

    # --- LeaderAndIsr ---

    def _learn_broker_configs(self, controller_epoch: int, command: LeaderAndIsr) -> None:
        """Apply broker configs before any of the partitions is led: what a leader commits depends on
        `min.insync.replicas`, and the static value may be lower than the one by which the controller has chosen which
        replicas may lead besides the ISR.
        """
        if not command.revision:
            return  # a controller of an earlier version, which sends them only with UpdateMetadata
        image = self._replicas.image
        image.learn_broker_configs(
            controller_epoch, command.revision, command.broker_configs, command.unknown_broker_configs
        )
        if self._settings.follow_image():
            # The command has newer overrides for the topics it names.
            named = {topic.topic_id for topic in command.topics}
            others = [topic for topic in image.topics_by_id.values() if topic.topic_id not in named]
            for _ in self._configure_topics(others):
                pass  # in this step: the state of a led partition comes next

    def _leader_and_isr(self, command: LeaderAndIsr) -> Work:
        if command.full:
            self._replicas.without_disk.clear()
            self._stop_strays(command)
        errors: list[PartitionError] = []
        without_room: list[PartitionReference] = []
        for topic in command.topics:
            config = self._settings.topic_config(topic.configs)
            for state in topic.partitions:
                if isinstance(config, str):
                    error = ErrorCode.INVALID_CONFIG
                elif not is_legal_topic_name(topic.topic):
                    error = ErrorCode.INVALID_TOPIC_EXCEPTION
                else:
                    try:
                        error = yield from self._apply(topic, state, config)
                    except Exception as fault:
                        error = self._contain((topic.topic_id, state.partition), fault)
                if error:
                    errors.append(PartitionError(topic.topic_id, state.partition, error))
                elif self._lacks_room((topic.topic_id, state.partition)):
                    without_room.append(PartitionReference(topic.topic_id, state.partition))
                yield Pause.STATE_LEARNED
        return errors, without_room

    def _contain(self, key: PartitionKey, error: Exception) -> ErrorCode:
        """What a command says of one partition was ended by an unexpected exception: others may lead it."""
        partition = self._replicas.by_key.get(key)
        if partition is None:
            self._replicas.without_disk.add(key)
            named: dict[str, str | int] = {"topic_id": key[0].hex(), "partition": key[1]}
            self._replicas.contained.contain(CONTROL, error, named)
        else:
            with CONTAINING:
                self._replicas.contained.log_in_doubt(CONTROL, error, partition.log)
        return ErrorCode.KAFKA_STORAGE_ERROR

    def _lacks_room(self, key: PartitionKey) -> bool:
        return self._directories.directory_of(self._replicas.by_key[key].log).no_room is not None

    def _stop_strays(self, command: LeaderAndIsr) -> None:
        """KIP-516: a replica that a full command does not name is a stray, unless the command lists it as unknown."""
        named = {(topic.topic_id, state.partition) for topic in command.topics for state in topic.partitions}
        unknown_topics = set(command.unknown_topics)
        unknown_ranges: dict[bytes, list[range]] = {}
        for unknown in command.unknown_partitions:
            numbers = range(unknown.first, unknown.first + unknown.count)
            unknown_ranges.setdefault(unknown.topic_id, []).append(numbers)
        self._strays = {
            key: each
            for key, each in self._replicas.by_key.items()
            if key not in named
            and each.topic not in unknown_topics
            and not any(each.partition in numbers for numbers in unknown_ranges.get(each.topic_id, ()))
        }
        for partition in self._strays.values():
            self._stop_serving(partition)

    def _set_aside(self, stray: Partition) -> None:
        """Move the log away, so that new topics can use the name, and keep it for the operator."""
        if stray.online and self._directories.set_aside(stray.log) is None:
            self._forget(stray)
            self._checkpoints.logs_taken_away([stray.log])
        # Last: a repeated command has to come here again if something unexpected has ended this.
        del self._strays[stray.key]

    def _apply(
        self, topic: TopicMetadata, state: PartitionMetadata, config: TopicConfig
    ) -> Generator[Pause, None, ErrorCode]:
        key = (topic.topic_id, state.partition)
        self._strays.pop(key, None)
        partition = self._replicas.by_name.get((topic.topic, state.partition))
        if partition is not None and partition.key in self._strays:
            self._set_aside(partition)
            partition = self._replicas.by_name.get((topic.topic, state.partition))
        if partition is None:
            while self._checkpoints.is_leaving((topic.topic, state.partition)):
                if self._checkpoints.lacks_room((topic.topic, state.partition)):
                    # It is unknown when there will be; and every other command waits behind this one.
                    return ErrorCode.KAFKA_STORAGE_ERROR
                yield Pause.DISK_BUSY
            if state.leader_epoch == 0 or not self._directories.hides_partitions:
                partition = self._create(topic, state.partition, config)
                yield Pause.LOG_MADE
            if partition is None:
                self._replicas.without_disk.add(key)
        while partition is not None and partition.log.truncation.in_flight is not None:
            yield Pause.DISK_BUSY
        if partition is None or not partition.online:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if partition.topic_id != topic.topic_id:
            return ErrorCode.INCONSISTENT_TOPIC_ID
        self._configure(partition, config)
        match partition.apply(state, self._replication.config.lag_ms_max, self.now_ms):
            case LeadershipChange.STALE:
                return ErrorCode.STALE_CONTROLLER_EPOCH
            case LeadershipChange.UNCHANGED:
                pass
            case LeadershipChange.SAME_LEADER:
                self._watches.changed(partition)
                self._replication.role_changed(partition)
            case LeadershipChange.LEADS_ON:
                # Fetches of followers belong to the epoch that has ended; appends and reads of clients continue.
                self._replication.leading.fail_pending(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                self._watches.changed(partition)
                self._replication.role_changed(partition)
            case LeadershipChange.NEW_LEADER:
                self._fail_pending(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                self._watches.changed(partition)
                self._replication.role_changed(partition)
        return ErrorCode.NONE

    def _create(self, topic: TopicMetadata, partition: int, config: TopicConfig) -> Partition | None:
        log = self._directories.create_log((topic.topic, partition), topic.topic_id, config)
        if log is None:
            return None
        created = Partition(self._replicas.node_id, topic.topic, topic.topic_id, partition, log)
        self._replicas.add(created)
        return created

    # --- StopReplica ---

    def _stop_replica(self, command: StopReplica) -> Work:
        """Stop the replicas. The checkpoints forget all logs together, at the end: no command that could create a log
        of the same name begins before.
        """
        errors: list[PartitionError] = []
        taken_away: list[PartitionLog] = []
        for asked in command.partitions:
            key = (asked.topic_id, asked.partition)
            try:
                error = self._stop(asked, taken_away)
            except Exception as fault:
                error = self._contain(key, fault)
                if asked.delete and key not in self._replicas.by_key:
                    # There is nothing left to be stopped, and no stream repeats what an error says was not done.
                    self._replicas.without_disk.discard(key)
                    error = ErrorCode.NONE
            if error:
                errors.append(PartitionError(asked.topic_id, asked.partition, error))
            yield Pause.REPLICA_STOPPED
        self._checkpoints.logs_taken_away(taken_away)
        return errors, []

    def _stop(self, asked: StopReplicaPartition, taken_away: list[PartitionLog]) -> ErrorCode:
        """Stop one replica; add the log to `taken_away` if it is deleted."""
        partition = self._replicas.by_key.get((asked.topic_id, asked.partition))
        if partition is None:
            if asked.delete:
                self._replicas.without_disk.discard((asked.topic_id, asked.partition))
            return ErrorCode.NONE  # already gone: a repeated command
        error = partition.check_stop(asked.leader_epoch)
        if error:
            return error
        self._stop_serving(partition)
        if asked.delete:
            is_disk_there = partition.online or partition.log in self._replicas.contained.in_doubt
            if not is_disk_there or self._directories.delete(partition.log, self.now_ms) is not None:
                return ErrorCode.KAFKA_STORAGE_ERROR
            # First: an entry that stays would be taken for that of the next log of this name.
            taken_away.append(partition.log)
            self._strays.pop(partition.key, None)
            self._forget(partition)
        return ErrorCode.NONE

    def _forget(self, partition: Partition) -> None:
        """The log is moved away; the caller removes it from the checkpoints too."""
        self._replicas.remove(partition)
        self._watches.changed(partition)

    def _stop_serving(self, partition: Partition) -> None:
        partition.stop()
        self._fail_pending(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._watches.changed(partition)
        self._replication.partition_gone(partition)

    # --- UpdateMetadata ---

    def _update_metadata(self, command: UpdateMetadata) -> Work:
        """Apply what the cluster knows of others, all at once, and changed settings of the topics that are here."""
        if command.full:
            # The last part of a controller's full state: by now it has deleted what is to be deleted.
            for stray in list(self._strays.values()):
                self._set_aside(stray)
        image = self._replicas.image
        may_go = self._may_go(command)
        broker_configs = image.broker_configs
        if not image.apply(command):
            return [], []
        if command.full:
            self._replicas.deletions.on_full_update(command)
        are_others = command.full or command.deleted_topic_ids or any(not topic.partial for topic in command.topics)
        if are_others or image.broker_configs != broker_configs:
            self._checkpoints.topics_changed()
        self._topics_deleted([topic.topic for topic in may_go if topic.topic_id not in image.topics_by_id])
        self._replication.on_image(self._settings.values())
        follows_image = self._settings.follow_image()
        yield from self._configure_topics(list(image.topics_by_id.values()) if follows_image else command.topics)
        return [], []

    def _configure_topics(self, topics: Sequence[TopicMetadata]) -> Generator[Pause, None, None]:
        for topic in topics:
            config = self._settings.topic_config(topic.configs)
            if isinstance(config, str):
                continue
            for state in topic.partitions:
                partition = self._replicas.by_key.get((topic.topic_id, state.partition))
                if partition is not None:
                    try:
                        self._configure(partition, config)
                    except Exception as error:
                        self._contain(partition.key, error)
                    yield Pause.STATE_LEARNED

    def _may_go(self, command: UpdateMetadata) -> list[TopicMetadata]:
        """Return topics that are known now, and that the command may remove."""
        image = self._replicas.image
        if command.full:
            return list(image.topics_by_id.values())
        deleted = [image.topics_by_id.get(topic_id) for topic_id in command.deleted_topic_ids]
        replaced = [image.topics_by_name.get(topic.topic) for topic in command.topics]
        return [topic for topic in (*deleted, *replaced) if topic is not None]

    def _configure(self, partition: Partition, config: TopicConfig) -> None:
        """Apply the config to the log; with it, the ISR may or may not be large enough."""
        if partition.log.config != config:
            partition.log.apply_config(config)
            self._watches.changed(partition)
