"""DeleteAcls, API key 31, versions 1 to 3.

- Needs ALTER on the cluster; without an authorizer SECURITY_DISABLED for each filter.
- The controller deletes what each filter matches, and names it. The answer is given when all gateways decide without
  it.

Deviations: a filter with the number 0 (unknown) is INVALID_REQUEST, while Kafka closes the connection; one that would
delete more than 10,000 ACLs is POLICY_VIOLATION. More than 100 ACLs are deleted in several parts, not all at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.cluster import messages as cluster
from barnabas.cluster.acls import CLUSTER, AclFilter, Operation, filter_problem
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.model.error_messages import client_message
from barnabas_gateway.core.model.outputs import ControllerAnswer
from barnabas_gateway.core.requests.config_alterations import TIMEOUT_MS
from barnabas_gateway.core.requests.controller_request import (
    CALL_ELEMENTS_MAX,
    ControllerHandler,
    PendingControllerRequest,
)


class PendingDeleteAcls(PendingControllerRequest[tuple[AclFilter, DeleteAclsFilterResult]]):
    __slots__ = ("results",)

    def __init__(
        self, handler: ControllerHandler, connection: Connection, header: RequestHeader, frame_bytes: int
    ) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.results: list[DeleteAclsFilterResult] = []

    def request_of(
        self, queries: Sequence[tuple[AclFilter, DeleteAclsFilterResult]], timeout_ms: int
    ) -> cluster.DeleteAclsRequest:
        return cluster.DeleteAclsRequest([asked for asked, _ in queries], timeout_ms)

    def fill_results(
        self, queries: Sequence[tuple[AclFilter, DeleteAclsFilterResult]], answer: ControllerAnswer
    ) -> int:
        assert isinstance(answer, cluster.DeleteAclsResponse)
        audit, context = self.handler.authorizer.audit, self.connection.context
        for (_, result), reported in zip(queries, answer.results, strict=False):
            _set(result, reported.error_code, reported.error_message)
            if not reported.error_code:
                audit.acls_changed(context, self.header, reported.acls, is_created=False)
                for acl in reported.acls:
                    result.matching_acls.append(
                        DeleteAclsMatchingAcl(
                            ErrorCode.NONE,
                            None,
                            acl.resource_type,
                            acl.resource_name,
                            acl.pattern_type,
                            acl.principal,
                            acl.host,
                            acl.operation,
                            acl.permission_type,
                        )
                    )
        return answer.revision

    def complete(self) -> None:
        self.handler.responder.respond(self, DeleteAclsResponse(filter_results=self.results))


class DeleteAclsHandler(ControllerHandler):
    api_key = ApiKey.DELETE_ACLS
    request_class = PendingDeleteAcls

    def start(self, pending: PendingDeleteAcls, request: DeleteAclsRequest) -> Steps[None]:
        is_allowed = self.authorizer.authorize(pending, Operation.ALTER, CLUSTER)
        for each in request.filters:
            result = DeleteAclsFilterResult(ErrorCode.NONE, None, [])
            pending.results.append(result)
            asked = AclFilter(
                each.resource_type_filter,
                each.pattern_type_filter,
                each.resource_name_filter,
                each.principal_filter,
                each.host_filter,
                each.operation,
                each.permission_type,
            )
            problem = filter_problem(asked)
            if not is_allowed:
                _set(result, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            elif not self.authorizer.is_enabled:
                _set(result, ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
            elif problem:
                _set(result, ErrorCode.INVALID_REQUEST, problem)
            else:
                _set(result, ErrorCode.REQUEST_TIMED_OUT)
                # A filter is compared with every ACL.
                pending.add_query((asked, result), CALL_ELEMENTS_MAX // 10)
            yield 1
        pending.send_calls(TIMEOUT_MS)


def _set(result: DeleteAclsFilterResult, error_code: int, message: str = "") -> None:
    result.error_code, result.error_message = error_code, client_message(error_code, message)
