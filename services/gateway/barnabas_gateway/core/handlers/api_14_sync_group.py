"""SyncGroup, API key 14, versions 0 to 5.

- Forwarded unchanged to the group's coordinator, whose answer goes unchanged to the client. A member that has to wait
  for its leader's assignments is parked, as for JoinGroup.
- From v5 on a protocol type and name are required: without them INCONSISTENT_GROUP_PROTOCOL, for any group.
- Without a coordinator NOT_COORDINATOR; COORDINATOR_NOT_AVAILABLE if the assignments may have been received.

Deviations: more than 5,000 assignments are INVALID_REQUEST: the coordinator processes them in one turn.
"""

from __future__ import annotations

from typing import Final

from barnabas.cluster.acls import Operation, ResourceType
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas_gateway.core.connections.dispatcher import WithBody
from barnabas_gateway.core.requests.group_member_request import MemberHandler, PendingMemberRequest

_VERSION_WITH_PROTOCOL = 5
ASSIGNMENTS_MAX: Final = 5_000
"""One assignment for each member of the group."""


class PendingSyncGroup(PendingMemberRequest):
    __slots__ = ()

    def refuse(self, error: int) -> None:
        self.handler.responder.respond(self, SyncGroupResponse(error_code=error))


class SyncGroupHandler(MemberHandler):
    api_key = ApiKey.SYNC_GROUP
    request_class = PendingSyncGroup
    takes_body = True

    def start(self, pending: PendingSyncGroup, asked: WithBody) -> None:
        request, body = asked
        assert isinstance(request, SyncGroupRequest)
        version = pending.header.api_version
        if version >= _VERSION_WITH_PROTOCOL and (request.protocol_type is None or request.protocol_name is None):
            pending.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif not self.authorizer.authorize(pending, Operation.READ, (ResourceType.GROUP, request.group_id)):
            pending.refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        elif len(request.assignments) > ASSIGNMENTS_MAX:
            pending.refuse(ErrorCode.INVALID_REQUEST)
        else:
            pending.call_coordinator(request.group_id, version, body)
