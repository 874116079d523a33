"""FindCoordinator, API key 10, versions 0 to 6.

- Every well-formed key is COORDINATOR_NOT_AVAILABLE, with node −1, no host and port −1: Kafka's answer while a
  coordinator's topic is not there, which clients retry.
- An unknown key type is INVALID_REQUEST; so are a share key before v6 and a malformed share key
  (`group:topic id:partition`).

Deviations: there are no coordinators yet.
"""

from __future__ import annotations

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.find_coordinator import (
    Coordinator,
    CoordinatorType,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from services.gateway.core.authorization import Operation, ResourceType, authorize
from services.gateway.core.slots import Slot

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


def start(slot: Slot, request: FindCoordinatorRequest) -> None:
    version = slot.header.api_version
    if version >= _VERSION_WITH_BATCHES:
        coordinators = []
        for key in request.coordinator_keys:
            error = _error(slot, key, request.key_type)
            coordinators.append(Coordinator(key, -1, "", -1, error, error.message))
        response = FindCoordinatorResponse(coordinators=coordinators)
    else:
        error = _error(slot, request.key, request.key_type)
        response = FindCoordinatorResponse(error_code=error, error_message=error.message, node_id=-1, host="", port=-1)
    slot.connection.processor.requests.respond(slot, response)


def _error(slot: Slot, key: str, key_type: int) -> ErrorCode:
    resource_type = _RESOURCES.get(key_type)
    if resource_type is None:
        return ErrorCode.INVALID_REQUEST
    if key_type == CoordinatorType.SHARE and (slot.header.api_version < _VERSION_WITH_SHARE or not _is_share_key(key)):
        return ErrorCode.INVALID_REQUEST
    if not authorize(slot.connection.context, Operation.DESCRIBE, (resource_type, key)):
        return _DENIED[resource_type]
    return ErrorCode.COORDINATOR_NOT_AVAILABLE


def _is_share_key(key: str) -> bool:
    group, _, rest = key.partition(":")
    topic_id, _, partition = rest.partition(":")
    return bool(group) and bool(topic_id) and partition.isdecimal()
