"""Find the logstore that coordinates a group, or a transactional id: the leader of its partition of
`__consumer_offsets`, or of `__transaction_state`.

The first request of a cluster that needs the topic has it created, without waiting for it: until it exists and has
leaders there is no coordinator, and clients retry.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from barnabas.cluster.image import ClusterImage
from barnabas.cluster.internal_topics import OFFSETS_TOPIC, partition_of_group
from barnabas.cluster.messages import CreateTopicsRequest, NewTopic
from barnabas_gateway.core.backends.controller_client import ControllerClient
from barnabas_gateway.core.model.config import GatewayConfig
from barnabas_gateway.core.model.deadlines import Clock
from barnabas_gateway.core.model.outputs import ControllerAnswer
from barnabas_gateway.core.timing.request_timing import Untimed

CREATION_PAUSE_MS: Final = 1_000
"""Delay between two attempts to create the topic: clients that look for a coordinator retry ten times a second."""


class Coordinator(NamedTuple):
    """One partition of the coordinators' topic, and its leader by the image."""

    topic_id: bytes
    partition: int
    node_id: int


def find_coordinator(image: ClusterImage, key: str, topic_name: str = OFFSETS_TOPIC) -> Coordinator | None:
    """Return the coordinator of a group, or of what else is kept in a topic by its name. None if the topic does not
    exist, or the partition has no live leader.
    """
    topic = image.topics_by_name.get(topic_name)
    if topic is None:
        return None
    partition = partition_of_group(key, len(image.partitions_by_topic_id[topic.topic_id]))
    led = image.partition(topic.topic_id, partition)
    if led is None or led.leader not in image.brokers:
        return None
    return Coordinator(topic.topic_id, partition, led.leader)


class GroupRouting(Untimed):
    """Keys are groups; with the topic of transactions, transactional ids."""

    __slots__ = ("_clock", "_config", "_controller", "_image", "_next_creation_ms", "_topic_name")

    def __init__(
        self,
        config: GatewayConfig,
        clock: Clock,
        image: ClusterImage,
        controller: ControllerClient,
        topic_name: str = OFFSETS_TOPIC,
    ) -> None:
        self._topic_name = topic_name
        self._config = config
        self._clock = clock
        self._image = image
        self._controller = controller
        self._next_creation_ms = 0

    def coordinator_of(self, key: str) -> Coordinator | None:
        """Like `find_coordinator`, but request the creation of a missing topic."""
        if self._topic_name not in self._image.topics_by_name:
            self._create()
        return find_coordinator(self._image, key, self._topic_name)

    def _create(self) -> None:
        """Create the topic. The controller chooses its partitions, replicas and configs (`offsets.topic.*`,
        `transaction.state.log.*`).
        """
        if self._clock.now_ms < self._next_creation_ms or not self._image.brokers:
            return
        wait_ms = self._config.topic_creation_wait_ms_max
        self._next_creation_ms = self._clock.now_ms + wait_ms
        self._controller.call_controller(self, CreateTopicsRequest([NewTopic(self._topic_name, -1, -1)], wait_ms))

    def controller_answered(self, answer: ControllerAnswer | None) -> None:
        """Created, created by another gateway, or not created: the image shows it, and the next request tries again."""
        self._next_creation_ms = self._clock.now_ms + CREATION_PAUSE_MS

    def revision_applied(self) -> None:
        raise AssertionError("the maker of an internal topic waits for no revision")
