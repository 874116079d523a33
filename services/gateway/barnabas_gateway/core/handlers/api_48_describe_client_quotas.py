"""DescribeClientQuotas, API key 48, versions 0 to 1 (KIP-546, KIP-612).

- No entity has a quota: none can be set, since AlterClientQuotas is not supported.
- A filter that Kafka refuses is refused: an entity type that is empty or repeated, `ip` beside another one, a name
  that is missing or too many and unknown match types are INVALID_REQUEST; an unknown entity type is
  UNSUPPORTED_VERSION.

Deviations: none known.
"""

from __future__ import annotations

from typing import Final

from barnabas.cluster.acls import CLUSTER, Operation
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from barnabas_gateway.core.connections.connection import PendingRequest
from barnabas_gateway.core.requests.handler import Handler

_EXACT: Final = 0
_MATCH_TYPE_MAX: Final = 2
_COMPONENTS_MAX: Final = 4
"""One of these has a type that is unknown or repeated."""
_ENTITY_TYPES: Final = ("user", "client-id", "ip")


class DescribeClientQuotasHandler(Handler):
    api_key = ApiKey.DESCRIBE_CLIENT_QUOTAS

    def start(self, pending: PendingRequest, request: DescribeClientQuotasRequest) -> None:
        error = _refusal(request.components[:_COMPONENTS_MAX])
        if not self.authorizer.authorize(pending, Operation.DESCRIBE_CONFIGS, CLUSTER):
            error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        response = DescribeClientQuotasResponse()
        if error is not None:
            response = DescribeClientQuotasResponse(error_code=error, error_message=error.message, entries=None)
        self.responder.respond(pending, response)


def _refusal(components: list[ComponentData]) -> ErrorCode | None:
    """Check in the order of Kafka's own checks."""
    seen: set[str] = set()
    for each in components:
        if not each.entity_type or each.entity_type in seen:
            return ErrorCode.INVALID_REQUEST
        if each.entity_type not in _ENTITY_TYPES:
            return ErrorCode.UNSUPPORTED_VERSION
        has_name = each.match is not None
        if not 0 <= each.match_type <= _MATCH_TYPE_MAX or has_name != (each.match_type == _EXACT):
            return ErrorCode.INVALID_REQUEST
        seen.add(each.entity_type)
    return ErrorCode.INVALID_REQUEST if "ip" in seen and len(seen) > 1 else None
