"""The body of a Fetch response."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.wire.messages.fetch import FetchableTopicResponse, FetchResponse, NodeEndpoint
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.model.authorization import RequestContext
from barnabas_gateway.core.model.cluster_view import ClusterView
from barnabas_gateway.core.model.fetch_target import FetchTarget

READ_COMMITTED = 1


def make_response(
    cluster: ClusterView, context: RequestContext, told: Sequence[FetchTarget], isolation_level: int
) -> Steps[FetchResponse]:
    """These partitions by topic, with the endpoints of the leaders that their errors name (KIP-951)."""
    reads_committed = isolation_level == READ_COMMITTED
    by_topic: dict[tuple[str, bytes], FetchableTopicResponse] = {}
    leaders: dict[int, None] = {}
    for target in told:
        key = (target.topic, target.topic_id)
        topic = by_topic.get(key)
        if topic is None:
            topic = by_topic[key] = FetchableTopicResponse(target.topic, target.topic_id, [])
        topic.partitions.append(target.answer(reads_committed))
        if target.current_leader is not None:
            leaders[target.current_leader.leader_id] = None
        yield 1
    response = FetchResponse(responses=list(by_topic.values()))
    for leader_id in leaders:
        address = cluster.address_of(leader_id, context)
        if address is not None:
            response.node_endpoints.append(NodeEndpoint(address.node_id, address.host, address.port, address.rack))
    return response
