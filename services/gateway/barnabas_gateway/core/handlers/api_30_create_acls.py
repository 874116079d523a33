"""CreateAcls, API key 30, versions 1 to 3.

- SECURITY_DISABLED for each, as of a broker of Kafka without an authorizer.

Deviations: none known; there are no ACLs.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from barnabas_gateway.core.connections.connection import PendingRequest
from barnabas_gateway.core.model.authorization import CLUSTER, Operation, authorize
from barnabas_gateway.core.requests.handler import Handler


class CreateAclsHandler(Handler, api_key=ApiKey.CREATE_ACLS):
    def start(self, pending: PendingRequest, request: CreateAclsRequest) -> None:
        error, message = ErrorCode.SECURITY_DISABLED, "No Authorizer is configured."
        if not authorize(pending.connection.context, Operation.ALTER, CLUSTER):
            error, message = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED.message
        response = CreateAclsResponse(results=[AclCreationResult(error, message)] * len(request.creations))
        self.responder.respond(pending, response)
