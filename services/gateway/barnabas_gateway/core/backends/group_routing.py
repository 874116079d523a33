"""Which logstore coordinates a group: the leader of the group's partition of `__consumer_offsets`.

The topic is made by the first request of a cluster that needs it, and nobody waits for that: until it is there and led
there is no coordinator, and clients ask again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from barnabas.cluster.group_partition import partition_of_group
from barnabas.cluster.image import ClusterImage
from barnabas.cluster.messages import CreateTopicsRequest, NewTopic
from barnabas_gateway.core.backends.controller_client import ControllerClient
from barnabas_gateway.core.model.config import GatewayConfig
from barnabas_gateway.core.model.deadlines import Clock
from barnabas_gateway.core.model.outputs import ControllerAnswer
from barnabas_gateway.core.model.topic_names import OFFSETS_TOPIC
from barnabas_gateway.core.timing.request_timing import Untimed

CREATION_PAUSE_MS: Final = 1_000
"""Between two attempts to have the topic made: clients that look for a coordinator ask ten times a second."""


class Coordinator(NamedTuple):
    """One partition of `__consumer_offsets`, and who leads it by the image."""

    topic_id: bytes
    partition: int
    node_id: int


def find_coordinator(image: ClusterImage, group_id: str) -> Coordinator | None:
    """None: the topic is not there, or the partition has no leader that is alive."""
    topic = image.topics_by_name.get(OFFSETS_TOPIC)
    if topic is None:
        return None
    partition = partition_of_group(group_id, len(image.partitions_by_topic_id[topic.topic_id]))
    led = image.partition(topic.topic_id, partition)
    if led is None or led.leader not in image.brokers:
        return None
    return Coordinator(topic.topic_id, partition, led.leader)


class GroupRouting(Untimed):
    __slots__ = ("_clock", "_config", "_controller", "_image", "_next_creation_ms")

    def __init__(self, config: GatewayConfig, clock: Clock, image: ClusterImage, controller: ControllerClient) -> None:
        self._config = config
        self._clock = clock
        self._image = image
        self._controller = controller
        self._next_creation_ms = 0

    def coordinator_of(self, group_id: str) -> Coordinator | None:
        """As `find_coordinator`; and a topic that is not there is asked for."""
        if OFFSETS_TOPIC not in self._image.topics_by_name:
            self._create()
        return find_coordinator(self._image, group_id)

    def _create(self) -> None:
        """Its partitions, replicas and configs are the controller's to choose (`offsets.topic.*`)."""
        if self._clock.now_ms < self._next_creation_ms or not self._image.brokers:
            return
        wait_ms = self._config.topic_creation_wait_ms_max
        self._next_creation_ms = self._clock.now_ms + wait_ms
        self._controller.call(self, CreateTopicsRequest([NewTopic(OFFSETS_TOPIC, -1, -1)], wait_ms))

    def controller_answered(self, answer: ControllerAnswer | None) -> None:
        """Made, made by another, or not to be made now: the image tells, and the next request asks again."""
        self._next_creation_ms = self._clock.now_ms + CREATION_PAUSE_MS

    def revision_applied(self) -> None:
        raise AssertionError("the maker of the offsets topic waits for no revision")
