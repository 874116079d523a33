"""One who forbids a guest one topic after another, allows it again, and goes by every answer: I15."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from barnabas.cluster import messages as cluster
from barnabas.cluster.acls import Acl, Operation, PatternType, PermissionType, ResourceType
from barnabas.cluster.keys import Role
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from barnabas.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from barnabas_gateway.core.model.config import AuthorizerConfig
from barnabas_gateway.core.model.request_context import ANONYMOUS, USER, Principal, RequestContext
from tests.sim.clients.client import Client, ClientEnvironment
from tests.sim.nodes.controller import AclsAnswer, AclsRequest, ControllerNode
from tests.sim.nodes.gateway import GatewayNode
from tests.sim.scheduler import MS, InvariantViolation

GUEST: Final = Principal(USER, "guest")
AUTHORIZER: Final = AuthorizerConfig(True, super_users=frozenset({str(ANONYMOUS)}))
"""Of the gateways: every client of the simulation is anonymous, and may do everything."""
EVERYTHING: Final = Acl(
    ResourceType.TOPIC, PatternType.LITERAL, "*", str(GUEST), "*", Operation.ALL, PermissionType.ALLOW
)


@dataclass(slots=True)
class _Connection:
    context: RequestContext = field(default_factory=lambda: RequestContext(0, "PLAINTEXT", "guest:1", GUEST))


@dataclass(slots=True)
class _Attempt:
    """A request of the guest, as a gateway's authorizer sees it."""

    connection: _Connection = field(default_factory=_Connection)
    header: RequestHeader = field(default_factory=lambda: RequestHeader(ApiKey.PRODUCE, 9, 1, "guest"))


class AclAdministrator(Client):
    """Requests one change at a time. What it has in doubt it leaves, and goes on with the next topic."""

    def __init__(self, name: str, environment: ClientEnvironment, gateways: list[GatewayNode]) -> None:
        super().__init__(name, environment)
        self._nodes = {node.name: node for node in gateways}
        self._number = 0
        self._may_guest_write = False
        """What the change under way comes to."""
        self._is_prepared = False
        self.changes = 0
        """That were answered without an error."""
        self.is_stopping = False

    @property
    def _topic(self) -> str:
        return f"guarded-{self._number}"

    def work(self) -> None:
        if self.is_stopping:
            return
        if not self._is_prepared:
            self._create(EVERYTHING)
            return
        self._number += 1
        denied = Acl(
            ResourceType.TOPIC,
            PatternType.LITERAL,
            self._topic,
            str(GUEST),
            "*",
            Operation.WRITE,
            PermissionType.DENY,
        )
        self._may_guest_write = False
        self._create(denied)

    def _create(self, acl: Acl) -> None:
        creation = AclCreation(
            acl.resource_type,
            acl.resource_name,
            acl.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        self.scheduler.note(f"{self.name} forbids {acl.resource_name}")
        self.ask(ApiKey.CREATE_ACLS, CreateAclsRequest([creation]), 3, CreateAclsResponse, self._created)

    def _created(self, response: CreateAclsResponse | None) -> None:
        if response is None:
            return
        code = response.results[0].error_code
        self._check(code)
        if code:
            self._rest()
        elif not self._is_prepared:
            self._is_prepared = True
            self._rest()
        else:
            self.changes += 1
            self.meanwhile(self.scheduler.random.randrange(100 * MS), "allows it again", self._delete)

    def _delete(self) -> None:
        self._may_guest_write = True
        asked = DeleteAclsFilter(ResourceType.TOPIC, self._topic, PatternType.LITERAL, None, None, 1, 1)
        self.scheduler.note(f"{self.name} allows {self._topic}")
        self.ask(ApiKey.DELETE_ACLS, DeleteAclsRequest([asked]), 3, DeleteAclsResponse, self._deleted)

    def _deleted(self, response: DeleteAclsResponse | None) -> None:
        if response is None:
            return
        result = response.filter_results[0]
        self._check(result.error_code)
        if not result.error_code:
            if len(result.matching_acls) != 1:
                raise InvariantViolation(f"{self._topic} had {len(result.matching_acls)} ACLs when they were deleted")
            self.changes += 1
        self._rest()

    def _rest(self) -> None:
        self.meanwhile(self.scheduler.random.randrange(100 * MS), "goes on", self.work)

    def _check(self, code: int) -> None:
        if code not in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT):
            raise InvariantViolation(f"a change of ACLs fails with {ErrorCode(code).name}")

    # --- what the answer means ---------------------------------------------------------------------------------------

    def answered(self, controller: ControllerNode, request: AclsRequest, answer: AclsAnswer) -> None:
        """The controller answers: every gateway that it has as a subscriber decides by it.

        One that lost its subscription may not, until it has another one; a gateway without an image allows nothing.
        """
        (change,) = request.acls if isinstance(request, cluster.CreateAclsRequest) else request.filters
        is_current = change.resource_name == self._topic
        if any(each.error_code for each in answer.results) or not is_current:
            return
        for subscriber in controller.running.subscriptions.by_id.values():
            core = self._nodes[subscriber.pod_id].core if subscriber.role is Role.GATEWAY else None
            if core is None or (self._may_guest_write and core.image.revision < 0):
                continue
            resource = (ResourceType.TOPIC, self._topic)
            may_write = core.authorizer.authorize(_Attempt(), Operation.WRITE, resource, log_denied=False)
            if may_write is not self._may_guest_write:
                word = "allows" if may_write else "denies"
                raise InvariantViolation(f"I15: {subscriber.pod_id} {word} {self._topic} to the guest after the answer")
