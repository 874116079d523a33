"""ACLs as Kafka has them (KIP-11, KIP-290): what an entry says, what a filter matches, which entries are valid.

Numbers and names are those of Kafka's `ResourceType`, `PatternType`, `AclOperation` and `AclPermissionType`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, TypeAlias

import msgspec

WILDCARD: Final = "*"
"""As the name of a literal pattern: every resource of the type. As a host: every host."""
ANY_PRINCIPAL: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
NAME_BYTES_MAX: Final = 0x7FFF
"""Of a name, a principal or a host: what a string of the protocol may have in its oldest version."""


class ResourceType(IntEnum):
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Operation(IntEnum):
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class PatternType(IntEnum):
    LITERAL = 3
    PREFIXED = 4


class PermissionType(IntEnum):
    DENY = 2
    ALLOW = 3


UNKNOWN: Final = 0
ANY: Final = 1
"""In a filter: every value."""
MATCH: Final = 2
"""In a filter, as the pattern type: every pattern that a resource of the given name falls under."""

Resource: TypeAlias = tuple[ResourceType, str]
"""A type and a name; a plain tuple, since one is created for every topic of every request."""

CLUSTER: Final[Resource] = (ResourceType.CLUSTER, CLUSTER_NAME)

SUPPORTED_OPERATIONS: Final[dict[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""The operations that are reported as authorized (Kafka's `AclEntry.supportedOperations`)."""


class Acl(msgspec.Struct, frozen=True, order=True):
    """One access control entry on one pattern (Kafka's `AclBinding`); it is identified by its content."""

    resource_type: int
    pattern_type: int
    resource_name: str
    principal: str
    host: str
    operation: int
    permission_type: int


class AclFilter(msgspec.Struct, frozen=True):
    """Which ACLs are meant (Kafka's `AclBindingFilter`); None and ANY: all."""

    resource_type: int = ANY
    pattern_type: int = ANY
    resource_name: str | None = None
    principal: str | None = None
    host: str | None = None
    operation: int = ANY
    permission_type: int = ANY

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource_type in (ANY, acl.resource_type)
            and self.pattern_type in (ANY, MATCH, acl.pattern_type)
            and self._matches_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (ANY, acl.operation)
            and self.permission_type in (ANY, acl.permission_type)
        )

    def _matches_name(self, acl: Acl) -> bool:
        name = self.resource_name
        if name is None or name == acl.resource_name:
            return True
        if self.pattern_type != MATCH:
            return False
        if acl.pattern_type == PatternType.PREFIXED:
            return name.startswith(acl.resource_name)
        return acl.resource_name == WILDCARD


def filter_problem(asked: AclFilter) -> str:
    """Return why a filter is invalid; empty if it is valid. Messages as in Kafka's `AclControlManager`."""
    if not (asked.resource_type == ANY or asked.resource_type in _RESOURCE_TYPES) or not (
        asked.pattern_type in (ANY, MATCH) or asked.pattern_type in _PATTERN_TYPES
    ):
        return "Unknown patternFilter."
    if not (asked.operation == ANY or asked.operation in _OPERATIONS) or not (
        asked.permission_type == ANY or asked.permission_type in _PERMISSION_TYPES
    ):
        return "Unknown entryFilter."
    return ""


def acl_problem(acl: Acl) -> str:
    """Return why an ACL cannot be created; empty if it can. Messages as in Kafka's `AclApis` and `AclControlManager`.

    In addition to Kafka's rules, a text is no longer than the protocol's oldest string, and a principal has a type: to
    Kafka's StandardAuthorizer an ACL without one is an error at every request that comes upon it.
    """
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not acl.resource_name:
        return "Invalid empty resource name"
    if acl.resource_type not in _RESOURCE_TYPES:
        return f"Invalid resourceType {_name_of(acl.resource_type)}"
    if acl.pattern_type not in _PATTERN_TYPES:
        name = "MATCH" if acl.pattern_type == MATCH else _name_of(acl.pattern_type)
        return f"Invalid patternType {name}"
    if acl.operation not in _OPERATIONS:
        return f"Invalid operation {_name_of(acl.operation)}"
    if acl.permission_type not in _PERMISSION_TYPES:
        return f"Invalid permissionType {_name_of(acl.permission_type)}"
    if ":" not in acl.principal:
        return f"Could not parse principal from `{acl.principal[:100]}`: it has no type, such as User:"
    for text in (acl.resource_name, acl.principal, acl.host):
        if len(text.encode(errors="surrogatepass")) > NAME_BYTES_MAX:
            return f"A name, a principal or a host has no more than {NAME_BYTES_MAX} bytes"
    return ""


_RESOURCE_TYPES = frozenset(map(int, ResourceType))
_PATTERN_TYPES = frozenset(map(int, PatternType))
_OPERATIONS = frozenset(map(int, Operation))
_PERMISSION_TYPES = frozenset(map(int, PermissionType))


def _name_of(code: int) -> str:
    return "ANY" if code == ANY else "UNKNOWN"


def describe_acl(acl: Acl) -> str:
    """Return one line for logs and messages: "ALLOW READ on TOPIC PREFIXED team- to User:alice from *"."""
    return (
        f"{PermissionType(acl.permission_type).name} {Operation(acl.operation).name} "
        f"on {ResourceType(acl.resource_type).name} {PatternType(acl.pattern_type).name} {acl.resource_name} "
        f"to {acl.principal} from {acl.host}"
    )
