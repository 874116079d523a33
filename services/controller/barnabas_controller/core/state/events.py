"""Events of the cluster for operators, derived only from changes of the image.

Every controller keeps the events that its watch has delivered, active or not, so that a watcher can continue at the
next controller. The last EVENTS_MAX are kept once for all watchers; each watcher is only a position in them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Final, TypeAlias

from barnabas.cluster.keys import (
    PARTITIONS_PER_CHUNK,
    BrokerConfigsRecord,
    ControllerRegistration,
    GatewayRegistration,
    LogstoreRegistration,
    MemberRecord,
    PartitionChunk,
    PartitionRecord,
    PurgatoryRegistration,
    Registration,
    Role,
    TopicRecord,
    member_id_of,
)
from barnabas.cluster.operation_records import BalanceRecord, ControllerHistoryRecord, DrainRecord
from barnabas_controller.core.state.changes import Changes, Elected, Registered, Transition
from barnabas_controller.core.state.image import ControllerImage

EVENTS_MAX: Final = 20_000
VALUE_LENGTH_MAX: Final = 500
"""Maximum characters of a config's value: a client may set one of a megabyte repeatedly."""


class NodeChange(Enum):
    UP = "up"
    DOWN = "down"
    REMOVED = "removed"


class TopicChange(Enum):
    CREATED = "created"
    DELETED = "deleted"
    GROWN = "grown"


@dataclass(slots=True, frozen=True)
class NodeEvent:
    change: NodeChange
    role: Role
    member_id: str
    # The epoch of the registration that came or went; -1: there was none.
    epoch: int


@dataclass(slots=True, frozen=True)
class LeaderEvent:
    topic: str
    partition: int
    leader_before: int
    leader: int
    leader_epoch: int


@dataclass(slots=True, frozen=True)
class IsrEvent:
    topic: str
    partition: int
    shrunk: bool
    before: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]


@dataclass(slots=True, frozen=True)
class ReassignmentEvent:
    topic: str
    partition: int
    done: bool
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


@dataclass(slots=True, frozen=True)
class TopicEvent:
    change: TopicChange
    topic: str
    topic_id: bytes
    partitions: int


@dataclass(slots=True, frozen=True)
class ConfigEvent:
    # Empty for a broker; ALL_BROKERS for the defaults of all.
    topic: str
    broker_id: int
    set_configs: dict[str, str]
    deleted_configs: list[str]


@dataclass(slots=True, frozen=True)
class ControllerEvent:
    # Empty: there is none at present.
    controller_id: str
    controller_epoch: int


@dataclass(slots=True, frozen=True)
class DrainEvent:
    node_id: int
    move_replicas: bool
    ended: bool


@dataclass(slots=True, frozen=True)
class BalanceEvent:
    paused: bool


EventBody: TypeAlias = (
    NodeEvent
    | LeaderEvent
    | IsrEvent
    | ReassignmentEvent
    | TopicEvent
    | ConfigEvent
    | ControllerEvent
    | DrainEvent
    | BalanceEvent
)


@dataclass(slots=True, frozen=True)
class Event:
    revision: int
    # This controller's wall clock time when it received the change.
    time_ms: int
    body: EventBody


class EventLog:
    def __init__(self, image: ControllerImage, events_max: int = EVENTS_MAX) -> None:
        self._image = image
        self._events: deque[Event] = deque(maxlen=events_max)
        # The number of the next event; a watcher's position is one of these numbers.
        self.end = 0
        # Every event after this revision is here, or was here and has a number.
        self.revision_before = -1
        # Watches from before this revision end: events in between were missed.
        self.reloads = 0

    @property
    def first(self) -> int:
        """The number of the oldest event that is kept."""
        return self.end - len(self._events)

    def restart(self) -> None:
        """The image was reloaded."""
        self._events.clear()
        self.revision_before = self._image.revision
        self.reloads += 1

    def record(self, changes: Changes, wall_ms: int) -> None:
        """Record the events of a batch."""
        for transition in changes.transitions:
            for body in _bodies(self._image, transition):
                if len(self._events) == self._events.maxlen:
                    self.revision_before = self._events[0].revision
                self._events.append(Event(transition.revision, wall_ms, body))
                self.end += 1

    def position_after(self, revision: int) -> int | None:
        """Return the number of the first event after a revision; None if it is not kept any more."""
        if revision < self.revision_before:
            return None
        position = self.end
        for event in reversed(self._events):
            if event.revision <= revision:
                break
            position -= 1
        return position

    def noted_before(self, position: int) -> int:
        """Return the revision up to which a watcher knows everything that has received all events before `number`,
        which is kept or comes next: the previous revision if more events of the same one follow.
        """
        if position == self.end:
            return self._image.revision
        return self._events[position - self.first].revision - 1

    def read(self, position: int, count_max: int) -> list[Event]:
        """Return events from that number on, which must still be kept."""
        assert self.first <= position <= self.end
        start = position - self.first
        return list(islice(self._events, start, start + count_max))


def _bodies(image: ControllerImage, transition: Transition) -> Iterator[EventBody]:
    before, after = transition.before, transition.after
    match after if after is not None else before:
        case Registered() as registered:
            yield from _registration_events(registered.record, before, after)
        case MemberRecord() as member if after is None and member.role is Role.LOGSTORE:
            yield NodeEvent(NodeChange.REMOVED, member.role, member.member_id, -1)
        case TopicRecord() as topic:
            yield from _topic_events(topic, before, after)
        case PartitionChunk() as chunk if before is not None and after is not None:
            assert isinstance(before, PartitionChunk)
            yield from _partition_events(image, before, chunk)
        case BrokerConfigsRecord() as record:
            old = before.configs if isinstance(before, BrokerConfigsRecord) else {}
            new = record.configs if after is not None else {}
            yield _config_event("", record.broker_id, old, new)
        case Elected() if after is None:
            yield ControllerEvent("", image.controller_epoch)
        case ControllerHistoryRecord() as history if after is not None and history.terms:
            yield ControllerEvent(history.terms[-1].controller_id, history.terms[-1].controller_epoch)
        case DrainRecord() as drain:
            yield DrainEvent(drain.node_id, drain.move_replicas, ended=after is None)
        case BalanceRecord():
            yield BalanceEvent(paused=after is not None)
        case _:
            pass


def _registration_events(record: Registration, before: object, after: object) -> Iterator[EventBody]:
    """A registration that is put again, for example with another full disk, is the same node."""
    came = after if isinstance(after, Registered) else None
    went = before if isinstance(before, Registered) else None
    if came is not None and went is not None and came.epoch == went.epoch:
        return
    role, member_id = _role_of(record), member_id_of(record)
    if went is not None:
        yield NodeEvent(NodeChange.DOWN, role, member_id, went.epoch)
    if came is not None:
        yield NodeEvent(NodeChange.UP, role, member_id, came.epoch)


def _role_of(record: Registration) -> Role:
    match record:
        case LogstoreRegistration():
            return Role.LOGSTORE
        case GatewayRegistration():
            return Role.GATEWAY
        case PurgatoryRegistration():
            return Role.PURGATORY
        case ControllerRegistration():
            return Role.CONTROLLER


def _topic_events(topic: TopicRecord, before: object, after: object) -> Iterator[EventBody]:
    if after is None:
        yield TopicEvent(TopicChange.DELETED, topic.topic, topic.topic_id, topic.partitions)
    elif not isinstance(before, TopicRecord):
        yield TopicEvent(TopicChange.CREATED, topic.topic, topic.topic_id, topic.partitions)
    else:
        if before.partitions != topic.partitions:
            yield TopicEvent(TopicChange.GROWN, topic.topic, topic.topic_id, topic.partitions)
        if before.configs != topic.configs:
            yield _config_event(topic.topic, 0, before.configs, topic.configs)


def _config_event(topic: str, broker_id: int, before: Mapping[str, str], after: Mapping[str, str]) -> ConfigEvent:
    return ConfigEvent(
        topic,
        broker_id,
        {name: _shortened(value) for name, value in after.items() if before.get(name) != value},
        sorted(set(before).difference(after)),
    )


def _shortened(value: str) -> str:
    return value if len(value) <= VALUE_LENGTH_MAX else value[: VALUE_LENGTH_MAX - 1] + "…"


def _partition_events(image: ControllerImage, before: PartitionChunk, after: PartitionChunk) -> Iterator[EventBody]:
    topic = image.topics_by_id.get(after.topic_id)
    if topic is None:
        return
    pairs = zip(before.partitions, after.partitions, strict=False)
    for number, (old, new) in enumerate(pairs, after.chunk * PARTITIONS_PER_CHUNK):
        if old != new:
            yield from _changes_of(topic.topic, number, old, new)


def _changes_of(topic: str, number: int, old: PartitionRecord, new: PartitionRecord) -> Iterator[EventBody]:
    if (old.leader, old.leader_broker_epoch) != (new.leader, new.leader_broker_epoch):
        yield LeaderEvent(topic, number, old.leader, new.leader, new.leader_epoch)
    if not set(old.in_sync_replicas) <= set(new.in_sync_replicas):
        yield IsrEvent(topic, number, True, old.in_sync_replicas, new.in_sync_replicas)
    if not set(new.in_sync_replicas) <= set(old.in_sync_replicas):
        yield IsrEvent(topic, number, False, old.in_sync_replicas, new.in_sync_replicas)
    moved, moves = _move(old), _move(new)
    if moves != moved:
        is_over = not any(moves)
        yield ReassignmentEvent(topic, number, is_over, new.replicas, *(moved if is_over else moves))


def _move(partition: PartitionRecord) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return partition.adding_replicas, partition.removing_replicas
