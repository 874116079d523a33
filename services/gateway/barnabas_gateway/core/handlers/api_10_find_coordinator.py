"""FindCoordinator, API key 10, versions 0 to 6.

- Of a group: the leader of its partition of `__consumer_offsets`, at the address that this listener's clients are told.
  The first request of a cluster has that topic made; until it is there and led COORDINATOR_NOT_AVAILABLE, with node −1,
  no host and port −1, which clients ask again. They need not go there: groups are served wherever a request comes in.
- Of a transaction or a share group, by a well-formed key: COORDINATOR_NOT_AVAILABLE.
- An unknown key type is INVALID_REQUEST; so are a share key before v6 and a malformed share key
  (`group:topic id:partition`).

Deviations: there are no coordinators of transactions and share groups yet.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.find_coordinator import (
    Coordinator,
    CoordinatorType,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.backends.group_routing import GroupRouting
from barnabas_gateway.core.connections.connection import PendingRequest
from barnabas_gateway.core.model.authorization import Operation, ResourceType, authorize
from barnabas_gateway.core.requests.handler import Handler, RequestEnvironment

_VERSION_WITH_BATCHES = 4
_VERSION_WITH_SHARE = 6
_RESOURCES = {
    int(CoordinatorType.GROUP): ResourceType.GROUP,
    int(CoordinatorType.TRANSACTION): ResourceType.TRANSACTIONAL_ID,
    int(CoordinatorType.SHARE): ResourceType.GROUP,
}
_DENIED = {
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


class FindCoordinatorHandler(Handler, api_key=ApiKey.FIND_COORDINATOR):
    def __init__(self, environment: RequestEnvironment, group_routing: GroupRouting) -> None:
        super().__init__(environment)
        self.group_routing = group_routing

    def start(self, pending: PendingRequest, request: FindCoordinatorRequest) -> Steps[None]:
        if pending.header.api_version >= _VERSION_WITH_BATCHES:
            response = FindCoordinatorResponse()
            for key in request.coordinator_keys:
                response.coordinators.append(self._find(pending, key, request.key_type))
                yield 1
        else:
            one = self._find(pending, request.key, request.key_type)
            response = FindCoordinatorResponse(
                error_code=one.error_code,
                error_message=one.error_message,
                node_id=one.node_id,
                host=one.host,
                port=one.port,
            )
        self.responder.respond(pending, response)

    def _find(self, pending: PendingRequest, key: str, key_type: int) -> Coordinator:
        error = _error(pending, key, key_type)
        if not error:
            coordinator = self.group_routing.coordinator_of(key)
            address = coordinator and self.cluster.address_of(coordinator.node_id, pending.connection.context)
            if address is not None:
                return Coordinator(key, address.node_id, address.host, address.port)
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return Coordinator(key, -1, "", -1, error, error.message)


def _error(pending: PendingRequest, key: str, key_type: int) -> ErrorCode:
    """What is wrong with the question; nothing with one for a group."""
    resource_type = _RESOURCES.get(key_type)
    if resource_type is None:
        return ErrorCode.INVALID_REQUEST
    if key_type == CoordinatorType.SHARE and (
        pending.header.api_version < _VERSION_WITH_SHARE or not _is_share_key(key)
    ):
        return ErrorCode.INVALID_REQUEST
    if not authorize(pending.connection.context, Operation.DESCRIBE, (resource_type, key)):
        return _DENIED[resource_type]
    return ErrorCode.NONE if key_type == CoordinatorType.GROUP else ErrorCode.COORDINATOR_NOT_AVAILABLE


def _is_share_key(key: str) -> bool:
    group, _, rest = key.partition(":")
    topic_id, _, partition = rest.partition(":")
    return bool(group) and bool(topic_id) and partition.isdecimal()
