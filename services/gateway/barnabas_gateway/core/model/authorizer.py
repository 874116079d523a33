"""Authorizer: which principal may do what with which resource, by the rules of Kafka's StandardAuthorizer.

A super user may do everything. Otherwise, of the ACLs whose pattern, principal and host match: one that denies the
operation wins; else one that allows it, or an operation that implies it, decides; else it is denied. A resource under
no ACL at all is denied too, unless `allow.everyone.if.no.acl.found`. While the ACLs are unknown only super users are
allowed anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol, TypeAlias

from barnabas.cluster.acls import (
    ANY_PRINCIPAL,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    Resource,
    ResourceType,
)
from barnabas.cluster.messages import UpdateMetadata
from barnabas.wire.headers import RequestHeader
from barnabas_gateway.core.model.acl_index import AclIndex
from barnabas_gateway.core.model.audit import Audit
from barnabas_gateway.core.model.config import AuthorizerConfig
from barnabas_gateway.core.model.request_context import Principal, RequestContext

DECISIONS_MAX: Final = 20_000
"""Decisions that a processor remembers until the next change of ACLs, about 400 bytes each; then it forgets all."""
REMEMBERED_NAME_MAX: Final = 256
"""Characters of a resource's name whose decision is remembered. Topics' names have at most 249."""

_ALLOWED_BY: Final[dict[Operation, frozenset[Operation]]] = {
    operation: frozenset({operation, Operation.ALL}) for operation in Operation
} | {
    Operation.DESCRIBE: frozenset(
        {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER, Operation.ALL}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.ALL}),
}
"""The operations in an ACL that allow each operation. What an ACL denies implies nothing."""

_SOME_RESOURCE: Final = "hardcode"
"""The name that stands for any resource in Kafka's `Authorizer.authorizeByResourceType`."""


_Question: TypeAlias = tuple[Principal, str, Operation, Resource | ResourceType]


class _Connection(Protocol):
    @property
    def context(self) -> RequestContext: ...


class AuthorizedRequest(Protocol):
    """The request that a decision is made for."""

    @property
    def connection(self) -> _Connection: ...

    @property
    def header(self) -> RequestHeader: ...


class Authorizer:
    __slots__ = ("_config", "_decisions", "acls", "audit", "has_acls", "is_enabled")

    def __init__(self, config: AuthorizerConfig, audit: Audit) -> None:
        self._config = config
        self.audit = audit
        self.is_enabled = config.is_enabled
        self.acls = AclIndex()
        self.has_acls = False
        """Whether all ACLs of the cluster are known."""
        self._decisions: dict[_Question, bool] = {}
        """By principal, host, operation and resource, or the type of any."""

    def metadata_updated(self, update: UpdateMetadata) -> None:
        """The image has applied this update."""
        is_changed = self.has_acls != update.knows_acls
        self.has_acls = update.knows_acls
        if update.full:
            is_changed |= self.acls.replace_all(update.acls)
        else:
            for acl in update.removed_acls:
                self.acls.remove(acl)
            for acl in update.acls:
                self.acls.add(acl)
            is_changed |= bool(update.acls or update.removed_acls)
        if is_changed:
            self._decisions.clear()

    def authorize(
        self, request: AuthorizedRequest, operation: Operation, resource: Resource, *, log_denied: bool = True
    ) -> bool:
        """Return whether the client may do that; `log_denied`: whether a denial is an attempt, to be recorded."""
        if not self.is_enabled:
            return True
        context = request.connection.context
        key = (context.principal, context.address, operation, resource)
        is_allowed = self._decisions.get(key)
        if is_allowed is None:
            is_allowed = self._decide(context, operation, resource)
            if len(resource[1]) <= REMEMBERED_NAME_MAX:
                self._remember(key, is_allowed)
        if not is_allowed and log_denied:
            self.audit.denied(context, request.header, operation, resource)
        return is_allowed

    def authorize_any(self, request: AuthorizedRequest, operation: Operation, resource_type: ResourceType) -> bool:
        """Return whether the client may do that with at least one resource of the type (KIP-679), whether or not there
        is one.
        """
        if self.authorize(request, operation, (resource_type, _SOME_RESOURCE), log_denied=False):
            return True
        context = request.connection.context
        key = (context.principal, context.address, operation, resource_type)
        is_allowed = self._decisions.get(key)
        if is_allowed is None:
            is_allowed = self._decide_any(context, operation, resource_type)
            self._remember(key, is_allowed)
        return is_allowed

    def authorized_operations(self, request: AuthorizedRequest, resource: Resource) -> int:
        """Return those that the client may do with the resource, as a set of bits by number (KIP-430)."""
        return sum(
            1 << operation
            for operation in SUPPORTED_OPERATIONS[resource[0]]
            if self.authorize(request, operation, resource, log_denied=False)
        )

    def describable_operations(self, request: AuthorizedRequest, resource: Resource) -> int:
        """As `authorized_operations`, and none if the client may not describe the resource."""
        may_describe = self.authorize(request, Operation.DESCRIBE, resource)
        return self.authorized_operations(request, resource) if may_describe else 0

    def _remember(self, key: _Question, is_allowed: bool) -> None:
        if len(self._decisions) >= DECISIONS_MAX:
            self._decisions.clear()
        self._decisions[key] = is_allowed

    def _decide_any(self, context: RequestContext, operation: Operation, resource_type: ResourceType) -> bool:
        """As `Authorizer.authorizeByResourceType` in Kafka: some pattern allows it that none which denies it covers."""
        if not self.has_acls:
            return False
        allowed: dict[int, set[str]] = {PatternType.LITERAL: set(), PatternType.PREFIXED: set()}
        denied: dict[int, set[str]] = {PatternType.LITERAL: set(), PatternType.PREFIXED: set()}
        for acl in self._matching_client(context, resource_type):
            if acl.operation in (operation, Operation.ALL):
                by_pattern = denied if acl.permission_type == PermissionType.DENY else allowed
                by_pattern[acl.pattern_type].add(acl.resource_name)
        if WILDCARD in denied[PatternType.LITERAL]:
            return False
        prefixes = denied[PatternType.PREFIXED]
        longest = max(map(len, prefixes), default=0)
        return any(
            not (pattern_type == PatternType.LITERAL and name in denied[PatternType.LITERAL])
            and (
                (pattern_type == PatternType.LITERAL and name == WILDCARD)
                or not any(name[:length] in prefixes for length in range(1, min(len(name), longest) + 1))
            )
            for pattern_type, names in allowed.items()
            for name in names
        )

    def _decide(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        principal, host = str(context.principal), context.address
        if principal in self._config.super_users:
            return True
        if not self.has_acls:
            return False
        is_found = is_allowed = False
        allowed_by = _ALLOWED_BY[operation]
        for entries in self.acls.matching(*resource):
            is_found = True
            for named in (principal, ANY_PRINCIPAL):
                for acl in entries.get(named, ()):
                    if acl.host not in (WILDCARD, host):
                        continue
                    if acl.permission_type == PermissionType.ALLOW:
                        is_allowed = is_allowed or acl.operation in allowed_by
                    elif acl.operation in (operation, Operation.ALL):
                        return False
        return is_allowed if is_found else self._config.allows_without_acls

    def _matching_client(self, context: RequestContext, resource_type: ResourceType) -> Iterator[Acl]:
        for principal in {str(context.principal), ANY_PRINCIPAL}:
            for acl in self.acls.of_principal(resource_type, principal):
                if acl.host in (WILDCARD, context.address):
                    yield acl
