"""Client quotas as Kafka has them (KIP-13, KIP-55, KIP-124, KIP-257, KIP-599, KIP-612): entities, keys, what is valid.

An entity is a user, a client id, both, or an address; a name of None stands for all that have no quota of their own
(`ClientQuotaEntity`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import IPv6Address, ip_address
from typing import Any, Final, TypeAlias

import msgspec

from barnabas.cluster.json_values import UnreadableValue, dump_object

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = (USER, CLIENT_ID, IP)

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

Entity: TypeAlias = tuple[tuple[str, str | None], ...]
"""(type, name), by type. It identifies a quota."""


class _ValueType(Enum):
    """The types of Kafka's `ConfigDef`, with the largest value of those that are whole numbers."""

    INT = 0x7FFF_FFFF
    LONG = 0x7FFF_FFFF_FFFF_FFFF
    DOUBLE = 0


_USER_AND_CLIENT_KEYS: Final[dict[str, _ValueType]] = {
    PRODUCER_BYTE_RATE: _ValueType.LONG,
    CONSUMER_BYTE_RATE: _ValueType.LONG,
    REQUEST_PERCENTAGE: _ValueType.DOUBLE,
    CONTROLLER_MUTATION_RATE: _ValueType.DOUBLE,
}
_IP_KEYS: Final[dict[str, _ValueType]] = {CONNECTION_CREATION_RATE: _ValueType.INT}
KEYS: Final = frozenset((*_USER_AND_CLIENT_KEYS, *_IP_KEYS))
_FRACTION: Final = 1e-6
"""What a whole number may differ from one (`ClientQuotaControlManager`)."""


@dataclass(slots=True, frozen=True)
class QuotaEntityPart:
    entity_type: str
    entity_name: str | None = None


@dataclass(slots=True, frozen=True)
class QuotaValue:
    key: str
    value: float


@dataclass(slots=True, frozen=True)
class ClientQuota:
    """All quotas of one entity: what etcd has, and what gateways are sent. Without quotas: the entity has none."""

    entity: list[QuotaEntityPart]
    quotas: list[QuotaValue] = field(default_factory=list)

    def of(self) -> Entity:
        return entity_of((part.entity_type, part.entity_name) for part in self.entity)

    def values(self) -> dict[str, float]:
        return {each.key: each.value for each in self.quotas}

    def to_json(self) -> dict[str, Any]:
        """Return the record's fields in etcd."""
        return {"entity": dict(self.of()), "quotas": self.values()}


@dataclass(slots=True, frozen=True)
class QuotaChange:
    key: str
    value: float
    remove: bool = False


@dataclass(slots=True, frozen=True)
class QuotaAlteration:
    """Changes of one entity: all of them or none."""

    entity: list[QuotaEntityPart]
    changes: list[QuotaChange] = field(default_factory=list)


@dataclass(slots=True, frozen=True)
class AlterClientQuotasRequest:
    alterations: list[QuotaAlteration]
    timeout_ms: int
    validate_only: bool = False


@dataclass(slots=True, frozen=True)
class QuotaAlterationResult:
    error_code: int
    error_message: str = ""


@dataclass(slots=True, frozen=True)
class AlterClientQuotasResponse:
    results: list[QuotaAlterationResult]
    revision: int


def entity_of(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """Return the entity of these (type, name); of a type that is named twice the last counts, as in Kafka's map."""
    return tuple(sorted(dict(parts).items()))


def client_quota(entity: Entity, quotas: Mapping[str, float]) -> ClientQuota:
    return ClientQuota(
        [QuotaEntityPart(*part) for part in entity], [QuotaValue(key, value) for key, value in sorted(quotas.items())]
    )


def client_quota_from_json(values: dict[str, Any]) -> ClientQuota:
    """Raises UnreadableValue, or an error of a value that has another type."""
    entity = entity_of(msgspec.convert(values["entity"], dict[str, str | None]).items())
    quotas = msgspec.convert(values["quotas"], dict[str, float])
    problem = entity_problem(entity)
    for key, value in quotas.items():
        problem = problem or quota_problem(entity, key, value)
    if problem or not quotas:
        raise UnreadableValue(problem or "it has no quotas")
    return client_quota(entity, quotas)


def digest_of(entity: Entity) -> str:
    """Return the name of its key in etcd: names of users and client ids may have any characters, and any length."""
    return hashlib.sha256(dump_object({"entity": dict(entity)})).hexdigest()[:32]


def describe_entity(entity: Entity) -> str:
    """Return it as Kafka's `ClientQuotaEntity.toString`, for messages."""
    entries = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{entries}}})"


def entity_problem(entity: Entity) -> str:
    """Return why there can be no quota of an entity; empty if there can. Messages as in Kafka's
    `ClientQuotaControlManager`.

    Names of hosts are not resolved: an address is an address.
    """
    if not entity:
        return "Invalid empty client quota entity"
    for kind, name in entity:
        if kind not in ENTITY_TYPES:
            return f"Unhandled client quota entity type: {kind}"
        if name == "":
            return f"Empty {kind} not supported"
    names = dict(entity)
    if IP not in names:
        return ""
    if len(names) > 1:
        return "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
    address = names[IP]
    if address is not None and canonical_address(address) is None:
        return f"{address} is not a valid IP or resolvable host."
    return ""


def quota_problem(entity: Entity, key: str, value: float) -> str:
    """Return why a valid entity can't have this quota; empty if it can. Messages as in Kafka's
    `ClientQuotaControlManager`.

    In addition to Kafka's rules the value is a finite number.
    """
    value_type = (_IP_KEYS if entity[0][0] == IP else _USER_AND_CLIENT_KEYS).get(key)
    if value_type is None:
        return f"Invalid configuration key {key}"
    if value <= 0 or math.isnan(value):
        return f"Quota {key} must be greater than 0"
    if value_type is _ValueType.DOUBLE:
        return "" if math.isfinite(value) else f"Quota {key} must be a finite number"
    # As doubles, as Java compares them: 2⁶³ is not larger than the largest LONG.
    if value > float(value_type.value):
        return f"Proposed value for {key} is too large for {'an INT' if value_type is _ValueType.INT else 'a LONG'}."
    return f"{key} cannot be a fractional value." if abs(value % 1.0) > _FRACTION else ""


def canonical_address(text: str) -> str | None:
    """Return an address as Java writes it (`InetAddress.getHostAddress`); None if it is none."""
    host, percent, zone = text.strip("[]").partition("%")
    try:
        parsed = ip_address(host)
    except ValueError:
        return None
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return ":".join(f"{int(group, 16):x}" for group in parsed.exploded.split(":")) + percent + zone
