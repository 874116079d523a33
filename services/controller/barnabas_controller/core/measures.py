"""Measures: what a controller has to report of the cluster and of itself; asked at a scrape.

The gauges take one look at every partition, and only when something has changed since the last look. Elections and the
like are counted from the events that every controller keeps anyway, while it is the active one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from barnabas.cluster.messages import NO_LEADER
from barnabas.metrics.controller_families import (
    ACTIVE_BROKERS,
    ACTIVE_CONTROLLERS,
    CLUSTER_UNDER_REPLICATED,
    CONTROL_UNANSWERED,
    CONTROLLER_EPOCH,
    FENCED_BROKERS,
    ISR_CHANGES,
    LEADER_ELECTIONS,
    METADATA_REVISION,
    NODE_CHANGES,
    OFFLINE_PARTITIONS,
    PARTITIONS,
    PREFERRED_REPLICA_IMBALANCE,
    REASSIGNING_PARTITIONS,
    SUBSCRIBERS,
    TOPICS,
    TOPICS_TO_DELETE,
    UNCLEAN_ELECTIONS,
    UNREADABLE_KEYS,
)
from barnabas.metrics.family import Sample
from barnabas_controller.core.controller import Controller
from barnabas_controller.core.events import EVENTS_MAX, EventBody, IsrEvent, LeaderEvent, NodeEvent
from barnabas_controller.core.image import ControllerImage


@dataclass(slots=True, frozen=True)
class _Look:
    """At all partitions, as of a revision of the image."""

    revision: int
    partitions: int = 0
    offline: int = 0
    under_replicated: int = 0
    not_preferred: int = 0
    reassigning: int = 0


class Measures:
    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._look = _Look(-1)
        # The number of the first event that has not been counted, and of which load of the image.
        self._position = 0
        self._reloads = 0
        self._elections = 0
        self._unclean_elections = 0
        self._isr_changes: Counter[str] = Counter({"shrink": 0, "expand": 0})
        self._node_changes: Counter[tuple[str, str]] = Counter()
        self._led: LeaderEvent | None = None
        """The last event, if it was one of those."""

    def samples(self) -> Iterator[Sample]:
        controller, image = self._controller, self._controller.image
        self._count_events()
        active = controller.active
        yield Sample(ACTIVE_CONTROLLERS, (), active)
        yield Sample(METADATA_REVISION, (), image.revision)
        yield Sample(CONTROLLER_EPOCH, (), image.controller_epoch)
        yield Sample(UNREADABLE_KEYS, (), len(image.unreadable))
        yield from self._cluster() if active else self._nothing()
        yield Sample(LEADER_ELECTIONS, (), self._elections)
        yield Sample(UNCLEAN_ELECTIONS, (), self._unclean_elections)
        for kind, count in self._isr_changes.items():
            yield Sample(ISR_CHANGES, (kind,), count)
        for (role, change), count in sorted(self._node_changes.items()):
            yield Sample(NODE_CHANGES, (role, change), count)
        yield Sample(SUBSCRIBERS, (), len(controller.subscriptions.by_id))
        for node_id, link in sorted(controller.links.by_node.items()):
            yield Sample(CONTROL_UNANSWERED, (str(node_id),), len(link.unanswered))

    def _cluster(self) -> Iterator[Sample]:
        image = self._controller.image
        if self._look.revision != image.revision:
            self._look = _look_at(image)
        look = self._look
        yield Sample(TOPICS, (), len(image.topics))
        yield Sample(TOPICS_TO_DELETE, (), len(image.deletions))
        yield Sample(PARTITIONS, (), look.partitions)
        yield Sample(OFFLINE_PARTITIONS, (), look.offline)
        yield Sample(CLUSTER_UNDER_REPLICATED, (), look.under_replicated)
        yield Sample(PREFERRED_REPLICA_IMBALANCE, (), look.not_preferred)
        yield Sample(REASSIGNING_PARTITIONS, (), look.reassigning)
        yield Sample(ACTIVE_BROKERS, (), len(image.logstores))
        yield Sample(FENCED_BROKERS, (), len(image.known_node_ids()) - len(image.logstores))

    def _nothing(self) -> Iterator[Sample]:
        """Of a standby: as Kafka's tell, so that a sum over all controllers is the active one's."""
        for family in (
            TOPICS,
            TOPICS_TO_DELETE,
            PARTITIONS,
            OFFLINE_PARTITIONS,
            CLUSTER_UNDER_REPLICATED,
            PREFERRED_REPLICA_IMBALANCE,
            REASSIGNING_PARTITIONS,
            ACTIVE_BROKERS,
            FENCED_BROKERS,
        ):
            yield Sample(family, (), 0)

    def _count_events(self) -> None:
        """What has happened since the last time; what this controller did not hear of, or no longer keeps, is lost."""
        events = self._controller.events
        if events.reloads != self._reloads:
            self._reloads = events.reloads
            self._position = events.first
        position, self._position = max(self._position, events.first), events.end
        if self._controller.active:
            for event in events.read(position, EVENTS_MAX):
                self._count(event.body)

    def _count(self, event: EventBody) -> None:
        led, self._led = self._led, None
        match event:
            case LeaderEvent():
                self._elections += event.leader != NO_LEADER
                self._led = event
            case IsrEvent():
                self._isr_changes["shrink" if event.shrunk else "expand"] += 1
                is_of_election = led is not None and (led.topic, led.partition) == (event.topic, event.partition)
                if led is not None and is_of_election and led.leader != NO_LEADER:
                    self._unclean_elections += led.leader not in event.before
            case NodeEvent():
                self._node_changes[event.role.value, event.change.value] += 1
            case _:
                pass


def _look_at(image: ControllerImage) -> _Look:
    partitions = [partition for topic_id in image.topics_by_id for _, partition in image.partitions(topic_id)]
    return _Look(
        revision=image.revision,
        partitions=len(partitions),
        offline=sum(each.leader == NO_LEADER for each in partitions),
        under_replicated=sum(
            each.leader != NO_LEADER and not {*each.in_sync_replicas, *each.adding_replicas}.issuperset(each.replicas)
            for each in partitions
        ),
        not_preferred=sum(each.leader != each.replicas[0] for each in partitions),
        reassigning=sum(bool(each.adding_replicas or each.removing_replicas) for each in partitions),
    )
