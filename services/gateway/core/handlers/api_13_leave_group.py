"""LeaveGroup, API key 13, versions 0 to 5.

- Goes as it came to the group's coordinator, whose answer goes as it came to the client.
- Without a coordinator NOT_COORDINATOR; COORDINATOR_NOT_AVAILABLE where the members may have left. Neither names a
  member.

Deviations: none known.
"""

from __future__ import annotations

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from services.gateway.core.authorization import Operation, ResourceType, authorize
from services.gateway.core.group_call import PendingGroupCall, WithBody


class PendingLeaveGroup(PendingGroupCall):
    __slots__ = ()

    def refusal(self, error: int) -> LeaveGroupResponse:
        return LeaveGroupResponse(error_code=error)


def start(slot: PendingLeaveGroup, asked: WithBody) -> None:
    request, body = asked
    assert isinstance(request, LeaveGroupRequest)
    if authorize(slot.connection.context, Operation.READ, (ResourceType.GROUP, request.group_id)):
        slot.call(request.group_id, slot.header.api_version, body)
    else:
        slot.refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
