"""What has configs: Kafka's ConfigResource types, whose they are by ACLs, and which are not served."""

from __future__ import annotations

from typing import Final

from barnabas.wire.errors import ErrorCode
from barnabas_gateway.core.model.authorization import CLUSTER, Resource, ResourceType

TOPIC: Final = 2
BROKER: Final = 4
BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32

NOT_SERVED: Final[dict[int, str]] = {
    BROKER_LOGGER: "Loggers have no levels of their own: log.level is a whole service's.",
    CLIENT_METRICS: "Client metrics are not served.",
    GROUP: "Groups are not served.",
}
"""By type: what a client is told."""


def acl_resource(resource_type: int, resource_name: str) -> Resource | None:
    """What a principal needs a right to, to see or change these configs; None: there is no such type."""
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
    """The error for who has no such right."""
    if resource_type == TOPIC:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if resource_type == GROUP:
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
