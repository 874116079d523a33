"""Choose the replica for a consumer that gives its rack (KIP-392).

Under the policy `per-broker-port` the client goes to the replica that the leader has named: a request to a broker's own
port is read there, if the partition has a replica there. Under `shared` there is no such port, and no replica is ever
named to a client: the processor reads from the replica that the leader has named, and remembers it for as long as a
Java client would (`metadata.max.age.ms`). A follower that can't answer is avoided for a while, and the leader answers
instead, even if it prefers another replica.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from barnabas.cluster.image import ClusterImage
from barnabas.cluster.messages import PartitionMetadata
from barnabas_gateway.core.backends.read_router import ReadLane
from barnabas_gateway.core.model.config import AddressPolicy
from barnabas_gateway.core.model.deadlines import Clock
from barnabas_gateway.core.model.request_context import RequestContext

PREFERRED_MS: Final = 5 * 60 * 1000
AVOIDED_MS: Final = 1_000

_LEADER: Final = -1

_Key = tuple[str, bytes, int]


class ReadPlace(NamedTuple):
    """A logstore, and the client's rack for it: empty if it has to answer itself."""

    node_id: int
    rack_id: str


class ReadReplicas:
    """The choices of one processor. Entries are for racks that leaders know, so there are at most partitions times
    racks.
    """

    __slots__ = ("_clock", "_image", "_lanes", "_policy", "_replicas")

    def __init__(self, policy: AddressPolicy, clock: Clock, image: ClusterImage, lanes: Mapping[int, ReadLane]) -> None:
        self._policy = policy
        self._clock = clock
        self._image = image
        self._lanes = lanes
        self._replicas: dict[_Key, tuple[int, int]] = {}
        """(node id or _LEADER, expiry time)."""

    @property
    def is_own_choice(self) -> bool:
        """Whether the processor chooses the replica, because none is named to clients."""
        return self._policy is AddressPolicy.SHARED

    def place_of(
        self, context: RequestContext, rack_id: str, topic_id: bytes, partition: PartitionMetadata
    ) -> ReadPlace:
        """Return where to read this partition for a client in that rack."""
        if self.is_own_choice:
            node_id, until_ms = self._replicas.get((rack_id, topic_id, partition.partition), (None, 0))
            if node_id is None or self._clock.now_ms >= until_ms:
                return ReadPlace(partition.leader, rack_id)
        else:
            node_id = context.node_id
            if node_id == partition.leader or node_id not in partition.replicas:
                return ReadPlace(partition.leader, rack_id)
        lane = self._lanes.get(node_id)
        is_there = lane is not None and lane.is_up and node_id in partition.replicas
        return ReadPlace(node_id, rack_id) if is_there else ReadPlace(partition.leader, "")

    def prefer(self, rack_id: str, topic_id: bytes, partition: int, node_id: int) -> None:
        """The leader has named a replica for this rack."""
        self._replicas[rack_id, topic_id, partition] = (node_id, self._clock.now_ms + PREFERRED_MS)

    def avoid(self, rack_id: str, topic_id: bytes, partition: int) -> None:
        """That replica does not serve what is requested."""
        self._replicas[rack_id, topic_id, partition] = (_LEADER, self._clock.now_ms + AVOIDED_MS)

    def image_changed(self) -> None:
        """Forget choices that have expired, and partitions that are gone."""
        image, now_ms = self._image, self._clock.now_ms
        self._replicas = {
            key: place
            for key, place in self._replicas.items()
            if place[1] > now_ms and image.partition(key[1], key[2]) is not None
        }
