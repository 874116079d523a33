"""Kafka's ConfigResource types: the ACL resource of each, and those that are not supported."""

from __future__ import annotations

from typing import Final

from barnabas.cluster.acls import CLUSTER, Resource, ResourceType
from barnabas.wire.errors import ErrorCode

TOPIC: Final = 2
BROKER: Final = 4
BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32

_NODE_ID_DIGITS: Final = 10

NOT_SERVED: Final[dict[int, str]] = {
    CLIENT_METRICS: "Client metrics are not supported.",
    GROUP: "Configs of groups are not supported.",
}
"""The error message for a client, by type."""


def node_id_of(resource_name: str) -> int | None:
    """Return the node id of a broker, or of a broker's loggers; None: the name is not a number."""
    is_number = resource_name.isascii() and resource_name.isdecimal() and len(resource_name) <= _NODE_ID_DIGITS
    return int(resource_name) if is_number else None


def acl_resource(resource_type: int, resource_name: str) -> Resource | None:
    """Return the resource on which a principal needs a right to see or change these configs; None: unknown type."""
    match resource_type:
        case 2:
            return ResourceType.TOPIC, resource_name
        case 4 | 8 | 16:
            return CLUSTER
        case 32:
            return ResourceType.GROUP, resource_name
        case _:
            return None


def authorization_error(resource_type: int) -> ErrorCode:
    """Return the error for a principal without that right."""
    if resource_type == TOPIC:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if resource_type == GROUP:
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
