"""DescribeAcls, API key 29, versions 1 to 3.

- SECURITY_DISABLED, as of a broker of Kafka without an authorizer.

Deviations: none known; there are no ACLs to tell.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from barnabas_gateway.core.connections.connection import PendingRequest
from barnabas_gateway.core.model.authorization import CLUSTER, Operation, authorize
from barnabas_gateway.core.requests.handler import Handler


class DescribeAclsHandler(Handler, api_key=ApiKey.DESCRIBE_ACLS):
    def start(self, pending: PendingRequest, request: DescribeAclsRequest) -> None:
        error, message = ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker"
        if not authorize(pending.connection.context, Operation.DESCRIBE, CLUSTER):
            error, message = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED.message
        response = DescribeAclsResponse(error_code=error, error_message=message)
        self.responder.respond(pending, response)
