"""AddOffsetsToTxn, API key 25, versions 0 to 4.

- The coordinator of the transactional id adds the group's partition of `__consumer_offsets`, which is created with the
  first group; until it exists COORDINATOR_NOT_AVAILABLE, which clients retry.
- Without a coordinator NOT_COORDINATOR; COORDINATOR_NOT_AVAILABLE if the request may have been received.

Deviations: none known.
"""

from __future__ import annotations

from barnabas.cluster.acls import Operation, ResourceType
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import encode_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from barnabas_gateway.core.backends.coordinator_client import CoordinatorClient
from barnabas_gateway.core.backends.group_routing import GroupRouting
from barnabas_gateway.core.requests.group_request import GroupHandler, PendingGroupRequest
from barnabas_gateway.core.requests.handler import RequestEnvironment


class PendingAddOffsetsToTxn(PendingGroupRequest):
    __slots__ = ()

    def refuse(self, error: int) -> None:
        self.handler.responder.respond(self, AddOffsetsToTxnResponse(error_code=error))


class AddOffsetsToTxnHandler(GroupHandler):
    api_key = ApiKey.ADD_OFFSETS_TO_TXN
    request_class = PendingAddOffsetsToTxn

    def __init__(
        self,
        environment: RequestEnvironment,
        coordinators: CoordinatorClient,
        transaction_routing: GroupRouting,
        groups: GroupRouting,
    ) -> None:
        super().__init__(environment, coordinators, transaction_routing)
        self._groups = groups

    def start(self, pending: PendingAddOffsetsToTxn, request: AddOffsetsToTxnRequest) -> None:
        transaction = (ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        if not self.authorizer.authorize(pending, Operation.WRITE, transaction):
            pending.refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        elif not self.authorizer.authorize(pending, Operation.READ, (ResourceType.GROUP, request.group_id)):
            pending.refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        elif self._groups.coordinator_of(request.group_id) is None:
            pending.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            version = pending.header.api_version
            pending.call_coordinator(request.transactional_id, version, encode_body(request, version))
