"""The cluster as one processor sees it: the metadata image, newer leaders that logstores name, brokers' addresses."""

from __future__ import annotations

from barnabas.cluster.image import ClusterImage
from barnabas_gateway.core.model.addresses import BrokerAddress, broker_address
from barnabas_gateway.core.model.config import GatewayConfig
from barnabas_gateway.core.model.request_context import RequestContext


class ClusterView:
    __slots__ = ("_config", "has_new_leaders", "image")

    def __init__(self, config: GatewayConfig) -> None:
        self._config = config
        self.image = ClusterImage()
        self.has_new_leaders = False
        """Whether any was adopted in this turn; the processor clears it."""

    def adopt_leader(self, topic_id: bytes, partition: int, leader: int, leader_epoch: int) -> None:
        """Adopt a leader of a later epoch than the image has, as a logstore's answer names it.

        Responses name it from now on. Waiting appends are not routed to it here, since the caller may be an append's
        answer: the processor does that at the end of the turn.
        """
        if self.image.adopt_leader(topic_id, partition, leader, leader_epoch):
            self.has_new_leaders = True

    def address_of(self, node_id: int, context: RequestContext) -> BrokerAddress | None:
        """Return a broker's address for clients of this connection's listener; None if it is not alive."""
        broker = self.image.brokers.get(node_id)
        if broker is None:
            return None
        return broker_address(self._config.address_policy, self._config.listeners_by_name[context.listener], broker)
