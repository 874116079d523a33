"""DescribeClientQuotas, API key 48, versions 0 to 1 (KIP-546, KIP-612).

- Describes the entities that match all components of the filter: by name, as the default, or as any of its type;
  `strict` leaves out those that have another type besides. No components, and not strict: all entities.
- A filter that Kafka refuses is refused: an entity type that is empty or repeated, `ip` beside another one, a name
  that is missing or too many and unknown match types are INVALID_REQUEST; an unknown entity type is
  UNSUPPORTED_VERSION.

Deviations: none known.
"""

from __future__ import annotations

from typing import Final

from barnabas.cluster.acls import CLUSTER, Operation
from barnabas.cluster.quotas.entities import CLIENT_ID, ENTITY_TYPES, IP, USER
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.connections.connection import PendingRequest
from barnabas_gateway.core.requests.handler import Handler

_COMPONENTS_MAX: Final = 4
"""One of these has a type that is unknown or repeated."""


class _Refused(Exception):  # noqa: N818 - it names what happened
    """The filter is one that Kafka refuses."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


class DescribeClientQuotasHandler(Handler):
    api_key = ApiKey.DESCRIBE_CLIENT_QUOTAS

    def start(self, pending: PendingRequest, request: DescribeClientQuotasRequest) -> Steps[None]:
        response = DescribeClientQuotasResponse(entries=[])
        try:
            if not self.authorizer.authorize(pending, Operation.DESCRIBE_CONFIGS, CLUSTER):
                error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                raise _Refused(error, error.message)
            exact, specified = _parse_filter(request.components[:_COMPONENTS_MAX])
        except _Refused as refused:
            response = DescribeClientQuotasResponse(
                error_code=refused.error, error_message=refused.message, entries=None
            )
            self.responder.respond(pending, response)
            return
        entries = []
        for entity, quotas in list(self.image.client_quotas.items()):
            yield 1
            names = dict(entity)
            if request.strict and len(names) != len(exact) + len(specified):
                continue
            if names.keys() >= specified and names.items() >= exact.items():
                values = [ValueData(key, value) for key, value in quotas.items()]
                entries.append(EntryData([EntityData(*part) for part in entity], values))
        response.entries = entries
        self.responder.respond(pending, response)


def _parse_filter(components: list[ComponentData]) -> tuple[dict[str, str | None], set[str]]:
    """Return the names that are asked for, by type, and the types of which any is. Checks, and messages, are in the
    order of Kafka's `ClientQuotasImage.describe`.

    Raises _Refused.
    """
    exact: dict[str, str | None] = {}
    specified: set[str] = set()
    for each in components:
        kind, name = each.entity_type, each.match
        if not kind:
            raise _Refused(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in exact or kind in specified:
            raise _Refused(ErrorCode.INVALID_REQUEST, f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in ENTITY_TYPES:
            raise _Refused(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        match each.match_type:
            case 0 if name is None:
                refused = "Request specified MATCH_TYPE_EXACT, but set match string to null."
                raise _Refused(ErrorCode.INVALID_REQUEST, refused)
            case 1 if name is not None:
                refused = "Request specified MATCH_TYPE_DEFAULT, but also specified a match string."
                raise _Refused(ErrorCode.INVALID_REQUEST, refused)
            case 2 if name is not None:
                refused = "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."
                raise _Refused(ErrorCode.INVALID_REQUEST, refused)
            case 0 | 1:
                exact[kind] = name
            case 2:
                specified.add(kind)
            case _:
                raise _Refused(ErrorCode.INVALID_REQUEST, f"Unknown match type {each.match_type}")
    asked = exact.keys() | specified
    if IP in asked and asked & {USER, CLIENT_ID}:
        raise _Refused(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component.",
        )
    return exact, specified
