"""DescribeAcls, API key 29, versions 1 to 3.

- Needs DESCRIBE on the cluster; without an authorizer SECURITY_DISABLED.
- Returns the ACLs that match the filter, by pattern, as this gateway knows them. A filter with a number that Kafka does
  not know matches nothing.

Deviations: a filter with the number 0 (unknown) is INVALID_REQUEST, while Kafka closes the connection. While a gateway
does not know all ACLs, only super users get an answer, with those that it knows.
"""

from __future__ import annotations

from barnabas.cluster.acls import CLUSTER, UNKNOWN, Acl, AclFilter, Operation
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.connections.connection import PendingRequest
from barnabas_gateway.core.model.error_messages import client_message
from barnabas_gateway.core.requests.handler import Handler

_ACLS_PER_STEP = 16


class DescribeAclsHandler(Handler):
    api_key = ApiKey.DESCRIBE_ACLS

    def start(self, pending: PendingRequest, request: DescribeAclsRequest) -> Steps[None]:
        asked = AclFilter(
            request.resource_type_filter,
            request.pattern_type_filter,
            request.resource_name_filter,
            request.principal_filter,
            request.host_filter,
            request.operation,
            request.permission_type,
        )
        error, message = self._refusal(pending, asked)
        response = DescribeAclsResponse(error_code=error, error_message=client_message(error, message))
        if not error:
            by_pattern: dict[tuple[int, int, str], DescribeAclsResource] = {}
            for number, acl in enumerate(list(self.authorizer.acls)):
                if asked.matches(acl):
                    _add(acl, by_pattern)
                if number % _ACLS_PER_STEP == 0:
                    yield 1
            response.resources = list(by_pattern.values())
        self.responder.respond(pending, response)

    def _refusal(self, pending: PendingRequest, asked: AclFilter) -> tuple[ErrorCode, str]:
        if not self.authorizer.authorize(pending, Operation.DESCRIBE, CLUSTER):
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ""
        if not self.authorizer.is_enabled:
            return ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker"
        if UNKNOWN in (asked.resource_type, asked.pattern_type, asked.operation, asked.permission_type):
            return ErrorCode.INVALID_REQUEST, "The filter contains unknown elements."
        return ErrorCode.NONE, ""


def _add(acl: Acl, by_pattern: dict[tuple[int, int, str], DescribeAclsResource]) -> None:
    pattern = (acl.resource_type, acl.pattern_type, acl.resource_name)
    resource = by_pattern.get(pattern)
    if resource is None:
        resource = DescribeAclsResource(acl.resource_type, acl.resource_name, acl.pattern_type, [])
        by_pattern[pattern] = resource
    resource.acls.append(AclDescription(acl.principal, acl.host, acl.operation, acl.permission_type))
