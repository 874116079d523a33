"""DeleteAcls, API key 31, versions 1 to 3.

- SECURITY_DISABLED for each filter, as of a broker of Kafka without an authorizer.

Deviations: none known; there are no ACLs.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from barnabas_gateway.core.connections.connection import PendingRequest
from barnabas_gateway.core.model.authorization import CLUSTER, Operation, authorize
from barnabas_gateway.core.requests.handler import Handler


class DeleteAclsHandler(Handler, api_key=ApiKey.DELETE_ACLS):
    def start(self, pending: PendingRequest, request: DeleteAclsRequest) -> None:
        error, message = ErrorCode.SECURITY_DISABLED, "No Authorizer is configured."
        if not authorize(pending.connection.context, Operation.ALTER, CLUSTER):
            error, message = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED.message
        response = DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(error, message)] * len(request.filters))
        self.responder.respond(pending, response)
