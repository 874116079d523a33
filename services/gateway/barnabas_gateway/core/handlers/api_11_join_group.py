"""JoinGroup, API key 11, versions 0 to 9.

- Forwarded unchanged to the group's coordinator, whose answer goes unchanged to the client. A member that has to wait
  is parked for as long as the coordinator says (`PendingMemberRequest`); its connection is not idle meanwhile, and the
  requests behind it on the same connection wait, as in Kafka.
- Without a coordinator NOT_COORDINATOR; COORDINATOR_NOT_AVAILABLE if the join may have been received. In both cases the
  client joins again with the member id that it has.

Deviations: more than 100 protocols are INVALID_REQUEST, because each of a group's members is looked up in each of them.
"""

from __future__ import annotations

from typing import Final

from barnabas.cluster.acls import Operation, ResourceType
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.connections.dispatcher import WithBody
from barnabas_gateway.core.requests.group_member_request import MemberHandler, PendingMemberRequest

_VERSION_WITH_NULL_PROTOCOL = 7
PROTOCOLS_MAX: Final = 100
"""Assignment strategies that one member may support. Consumers have one or two."""


class PendingJoinGroup(PendingMemberRequest):
    __slots__ = ("member_id",)

    def __init__(self, handler: MemberHandler, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.member_id = ""

    def refuse(self, error: int) -> None:
        protocol_name = None if self.header.api_version >= _VERSION_WITH_NULL_PROTOCOL else ""
        response = JoinGroupResponse(error_code=error, protocol_name=protocol_name, member_id=self.member_id)
        self.handler.responder.respond(self, response)


class JoinGroupHandler(MemberHandler):
    api_key = ApiKey.JOIN_GROUP
    request_class = PendingJoinGroup
    takes_body = True

    def start(self, pending: PendingJoinGroup, asked: WithBody) -> None:
        request, body = asked
        assert isinstance(request, JoinGroupRequest)
        pending.member_id = request.member_id
        if not self.authorizer.authorize(pending, Operation.READ, (ResourceType.GROUP, request.group_id)):
            pending.refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        elif len(request.protocols) > PROTOCOLS_MAX:
            pending.refuse(ErrorCode.INVALID_REQUEST)
        else:
            pending.call_coordinator(request.group_id, pending.header.api_version, body)
