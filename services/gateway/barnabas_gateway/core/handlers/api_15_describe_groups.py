"""DescribeGroups, API key 15, versions 0 to 6.

- Each group's own coordinator is asked, groups of one partition of `__consumer_offsets` together; the answer has
  them in the order of the request.
- Without a coordinator NOT_COORDINATOR, which clients retry; COORDINATOR_NOT_AVAILABLE if it does not answer.

Deviations: authorized operations are never returned (−2147483648, "not asked for") until ACLs exist. A group named
twice is answered once: each answer may be large, and a small request must not become a response that no memory holds.
"""

from __future__ import annotations

from barnabas.cluster.acls import Operation, ResourceType
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import Response
from barnabas.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.requests.group_request import GroupHandler, PendingGroupsRequest


class PendingDescribeGroups(PendingGroupsRequest[str]):
    __slots__ = ("includes_operations", "results")

    def __init__(self, handler: GroupHandler, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.results: dict[str, DescribedGroup] = {}
        """By group, in the order of the request."""
        self.includes_operations = False

    def request_of(self, queries: list[str]) -> DescribeGroupsRequest:
        return DescribeGroupsRequest(queries)

    def fill_results(self, queries: list[str], response: Response) -> None:
        assert isinstance(response, DescribeGroupsResponse)
        answered = {group.group_id: group for group in response.groups}
        for group_id in queries:
            result = answered.get(group_id) or _refused(group_id, ErrorCode.NOT_COORDINATOR)
            if self.includes_operations and not result.error_code:
                result.authorized_operations = self.handler.authorizer.authorized_operations(
                    self, (ResourceType.GROUP, group_id)
                )
            self.results[group_id] = result

    def fail_queries(self, queries: list[str], error: int) -> None:
        for group_id in queries:
            self.results[group_id] = _refused(group_id, error)

    def complete(self) -> None:
        response = DescribeGroupsResponse(groups=list(self.results.values()))
        self.handler.responder.respond(self, response)


class DescribeGroupsHandler(GroupHandler):
    api_key = ApiKey.DESCRIBE_GROUPS
    request_class = PendingDescribeGroups

    def start(self, pending: PendingDescribeGroups, request: DescribeGroupsRequest) -> Steps[None]:
        pending.includes_operations = request.include_authorized_operations
        for group_id in dict.fromkeys(request.groups):
            pending.results[group_id] = _refused(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
            if self.authorizer.authorize(pending, Operation.DESCRIBE, (ResourceType.GROUP, group_id)):
                pending.add_query(group_id, group_id, 10)
            yield 1
        pending.send_calls()


def _refused(group_id: str, error: int) -> DescribedGroup:
    return DescribedGroup(error, group_id=group_id)
