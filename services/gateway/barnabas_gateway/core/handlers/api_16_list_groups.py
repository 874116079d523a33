"""ListGroups, API key 16, versions 0 to 5.

- A client that came to a broker's own port gets the groups that this broker coordinates. A client that came to the
  bootstrap address (with `advertised.address.policy=shared` all do) means no broker in particular, and gets the groups
  of all: clients that ask every broker have each group as often as there are brokers, and keep one.
- The coordinators apply the filters.
- A coordinator that loads its groups is COORDINATOR_LOAD_IN_PROGRESS, one that can't be asked
  COORDINATOR_NOT_AVAILABLE, both for the whole answer, so that an incomplete list is never taken for a complete one.
  Clients retry.
- A principal that may not describe the cluster gets the groups that it may describe.

Deviations: none known.
"""

from __future__ import annotations

from barnabas.cluster.acls import CLUSTER, Operation, ResourceType
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import Response
from barnabas.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from barnabas.wire.primitives import SHORT_ELEMENTS_MAX, Steps
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.model.request_context import ANY_NODE
from barnabas_gateway.core.requests.group_request import GroupHandler, PendingGroupsRequest


class PendingListGroups(PendingGroupsRequest[ListGroupsRequest]):
    __slots__ = ("error_code", "groups")

    def __init__(self, handler: GroupHandler, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.error_code: int = ErrorCode.NONE
        self.groups: list[ListedGroup] = []

    def request_of(self, queries: list[ListGroupsRequest]) -> ListGroupsRequest:
        (query,) = queries
        return query

    def fill_results(self, queries: list[ListGroupsRequest], response: Response) -> None:
        assert isinstance(response, ListGroupsResponse)
        if response.error_code:
            self.fail_queries(queries, response.error_code)
        self.groups += response.groups

    def fail_queries(self, queries: list[ListGroupsRequest], error: int) -> None:
        # Clients retry this request on two errors only, and this is one of them.
        self.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE if error == ErrorCode.NOT_COORDINATOR else error

    def complete(self) -> None:
        self.handler.responder.begin_steps(self, self._respond())

    def _respond(self) -> Steps[None]:
        response = ListGroupsResponse(error_code=self.error_code)
        if not self.error_code:
            authorizer = self.handler.authorizer
            is_all = authorizer.authorize(self, Operation.DESCRIBE, CLUSTER, log_denied=False)
            for group in self.groups:
                resource = (ResourceType.GROUP, group.group_id)
                if is_all or authorizer.authorize(self, Operation.DESCRIBE, resource, log_denied=False):
                    response.groups.append(group)
                yield 1
        self.handler.responder.respond(self, response)


class ListGroupsHandler(GroupHandler):
    api_key = ApiKey.LIST_GROUPS
    request_class = PendingListGroups

    def start(self, pending: PendingListGroups, request: ListGroupsRequest) -> None:
        # Some of the given states and types are known.
        request.states_filter = list(dict.fromkeys(request.states_filter))[:SHORT_ELEMENTS_MAX]
        request.types_filter = list(dict.fromkeys(request.types_filter))[:SHORT_ELEMENTS_MAX]
        asked_node = pending.connection.context.node_id
        brokers = self.image.brokers
        for node_id in list(brokers) if asked_node == ANY_NODE else [asked_node]:
            pending.add_query_at(node_id, 0, request)
        pending.send_calls()
