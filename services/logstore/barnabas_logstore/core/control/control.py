"""Commands of the controller: LeaderAndIsr, StopReplica, UpdateMetadata.

Fenced twice before anything else (KIP-380): a controller epoch below the highest seen is STALE_CONTROLLER_EPOCH, a
broker epoch that is not that of our registration is STALE_BROKER_EPOCH. Errors per partition: INCONSISTENT_TOPIC_ID
(another topic of that name is here still), STALE_CONTROLLER_EPOCH (a state older than the one known),
FENCED_LEADER_EPOCH (StopReplica of an older epoch), INVALID_CONFIG, KAFKA_STORAGE_ERROR. A command that is repeated
is answered like the first time and changes nothing; the controller repeats what there was no disk for. The answer to a
LeaderAndIsr names those of its partitions whose log directory is full, which is no error: others may lead them.

While a directory is offline from the start only partitions that have never been led before are made: any other that is
not found may lie in that directory, and an empty log in its place would be lost records (as in Kafka, whose
LeaderAndIsr said `isNew`).

Commands are carried out one after the other, all that have come before each data step. One of many partitions is spread
over steps, so that it does not stop the records of others: making a log takes 0.2 ms, taking one away 0.1 ms, learning
the state of a partition that is here 0.01 ms. Its answer comes after the last partition, and no command begins before
the one in front of it is answered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from enum import Enum

from barnabas.cluster.messages import (
    ControlRequest,
    ControlResponse,
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
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.maintenance.checkpoints import Checkpoints
from barnabas_logstore.core.maintenance.directories import Directories
from barnabas_logstore.core.replica.broker_settings import BrokerSettings
from barnabas_logstore.core.replica.partition import LeadershipChange, Partition, PartitionKey
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.replication.replication import Replication
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.streams.outbox import Outbox
from barnabas_logstore.core.streams.watches import Watches

LOGS_MADE_PER_STEP = 8
REPLICAS_STOPPED_PER_STEP = 16
STATES_LEARNED_PER_STEP = 256

FailPending = Callable[[Partition, ErrorCode], None]


class Pause(Enum):
    """Why a command is not done yet."""

    LOG_MADE = "a log has been made: enough of them, and the data has its turn"
    REPLICA_STOPPED = "a replica has been stopped; as above"
    STATE_LEARNED = "a partition has learned its state or its settings; as above"
    DISK_BUSY = "a log of the same name is on its way out (see `checkpoints`), or the log is being cut"


# A step goes on until it has spent as much.
_STEP_COST = STATES_LEARNED_PER_STEP
_COSTS = {
    Pause.LOG_MADE: _STEP_COST // LOGS_MADE_PER_STEP,
    Pause.REPLICA_STOPPED: _STEP_COST // REPLICAS_STOPPED_PER_STEP,
    Pause.STATE_LEARNED: 1,
}

# Of a command: its errors, and the partitions of a LeaderAndIsr without room.
Work = Generator[Pause, None, tuple[list[PartitionError], list[PartitionReference]]]


class Control:
    """The control inbox, and what its commands do."""

    def __init__(
        self,
        replicas: Replicas,
        settings: BrokerSettings,
        directories: Directories,
        checkpoints: Checkpoints,
        watches: Watches,
        replication: Replication,
        outbox: Outbox,
        fail_pending: FailPending,
        topics_deleted: Callable[[list[str]], None],
    ) -> None:
        """`fail_pending` answers everything unanswered of a partition at once, with one error. `topics_deleted` hears
        of topics that are gone from the cluster, by name.
        """
        self._replicas = replicas
        self._settings = settings
        self._directories = directories
        self._checkpoints = checkpoints
        self._watches = watches
        self._replication = replication
        self._outbox = outbox
        self._fail_pending = fail_pending
        self._topics_deleted = topics_deleted
        self._controller_epoch = -1
        # The controller does, as of its last full command: it has looked through all that may have a replica here.
        self._knows_all_partitions = False
        self._now_ms = 0
        self._inbox: deque[tuple[int, ControlRequest]] = deque()
        # The command being carried out, if it is not done yet.
        self._work: tuple[int, int, Work] | None = None
        self._is_disk_busy = False
        # Not named by the last full LeaderAndIsr: stopped, and set aside unless the controller has them deleted.
        self._strays: dict[PartitionKey, Partition] = {}

    def put(self, session_id: int, request: ControlRequest) -> None:
        """A command has come."""
        self._inbox.append((session_id, request))

    @property
    def has_work(self) -> bool:
        """Something can be done now; it can't while a disk has to finish first."""
        return bool(self._inbox) if self._work is None else not self._is_disk_busy

    @property
    def is_idle(self) -> bool:
        return self._work is None and not self._inbox

    def on_io_done(self) -> None:
        """A disk has finished something: what waits for one may go on."""
        self._is_disk_busy = False

    def step(self, now_ms: int) -> None:
        """Carry out all commands that have come; or a part, when they are of many partitions."""
        self._now_ms = now_ms
        left = _STEP_COST
        while left > 0 and (self._work is not None or self._inbox):
            if self._work is None:
                self._begin(*self._inbox.popleft())
                continue
            session_id, sequence, work = self._work
            try:
                pause = next(work)
            except StopIteration as end:
                self._work = None
                errors, without_room = end.value
                response = ControlResponse(sequence, ErrorCode.NONE, errors, without_room=without_room)
                self._outbox.answer_control(session_id, response)
                continue
            self._is_disk_busy = pause is Pause.DISK_BUSY
            if self._is_disk_busy:
                return
            left -= _COSTS[pause]

    def _begin(self, session_id: int, request: ControlRequest) -> None:
        """Refuse a command as a whole, or have it as `_work`."""
        error, work = ErrorCode.NONE, None
        if request.controller_epoch < self._controller_epoch:
            error = ErrorCode.STALE_CONTROLLER_EPOCH
        elif request.broker_epoch != self._replicas.broker_epoch:
            error = ErrorCode.STALE_BROKER_EPOCH
        elif request.leader_and_isr is not None:
            command = request.leader_and_isr
            if command.full:
                self._learn_broker_configs(request.controller_epoch, command)
                self._knows_all_partitions = not command.unknown_partitions and not command.unknown_topics
            if self._knows_all_partitions:
                # It is sent once the elections are over that the registration calls for.
                self._checkpoints.controller_has_spoken()
            work = self._leader_and_isr(command)
        elif request.stop_replica is not None:
            work = self._stop_replica(request.stop_replica)
        elif request.update_metadata is not None:
            work = self._update_metadata(request.update_metadata)
        else:
            error = ErrorCode.INVALID_REQUEST
        self._controller_epoch = max(self._controller_epoch, request.controller_epoch)
        if work is None:
            self._outbox.answer_control(session_id, ControlResponse(request.sequence, error, []))
        else:
            self._work = (session_id, request.sequence, work)

    # --- LeaderAndIsr ---

    def _learn_broker_configs(self, controller_epoch: int, command: LeaderAndIsr) -> None:
        """Before any of its partitions is led: what a leader commits depends on `min.insync.replicas`, and the static
        one may be lower than that by which the controller has chosen who may lead besides the ISR.
        """
        if not command.revision:
            return  # A controller of an earlier version, which sends them with UpdateMetadata alone.
        image = self._replicas.image
        image.learn_broker_configs(
            controller_epoch, command.revision, command.broker_configs, command.unknown_broker_configs
        )
        if self._settings.follow_image():
            # Those that are named have newer overrides in the command.
            named = {topic.topic_id for topic in command.topics}
            others = [topic for topic in image.topics_by_id.values() if topic.topic_id not in named]
            for _ in self._configure_topics(others):
                pass  # In this step: the state of a partition that is led comes next.

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
                else:
                    error = yield from self._apply(topic, state, config)
                if error:
                    errors.append(PartitionError(topic.topic_id, state.partition, error))
                elif self._lacks_room((topic.topic_id, state.partition)):
                    without_room.append(PartitionReference(topic.topic_id, state.partition))
                yield Pause.STATE_LEARNED
        return errors, without_room

    def _lacks_room(self, key: PartitionKey) -> bool:
        return self._directories.directory_of(self._replicas.by_key[key].log).no_room is not None

    def _stop_strays(self, command: LeaderAndIsr) -> None:
        """KIP-516: what a full command does not name is not ours any more, unless it says that this is unknown."""
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
        """Out of the way of new topics, and kept for the operator."""
        del self._strays[stray.key]
        if stray.online and self._directories.set_aside(stray.log) is None:
            self._forget(stray)
            self._checkpoints.logs_taken_away([stray.log])

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
                    # Who knows when there is some; and every other command waits behind this one.
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
        match partition.apply(state, self._replication.config.lag_ms_max, self._now_ms):
            case LeadershipChange.STALE:
                return ErrorCode.STALE_CONTROLLER_EPOCH
            case LeadershipChange.UNCHANGED:
                pass
            case LeadershipChange.SAME_LEADER:
                self._watches.changed(partition)
                self._replication.role_changed(partition)
            case LeadershipChange.LEADS_ON:
                # Fetches of followers belong to the epoch that has ended; appends and reads of clients go on.
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
        """The checkpoints forget all logs together, at the end: no command that could make a log of the same name
        begins before.
        """
        errors: list[PartitionError] = []
        taken_away: list[PartitionLog] = []
        for asked in command.partitions:
            error = self._stop(asked, taken_away)
            if error:
                errors.append(PartitionError(asked.topic_id, asked.partition, error))
            yield Pause.REPLICA_STOPPED
        self._checkpoints.logs_taken_away(taken_away)
        return errors, []

    def _stop(self, asked: StopReplicaPartition, taken_away: list[PartitionLog]) -> ErrorCode:
        """Add the log to `taken_away` where it is deleted."""
        partition = self._replicas.by_key.get((asked.topic_id, asked.partition))
        if partition is None:
            if asked.delete:
                self._replicas.without_disk.discard((asked.topic_id, asked.partition))
            return ErrorCode.NONE  # Gone already: a command repeated.
        error = partition.check_stop(asked.leader_epoch)
        if error:
            return error
        self._stop_serving(partition)
        if asked.delete:
            if not partition.online or self._directories.delete(partition.log, self._now_ms) is not None:
                return ErrorCode.KAFKA_STORAGE_ERROR
            self._strays.pop(partition.key, None)
            self._forget(partition)
            taken_away.append(partition.log)
        return ErrorCode.NONE

    def _forget(self, partition: Partition) -> None:
        """The log is out of the way; the caller has the checkpoints forget it too."""
        self._replicas.remove(partition)
        self._watches.changed(partition)

    def _stop_serving(self, partition: Partition) -> None:
        partition.stop()
        self._fail_pending(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._watches.changed(partition)
        self._replication.partition_gone(partition)

    # --- UpdateMetadata ---

    def _update_metadata(self, command: UpdateMetadata) -> Work:
        """What the cluster knows of others, all at once; and changed settings of the topics that are here."""
        if command.full:
            # The last of what a controller says at first: by now it has had deleted what it wants to be deleted.
            for stray in list(self._strays.values()):
                self._set_aside(stray)
        image = self._replicas.image
        may_go = self._may_go(command)
        broker_configs = image.broker_configs
        if not image.apply(command):
            return [], []
        are_others = command.full or command.deleted_topic_ids or any(not topic.partial for topic in command.topics)
        if are_others or image.broker_configs != broker_configs:
            self._checkpoints.topics_changed()
        self._topics_deleted([topic.topic for topic in may_go if topic.topic_id not in image.topics_by_id])
        self._replication.on_image()
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
                    self._configure(partition, config)
                    yield Pause.STATE_LEARNED

    def _may_go(self, command: UpdateMetadata) -> list[TopicMetadata]:
        """Topics that are known now, and perhaps no more by the command."""
        image = self._replicas.image
        if command.full:
            return list(image.topics_by_id.values())
        deleted = [image.topics_by_id.get(topic_id) for topic_id in command.deleted_topic_ids]
        replaced = [image.topics_by_name.get(topic.topic) for topic in command.topics]
        return [topic for topic in (*deleted, *replaced) if topic is not None]

    def _configure(self, partition: Partition, config: TopicConfig) -> None:
        """The log acts by it from now on; whether the ISR is large enough may be another matter by it."""
        if partition.log.config != config:
            partition.log.apply_config(config)
            self._watches.changed(partition)
