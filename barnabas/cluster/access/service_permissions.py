"""Which service may call which gRPC method of which other service: the one table that decides it under mutual TLS.

A certificate has the role of its service (`barnabas.runtime.inter_service`). What the table does not name is refused,
whatever the certificate. The operators' API is not in it: it has a port and rules of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import quote

from barnabas.cluster.controller_calls.table import CONTROLLER_CALLS
from barnabas.cluster.keys import Role

DEFAULT_DOMAIN: Final = "barnabas.internal"
"""Of `inter.service.tls.domain`: what follows the role in a certificate's name."""
_MEMBERSHIP: Final = "/barnabas.controller.v1.Membership/"
_ADMINISTRATION: Final = "/barnabas.logstore.v1.Administration/"

_GATEWAY: Final = frozenset({Role.GATEWAY})
_LOGSTORE: Final = frozenset({Role.LOGSTORE})
_PURGATORY: Final = frozenset({Role.PURGATORY})
_CONTROLLER: Final = frozenset({Role.CONTROLLER})

CALLERS_BY_METHOD: Final[Mapping[str, frozenset[Role]]] = {
    **{_MEMBERSHIP + method.name: method.callers for method in CONTROLLER_CALLS},
    _MEMBERSHIP + "Subscribe": _GATEWAY | _PURGATORY,
    _MEMBERSHIP + "ReportHealth": _GATEWAY | _LOGSTORE | _PURGATORY,
    _MEMBERSHIP + "RecordOperatorCalls": _CONTROLLER,
    _ADMINISTRATION + "EndOffsets": _GATEWAY | _CONTROLLER,
    _ADMINISTRATION + "DeleteRecords": _GATEWAY,
    _ADMINISTRATION + "DescribeProducers": _GATEWAY,
    _ADMINISTRATION + "DescribeLogDirs": _GATEWAY | _CONTROLLER,
    _ADMINISTRATION + "AlterBrokerLoggers": _GATEWAY,
    _ADMINISTRATION + "AlterReplicaLogDirs": _GATEWAY,
    _ADMINISTRATION + "DescribeConfigs": _GATEWAY | _CONTROLLER,
    "/barnabas.logstore.v1.ControlChannel/Control": _CONTROLLER,
    "/barnabas.logstore.v1.Coordination/Coordinate": _GATEWAY | _LOGSTORE | _CONTROLLER,
    "/barnabas.logstore.v1.DataChannel/Exchange": _GATEWAY,
    "/barnabas.logstore.v1.DataChannel/Read": _GATEWAY,
    "/barnabas.logstore.v1.PartitionWatch/Watch": _PURGATORY,
    "/barnabas.logstore.v1.Replication/Replicate": _LOGSTORE,
    "/barnabas.purgatory.v1.Purgatory/Park": _GATEWAY,
}
"""The roles that may call each method, by its whole path."""

HEALTH_METHODS: Final = frozenset(f"/grpc.health.v1.Health/{method}" for method in ("Check", "List", "Watch"))
"""Open to every caller: a probe has no certificate, and learns only whether the service is well."""

_ROLE_BY_PACKAGE: Final = {f"barnabas.{role.value}.v1": role for role in Role}


def may_call(roles: Collection[Role], method: str) -> bool:
    """Return whether a caller with these roles may call the method of that path."""
    return method in HEALTH_METHODS or not CALLERS_BY_METHOD.get(method, frozenset()).isdisjoint(roles)


def member_uri(domain: str, role: Role, member_id: str) -> str:
    """Return the URI that names a member in its certificate."""
    return f"spiffe://{domain}/{role.value}/{quote(member_id, safe='')}"


def role_that_serves(method: str) -> Role | None:
    """Return the role whose service has the method of that path; None if it is none of Barnabas' own."""
    package = method.strip("/").partition("/")[0].rpartition(".")[0]
    return _ROLE_BY_PACKAGE.get(package)
