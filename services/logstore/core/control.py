"""Commands of the controller: LeaderAndIsr, StopReplica, UpdateMetadata.

Fenced twice before anything else (KIP-380): a controller epoch below the highest seen is STALE_CONTROLLER_EPOCH, a
broker epoch that is not that of our registration is STALE_BROKER_EPOCH. Errors per partition: INCONSISTENT_TOPIC_ID
(another topic of that name is here still), STALE_CONTROLLER_EPOCH (a state older than the one known),
FENCED_LEADER_EPOCH (StopReplica of an older epoch), INVALID_CONFIG, KAFKA_STORAGE_ERROR. A command that is repeated
is answered like the first time and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.cluster.messages import (
    ControlRequest,
    ControlResponse,
    LeaderAndIsr,
    PartitionError,
    PartitionMetadata,
    StopReplica,
    StopReplicaPartition,
    TopicMetadata,
    UpdateMetadata,
)
from barnabas.wire.errors import ErrorCode
from services.logstore.core.directories import Directories
from services.logstore.core.partition import LeadershipChange, Partition
from services.logstore.core.replicas import Replicas
from services.logstore.core.storage.config import TopicConfig
from services.logstore.core.watches import Watches

FailPending = Callable[[Partition, ErrorCode], None]


class Control:
    def __init__(
        self, replicas: Replicas, directories: Directories, watches: Watches, fail_pending: FailPending
    ) -> None:
        """`fail_pending` answers everything unanswered of a partition at once, with one error."""
        self._replicas = replicas
        self._directories = directories
        self._watches = watches
        self._fail_pending = fail_pending
        self._controller_epoch = -1

    def handle(self, request: ControlRequest, now_ms: int) -> ControlResponse:
        """Carry a command out; the errors of its partitions in the answer, none for those that went well."""
        if request.controller_epoch < self._controller_epoch:
            return ControlResponse(request.sequence, ErrorCode.STALE_CONTROLLER_EPOCH)
        self._controller_epoch = request.controller_epoch
        if request.broker_epoch != self._replicas.broker_epoch:
            return ControlResponse(request.sequence, ErrorCode.STALE_BROKER_EPOCH)
        errors: list[PartitionError] = []
        if request.leader_and_isr is not None:
            errors = self._leader_and_isr(request.leader_and_isr)
        elif request.stop_replica is not None:
            errors = self._stop_replica(request.stop_replica, now_ms)
        elif request.update_metadata is not None:
            self._update_metadata(request.update_metadata)
        else:
            return ControlResponse(request.sequence, ErrorCode.INVALID_REQUEST)
        return ControlResponse(request.sequence, ErrorCode.NONE, errors)

    # --- LeaderAndIsr ---

    def _leader_and_isr(self, command: LeaderAndIsr) -> list[PartitionError]:
        if command.full:
            self._set_strays_aside(command)
        errors: list[PartitionError] = []
        for topic in command.topics:
            config = self._directories.topic_config(topic.configs)
            for state in topic.partitions:
                error = ErrorCode.INVALID_CONFIG if isinstance(config, str) else self._apply(topic, state, config)
                if error:
                    errors.append(PartitionError(topic.topic_id, state.partition, error))
        return errors

    def _set_strays_aside(self, command: LeaderAndIsr) -> None:
        """KIP-516: what a full command doesn't name is not ours any more; it is kept, out of the way of new topics."""
        named = {(topic.topic_id, state.partition) for topic in command.topics for state in topic.partitions}
        for partition in [each for key, each in self._replicas.by_key.items() if key not in named]:
            if partition.online and self._directories.set_aside(partition.log) is None:
                self._take_away(partition)

    def _apply(self, topic: TopicMetadata, state: PartitionMetadata, config: TopicConfig) -> ErrorCode:
        partition = self._replicas.by_name.get((topic.topic, state.partition))
        if partition is None:
            partition = self._create(topic, state.partition, config)
        if partition is None or not partition.online:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if partition.topic_id != topic.topic_id:
            return ErrorCode.INCONSISTENT_TOPIC_ID
        partition.log.config = config
        match partition.apply(state):
            case LeadershipChange.STALE:
                return ErrorCode.STALE_CONTROLLER_EPOCH
            case LeadershipChange.UNCHANGED:
                pass
            case LeadershipChange.SAME_LEADER:
                self._watches.changed(partition)
            case LeadershipChange.NEW_EPOCH:
                self._fail_pending(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                self._watches.changed(partition)
        return ErrorCode.NONE

    def _create(self, topic: TopicMetadata, partition: int, config: TopicConfig) -> Partition | None:
        log = self._directories.create_log((topic.topic, partition), topic.topic_id, config)
        if log is None:
            return None
        created = Partition(self._replicas.node_id, topic.topic, topic.topic_id, partition, log)
        self._replicas.add(created)
        return created

    # --- StopReplica ---

    def _stop_replica(self, command: StopReplica, now_ms: int) -> list[PartitionError]:
        errors = [(asked, self._stop(asked, now_ms)) for asked in command.partitions]
        return [PartitionError(asked.topic_id, asked.partition, error) for asked, error in errors if error]

    def _stop(self, asked: StopReplicaPartition, now_ms: int) -> ErrorCode:
        partition = self._replicas.by_key.get((asked.topic_id, asked.partition))
        if partition is None:
            return ErrorCode.NONE  # Gone already: a command repeated.
        error = partition.check_stop(asked.leader_epoch)
        if error:
            return error
        if not asked.delete:
            partition.stop()
            self._fail_pending(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self._watches.changed(partition)
            return ErrorCode.NONE
        if not partition.online or self._directories.delete(partition.log, now_ms) is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        self._take_away(partition)
        return ErrorCode.NONE

    def _take_away(self, partition: Partition) -> None:
        """Its directory has been moved out of the way: nothing may find it here any more."""
        partition.stop()
        self._fail_pending(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._replicas.remove(partition)
        self._watches.changed(partition)

    # --- UpdateMetadata ---

    def _update_metadata(self, command: UpdateMetadata) -> None:
        """What the cluster knows of others, and changed settings of the topics that are here."""
        if not self._replicas.image.apply(command):
            return
        for topic in command.topics:
            config = self._directories.topic_config(topic.configs)
            if isinstance(config, str):
                continue
            for state in topic.partitions:
                partition = self._replicas.by_key.get((topic.topic_id, state.partition))
                if partition is not None and partition.log.config != config:
                    partition.log.config = config
                    self._watches.changed(partition)
