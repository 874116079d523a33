"""The body of a Fetch response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.wire.messages.fetch import FetchableTopicResponse, FetchResponse, NodeEndpoint
from services.gateway.core.authorization import RequestContext
from services.gateway.core.fetch_target import FetchTarget

if TYPE_CHECKING:
    from services.gateway.core.processor import Processor

READ_COMMITTED = 1


def make_response(
    processor: Processor, context: RequestContext, told: Sequence[FetchTarget], isolation_level: int
) -> FetchResponse:
    """These partitions by topic, with the endpoints of the leaders that their errors name (KIP-951)."""
    reads_committed = isolation_level == READ_COMMITTED
    by_topic: dict[tuple[str, bytes], FetchableTopicResponse] = {}
    leaders: dict[int, None] = {}
    for target in told:
        topic = by_topic.get((target.topic, target.topic_id))
        if topic is None:
            topic = FetchableTopicResponse(target.topic, target.topic_id)
            by_topic[target.topic, target.topic_id] = topic
        topic.partitions.append(target.answer(reads_committed=reads_committed))
        if target.current_leader is not None:
            leaders[target.current_leader.leader_id] = None
    addresses = [processor.address_of(leader_id, context) for leader_id in leaders]
    return FetchResponse(
        responses=list(by_topic.values()),
        node_endpoints=[
            NodeEndpoint(address.node_id, address.host, address.port, address.rack)
            for address in addresses
            if address is not None
        ],
    )
