"""AlterClientQuotas, API key 49, versions 0 to 1 (KIP-546, KIP-612).

- Sets and removes quotas; an entity is changed as a whole or not at all, and has one result. The answer is given when
  all gateways know the quotas. `validate_only` changes nothing.
- INVALID_REQUEST for an unknown entity type or key, an empty name, `ip` beside another type, a value that is not above
  0 or not of its key's type, and for what names an entity, or one of its keys, twice: of an entity that is named twice
  the first change is made, as in Kafka.
- A type of entity that one entry names twice counts as named last, since Kafka collects them in a map.

Deviations: the name of an `ip` entity is an address, never the name of a host; a value is a finite number. A request of
more than 100 changes is done in several parts. Of an entity of more types than there are, which is refused, the result
names the first four.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.cluster.acls import CLUSTER, Operation
from barnabas.cluster.quotas import entities as quotas
from barnabas.cluster.quotas.entities import (
    ENTITY_TYPES,
    KEYS,
    Entity,
    QuotaAlteration,
    QuotaChange,
    QuotaEntityPart,
    describe_entity,
    entity_of,
)
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    EntryResult,
)
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.model.error_messages import client_message
from barnabas_gateway.core.model.outputs import ControllerAnswer
from barnabas_gateway.core.requests.config_alterations import TIMEOUT_MS
from barnabas_gateway.core.requests.controller_request import ControllerHandler, PendingControllerRequest

_Query = tuple[QuotaAlteration, EntryResult]


class PendingAlterQuotas(PendingControllerRequest[_Query]):
    """A query is what is to be changed of one entity, and the place of its result."""

    __slots__ = ("results", "validate_only")

    def __init__(
        self, handler: ControllerHandler, connection: Connection, header: RequestHeader, frame_bytes: int
    ) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.validate_only = False
        self.results: dict[Entity, EntryResult] = {}

    def request_of(self, queries: Sequence[_Query], timeout_ms: int) -> quotas.AlterClientQuotasRequest:
        return quotas.AlterClientQuotasRequest(
            [alteration for alteration, _ in queries], timeout_ms, self.validate_only
        )

    def fill_results(self, queries: Sequence[_Query], answer: ControllerAnswer) -> int:
        assert isinstance(answer, quotas.AlterClientQuotasResponse)
        for (_, result), reported in zip(queries, answer.results, strict=False):
            if result.error_code != ErrorCode.INVALID_REQUEST:
                _set(result, reported.error_code, reported.error_message)
        return answer.revision

    def complete(self) -> None:
        self.handler.responder.respond(self, AlterClientQuotasResponse(entries=list(self.results.values())))


class AlterClientQuotasHandler(ControllerHandler):
    api_key = ApiKey.ALTER_CLIENT_QUOTAS
    request_class = PendingAlterQuotas

    def start(self, pending: PendingAlterQuotas, request: AlterClientQuotasRequest) -> Steps[None]:
        pending.validate_only = request.validate_only
        is_allowed = self.authorizer.authorize(pending, Operation.ALTER_CONFIGS, CLUSTER)
        for entry in request.entries:
            yield 1 + len(entry.entity)
            entity = yield from _entity_of(entry)
            first = pending.results.get(entity)
            result = EntryResult(entity=[EntityData(*part) for part in entity]) if first is None else first
            pending.results[entity] = result
            changes: list[QuotaChange] | None = None
            if is_allowed:
                changes = yield from _changes_of(entry)
            if not is_allowed:
                _set(result, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            elif first is not None or changes is None:
                _set(result, ErrorCode.INVALID_REQUEST, f"Ignoring duplicate entity {describe_entity(entity)}")
            else:
                _set(result, ErrorCode.REQUEST_TIMED_OUT)
                alteration = QuotaAlteration([QuotaEntityPart(*part) for part in entity], changes)
                pending.add_query((alteration, result), 1 + len(changes))
        pending.send_calls(TIMEOUT_MS)


def _entity_of(entry: EntryData) -> Steps[Entity]:
    """Return the entity of an entry. Of one with more types than there are only as many as show that: what is sent to
    the controller is one element to it.
    """
    names: dict[str, str | None] = {}
    for part in entry.entity:
        yield 1
        if part.entity_type in names or len(names) <= len(ENTITY_TYPES):
            names[part.entity_type] = part.entity_name
    return entity_of(names.items())


def _changes_of(entry: EntryData) -> Steps[list[QuotaChange] | None]:
    """Return the changes of an entry; None if it names a key twice. Of unknown keys only the first that is set counts,
    which refuses the entry: there is nothing to remove.
    """
    keys: set[str] = set()
    changes: list[QuotaChange] = []
    has_unknown = False
    for asked in entry.ops:
        yield 1
        if asked.key in keys:
            return None
        keys.add(asked.key)
        is_known = asked.key in KEYS
        if is_known or not (asked.remove or has_unknown):
            changes.append(QuotaChange(asked.key, asked.value, asked.remove))
            has_unknown = has_unknown or not is_known
    return changes


def _set(result: EntryResult, error_code: int, message: str = "") -> None:
    result.error_code, result.error_message = error_code, client_message(error_code, message)
