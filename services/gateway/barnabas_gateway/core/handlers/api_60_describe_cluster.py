"""DescribeCluster, API key 60, versions 0 to 2.

- The live brokers with their addresses on this listener, the cluster id, and as controller the lowest live broker id.
- Endpoint type (v1): 1 is brokers. 2, controllers, is MISMATCHED_ENDPOINT_TYPE on a broker's listener; others are
  UNSUPPORTED_ENDPOINT_TYPE.

Deviation: fenced brokers (v2) are not known to gateways and never listed.
"""

from __future__ import annotations

from barnabas.cluster.acls import CLUSTER
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    EndpointType,
)
from barnabas_gateway.core.connections.connection import PendingRequest
from barnabas_gateway.core.model.request_context import RequestContext
from barnabas_gateway.core.requests.handler import Handler


class DescribeClusterHandler(Handler):
    api_key = ApiKey.DESCRIBE_CLUSTER

    def start(self, pending: PendingRequest, request: DescribeClusterRequest) -> None:
        """No authorization is needed: Metadata returns the same."""
        response = _response(self, pending.connection.context, request.endpoint_type)
        if request.include_cluster_authorized_operations and not response.error_code:
            response.cluster_authorized_operations = self.authorizer.describable_operations(pending, CLUSTER)
        self.responder.respond(pending, response)


def _response(handler: Handler, context: RequestContext, endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type != EndpointType.BROKERS:
        is_known = endpoint_type == EndpointType.CONTROLLERS
        error = ErrorCode.MISMATCHED_ENDPOINT_TYPE if is_known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        return DescribeClusterResponse(error_code=error, error_message=error.message)
    addresses = [handler.cluster.address_of(node_id, context) for node_id in handler.image.brokers]
    return DescribeClusterResponse(
        endpoint_type=EndpointType.BROKERS,
        cluster_id=handler.image.cluster_id,
        controller_id=min(handler.image.brokers, default=-1),
        brokers=[DescribeClusterBroker(*address) for address in addresses if address is not None],
    )
