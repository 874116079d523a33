"""DeleteGroups, API key 42, versions 0 to 2 (KIP-229).

- Each group's own coordinator is asked, groups of one partition of `__consumer_offsets` together. A group named
  twice is deleted, and answered, once, as in Kafka.
- Without a coordinator NOT_COORDINATOR; COORDINATOR_NOT_AVAILABLE if the group may have been deleted.

Deviations: none known.
"""

from __future__ import annotations

from barnabas.cluster.acls import Operation, ResourceType
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import Response
from barnabas.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.requests.group_request import GroupHandler, PendingGroupsRequest


class PendingDeleteGroups(PendingGroupsRequest[str]):
    __slots__ = ("results",)

    def __init__(self, handler: GroupHandler, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.results: dict[str, int] = {}
        """Error codes by group, in the order of the request."""

    def request_of(self, queries: list[str]) -> DeleteGroupsRequest:
        return DeleteGroupsRequest(queries)

    def fill_results(self, queries: list[str], response: Response) -> None:
        assert isinstance(response, DeleteGroupsResponse)
        answered = {result.group_id: result.error_code for result in response.results}
        for group_id in queries:
            self.results[group_id] = answered.get(group_id, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def fail_queries(self, queries: list[str], error: int) -> None:
        self.results.update(dict.fromkeys(queries, error))

    def complete(self) -> None:
        self.handler.responder.begin_steps(self, self._respond())

    def _respond(self) -> Steps[None]:
        response = DeleteGroupsResponse()
        for group_id, error in self.results.items():
            response.results.append(DeletableGroupResult(group_id, error))
            yield 1
        self.handler.responder.respond(self, response)


class DeleteGroupsHandler(GroupHandler):
    api_key = ApiKey.DELETE_GROUPS
    request_class = PendingDeleteGroups

    def start(self, pending: PendingDeleteGroups, request: DeleteGroupsRequest) -> Steps[None]:
        for group_id in dict.fromkeys(request.groups_names):
            pending.results[group_id] = ErrorCode.GROUP_AUTHORIZATION_FAILED
            if self.authorizer.authorize(pending, Operation.DELETE, (ResourceType.GROUP, group_id)):
                pending.add_query(group_id, group_id, 10)
            yield 1
        pending.send_calls()
