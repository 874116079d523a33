"""CreateAcls, API key 30, versions 1 to 3.

- Needs ALTER on the cluster; without an authorizer SECURITY_DISABLED for each ACL.
- The controller validates and writes each. The answer is given when all gateways decide by the ACLs.
- An ACL that exists already is created again without an error.

Deviations: an ACL with the number 0 (unknown) is INVALID_REQUEST, while Kafka closes the connection; so is one whose
principal has no type, which Kafka stores. More than 100 ACLs are written in several parts, not all at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.cluster import messages as cluster
from barnabas.cluster.acls import CLUSTER, Acl, Operation, acl_problem
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.model.error_messages import client_message
from barnabas_gateway.core.model.outputs import ControllerAnswer
from barnabas_gateway.core.requests.config_alterations import TIMEOUT_MS
from barnabas_gateway.core.requests.controller_request import ControllerHandler, PendingControllerRequest


class PendingCreateAcls(PendingControllerRequest[tuple[Acl, AclCreationResult]]):
    __slots__ = ("results",)

    def __init__(
        self, handler: ControllerHandler, connection: Connection, header: RequestHeader, frame_bytes: int
    ) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.results: list[AclCreationResult] = []

    def request_of(
        self, queries: Sequence[tuple[Acl, AclCreationResult]], timeout_ms: int
    ) -> cluster.CreateAclsRequest:
        return cluster.CreateAclsRequest([acl for acl, _ in queries], timeout_ms)

    def fill_results(self, queries: Sequence[tuple[Acl, AclCreationResult]], answer: ControllerAnswer) -> int:
        assert isinstance(answer, cluster.CreateAclsResponse)
        audit, context = self.handler.authorizer.audit, self.connection.context
        created: list[Acl] = []
        for (acl, result), reported in zip(queries, answer.results, strict=False):
            _set(result, reported.error_code, reported.error_message)
            if not reported.error_code:
                created.append(acl)
        audit.acls_changed(context, self.header, created, is_created=True)
        return answer.revision

    def complete(self) -> None:
        self.handler.responder.respond(self, CreateAclsResponse(results=self.results))


class CreateAclsHandler(ControllerHandler):
    api_key = ApiKey.CREATE_ACLS
    request_class = PendingCreateAcls

    def start(self, pending: PendingCreateAcls, request: CreateAclsRequest) -> Steps[None]:
        is_allowed = self.authorizer.authorize(pending, Operation.ALTER, CLUSTER)
        for asked in request.creations:
            result = AclCreationResult(ErrorCode.NONE)
            pending.results.append(result)
            acl = Acl(
                asked.resource_type,
                asked.resource_pattern_type,
                asked.resource_name,
                asked.principal,
                asked.host,
                asked.operation,
                asked.permission_type,
            )
            problem = acl_problem(acl)
            if not is_allowed:
                _set(result, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            elif not self.authorizer.is_enabled:
                _set(result, ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
            elif problem:
                _set(result, ErrorCode.INVALID_REQUEST, problem)
            else:
                _set(result, ErrorCode.REQUEST_TIMED_OUT)
                pending.add_query((acl, result))
            yield 1
        pending.send_calls(TIMEOUT_MS)


def _set(result: AclCreationResult, error_code: int, message: str = "") -> None:
    result.error_code, result.error_message = error_code, client_message(error_code, message)
