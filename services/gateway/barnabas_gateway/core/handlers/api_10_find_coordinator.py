"""FindCoordinator, API key 10, versions 0 to 6.

- For a group: the leader of its partition of `__consumer_offsets`, at the address advertised on this listener. The
  first request of a cluster creates that topic; until it exists and has a leader COORDINATOR_NOT_AVAILABLE, with node
  −1, no host and port −1, which clients retry. Clients need not connect there: any connection serves group requests.
- For a transactional id the same, by `__transaction_state`.
- For a share group, by a well-formed key: COORDINATOR_NOT_AVAILABLE.
- An unknown key type is INVALID_REQUEST; so are a share key before v6 and a malformed share key (`group:topic
  id:partition`).

Deviations: there are no coordinators of share groups yet.
"""

from __future__ import annotations

from barnabas.cluster.acls import CLUSTER, Operation, ResourceType
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
from barnabas_gateway.core.requests.handler import Handler, RequestEnvironment

_VERSION_WITH_BATCHES = 4
_VERSION_WITH_SHARE = 6
_RESOURCES = {
    int(CoordinatorType.GROUP): ResourceType.GROUP,
    int(CoordinatorType.TRANSACTION): ResourceType.TRANSACTIONAL_ID,
}
_DENIED = {
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


class FindCoordinatorHandler(Handler):
    api_key = ApiKey.FIND_COORDINATOR

    def __init__(
        self, environment: RequestEnvironment, group_routing: GroupRouting, transaction_routing: GroupRouting
    ) -> None:
        super().__init__(environment)
        self._routing = {
            int(CoordinatorType.GROUP): group_routing,
            int(CoordinatorType.TRANSACTION): transaction_routing,
        }

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
            coordinator = self._routing[key_type].coordinator_of(key)
            address = coordinator and self.cluster.address_of(coordinator.node_id, pending.connection.context)
            if address is not None:
                return Coordinator(key, address.node_id, address.host, address.port)
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return Coordinator(key, -1, "", -1, error, error.message)


def _error(pending: PendingRequest, key: str, key_type: int) -> ErrorCode:
    """Return why the request is refused; nothing for a group or a transactional id."""
    if key_type == CoordinatorType.SHARE:
        return _share_error(pending, key)
    resource_type = _RESOURCES.get(key_type)
    if resource_type is None:
        return ErrorCode.INVALID_REQUEST
    if not pending.handler.authorizer.authorize(pending, Operation.DESCRIBE, (resource_type, key)):
        return _DENIED[resource_type]
    return ErrorCode.NONE


def _share_error(pending: PendingRequest, key: str) -> ErrorCode:
    if pending.header.api_version < _VERSION_WITH_SHARE:
        return ErrorCode.INVALID_REQUEST
    if not pending.handler.authorizer.authorize(pending, Operation.CLUSTER_ACTION, CLUSTER):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if _is_share_key(key) else ErrorCode.INVALID_REQUEST


def _is_share_key(key: str) -> bool:
    group, _, rest = key.partition(":")
    topic_id, _, partition = rest.partition(":")
    return bool(group) and bool(topic_id) and partition.isdecimal()
