"""LeaveGroup, API key 13, versions 0 to 5.

- Forwarded unchanged to the group's coordinator, whose answer goes unchanged to the client.
- More than 512 members leave in several calls, one after the other, each of them once.
- Without a coordinator NOT_COORDINATOR; COORDINATOR_NOT_AVAILABLE if the members may have left. Neither names a
  member.

Deviations: none known.
"""

from __future__ import annotations

from barnabas.cluster.acls import Operation, ResourceType
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import Response
from barnabas.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.connections.dispatcher import WithBody
from barnabas_gateway.core.requests.group_request import GROUP_CALL_ELEMENTS_MAX, GroupHandler, PendingSplitGroupRequest


class PendingLeaveGroup(PendingSplitGroupRequest):
    __slots__ = ("members",)

    def __init__(self, handler: GroupHandler, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.members: list[MemberResponse] = []
        """Answered so far."""

    def merge(self, response: Response) -> bool:
        assert isinstance(response, LeaveGroupResponse)
        if response.error_code:
            self.refuse(response.error_code)
            return False
        self.members += response.members
        return True

    def refuse(self, error: int) -> None:
        self.parts.clear()
        self.handler.responder.respond(self, LeaveGroupResponse(error_code=error))

    def respond(self) -> None:
        self.handler.responder.respond(self, LeaveGroupResponse(members=self.members))


class LeaveGroupHandler(GroupHandler):
    api_key = ApiKey.LEAVE_GROUP
    request_class = PendingLeaveGroup
    takes_body = True

    def start(self, pending: PendingLeaveGroup, asked: WithBody) -> Steps[None]:
        request, body = asked
        assert isinstance(request, LeaveGroupRequest)
        if not self.authorizer.authorize(pending, Operation.READ, (ResourceType.GROUP, request.group_id)):
            pending.refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
            return
        if not pending.is_long or not request.members:
            pending.call_coordinator(request.group_id, pending.header.api_version, body)
            return
        named: dict[tuple[str, str | None], MemberIdentity] = {}
        for member in request.members:
            named.setdefault((member.member_id, member.group_instance_id), member)
            yield 1
        members = list(named.values())
        for first in range(0, len(members), GROUP_CALL_ELEMENTS_MAX):
            part = members[first : first + GROUP_CALL_ELEMENTS_MAX]
            pending.parts.append(LeaveGroupRequest(request.group_id, members=part))
        pending.call_parts(request.group_id)
