"""Events as a stream. A watcher is a position in the one log of events: it costs no memory, however slow it is, and
ends when what it was to be told next is not kept any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final, assert_never

import grpc
from google.protobuf.message import Message

from barnabas_controller.core.events import (
    BalanceEvent,
    ConfigEvent,
    ControllerEvent,
    DrainEvent,
    Event,
    EventBody,
    IsrEvent,
    LeaderEvent,
    NodeChange,
    NodeEvent,
    ReassignmentEvent,
    TopicChange,
    TopicEvent,
)
from barnabas_controller.shell.driver import Driver, NotActive
from barnabas_controller.shell.operations.calls import Refusal
from barnabas_protos.controller.v1 import operations_pb2 as pb

WATCHERS_MAX: Final = 100
# Of one response: some 100 KB.
_EVENTS_PER_RESPONSE: Final = 1_000
_NOTHING_NEW_S: Final = 10.0

_NODE_FIELDS: Final = {
    NodeChange.UP: "node_up",
    NodeChange.DOWN: "node_down",
    NodeChange.REMOVED: "node_removed",
}
_TOPIC_FIELDS: Final = {
    TopicChange.CREATED: "topic_created",
    TopicChange.DELETED: "topic_deleted",
    TopicChange.GROWN: "partitions_added",
}


class Watching:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._watchers = 0

    async def watch_events(self, request: pb.WatchEventsRequest) -> AsyncIterator[pb.WatchEventsResponse]:
        """Raises Refusal, and NotActive when another controller is to be asked."""
        if self._watchers >= WATCHERS_MAX:
            raise _exhausted(f"{WATCHERS_MAX} watchers are here already: end one of them")
        self._watchers += 1
        try:
            async for response in self._watch(request.from_revision):
                yield response
        finally:
            self._watchers -= 1

    async def _watch(self, from_revision: int) -> AsyncIterator[pb.WatchEventsResponse]:
        core = self._driver.core
        events, told_revision = core.events, from_revision or core.image.revision
        position = events.position_after(told_revision)
        if position is None:
            raise _gone(f"events before revision {events.revision_before} are not kept: describe, then watch from now")
        reloads, is_silent = events.reloads, False
        yield pb.WatchEventsResponse(revision=told_revision)
        while True:
            # What follows has no await in it: between the check and the wait nothing can happen.
            if not core.active:
                raise NotActive(untouched=True)
            if events.reloads != reloads:
                raise _gone(f"what happened after revision {told_revision} was missed: describe, then watch from now")
            if position < events.first:
                raise _exhausted(f"too slow: events after revision {told_revision} are gone; describe, then watch on")
            found = events.read(position, _EVENTS_PER_RESPONSE)
            if found or is_silent:
                position += len(found)
                told_revision, is_silent = events.told_before(position), False
                yield pb.WatchEventsResponse(revision=told_revision, events=[_told(event) for event in found])
                continue
            changed = self._driver.changed
            try:
                await asyncio.wait_for(asyncio.shield(changed), _NOTHING_NEW_S)
            except TimeoutError:
                is_silent = True


def _gone(message: str) -> Refusal:
    return Refusal(grpc.StatusCode.OUT_OF_RANGE, message)


def _exhausted(message: str) -> Refusal:
    return Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, message)


def _told(event: Event) -> pb.Event:
    field, body = _body(event.body)
    what: dict[str, Any] = {field: body}
    return pb.Event(revision=event.revision, time_ms=event.time_ms, **what)


def _body(event: EventBody) -> tuple[str, Message]:
    """The field of the oneof, and what is in it."""
    match event:
        case NodeEvent():
            node = pb.NodeEvent(role=event.role.value, id=event.member_id, epoch=event.epoch)
            return _NODE_FIELDS[event.change], node
        case LeaderEvent():
            return "leader_changed", pb.LeaderEvent(
                topic=event.topic,
                partition=event.partition,
                leader_before=event.leader_before,
                leader=event.leader,
                leader_epoch=event.leader_epoch,
            )
        case IsrEvent():
            return "isr_shrunk" if event.shrunk else "isr_expanded", pb.IsrEvent(
                topic=event.topic,
                partition=event.partition,
                before=event.before,
                in_sync_replicas=event.in_sync_replicas,
            )
        case TopicEvent():
            topic = pb.TopicEvent(topic=event.topic, topic_id=event.topic_id, partitions=event.partitions)
            return _TOPIC_FIELDS[event.change], topic
        case ConfigEvent():
            return "config_changed", _config(event)
        case ControllerEvent():
            controller = pb.ControllerEvent(controller_id=event.controller_id, controller_epoch=event.controller_epoch)
            return "controller_changed", controller
        case ReassignmentEvent():
            return "reassignment_done" if event.done else "reassignment_begun", pb.ReassignmentEvent(
                topic=event.topic,
                partition=event.partition,
                replicas=event.replicas,
                adding_replicas=event.adding_replicas,
                removing_replicas=event.removing_replicas,
            )
        case DrainEvent():
            drain = pb.DrainEvent(node_id=event.node_id, move_replicas=event.move_replicas)
            return "drain_ended" if event.ended else "drain_begun", drain
        case BalanceEvent():
            return "balance_changed", pb.BalanceEvent(paused=event.paused)
        case _:
            assert_never(event)


def _config(config: ConfigEvent) -> pb.ConfigEvent:
    told = pb.ConfigEvent(topic=config.topic, set_configs=config.set_configs, deleted_configs=config.deleted_configs)
    if not config.topic:
        told.broker = config.broker_id
    return told
