"""Heartbeat, API key 12, versions 0 to 4.

- Forwarded unchanged to the group's coordinator, whose answer goes unchanged to the client.
- Without a coordinator NOT_COORDINATOR; COORDINATOR_NOT_AVAILABLE if the heartbeat may have been received.

Deviations: none known.
"""

from __future__ import annotations

from barnabas.cluster.acls import Operation, ResourceType
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas_gateway.core.connections.dispatcher import WithBody
from barnabas_gateway.core.requests.group_request import GroupHandler, PendingGroupRequest


class PendingHeartbeat(PendingGroupRequest):
    __slots__ = ()

    def refuse(self, error: int) -> None:
        self.handler.responder.respond(self, HeartbeatResponse(error_code=error))


class HeartbeatHandler(GroupHandler):
    api_key = ApiKey.HEARTBEAT
    request_class = PendingHeartbeat
    takes_body = True

    def start(self, pending: PendingHeartbeat, asked: WithBody) -> None:
        request, body = asked
        assert isinstance(request, HeartbeatRequest)
        if self.authorizer.authorize(pending, Operation.READ, (ResourceType.GROUP, request.group_id)):
            pending.call_coordinator(request.group_id, pending.header.api_version, body)
        else:
            pending.refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
