"""IncrementalAlterConfigs, API key 44, versions 0 to 1 (KIP-339).

- SET, DELETE, and for lists APPEND and SUBTRACT, of the configs of a topic, a broker or (with the empty name) all
  brokers; what is not named stays. The controller decides, each resource as a whole, one request after the other:
  changes of two clients never undo each other. The answer waits until every live logstore and gateway has the change.
- A null value except for DELETE, a key twice or a resource twice is INVALID_REQUEST.
- No controller, or none that answers in 30 s: REQUEST_TIMED_OUT; the configs may still be changed.

Deviations: any broker's configs may be changed by any connection, since a gateway serves all of them. Broker loggers,
client metrics and groups are INVALID_REQUEST, and so are all configs that a broker can't change dynamically.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import incremental_alter_configs as wire
from barnabas.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.requests.config_alterations import (
    CONFIGS_LOOKED_AT,
    AskedChange,
    AskedResource,
    PendingAlterConfigs,
)
from barnabas_gateway.core.requests.controller_request import ControllerHandler


class PendingIncrementalAlterConfigs(PendingAlterConfigs):
    __slots__ = ("response",)

    def __init__(
        self, handler: ControllerHandler, connection: Connection, header: RequestHeader, frame_bytes: int
    ) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.response: wire.IncrementalAlterConfigsResponse = wire.IncrementalAlterConfigsResponse()

    def complete(self) -> None:
        self.handler.responder.respond(self, self.response)


class IncrementalAlterConfigsHandler(ControllerHandler):
    api_key = ApiKey.INCREMENTAL_ALTER_CONFIGS
    request_class = PendingIncrementalAlterConfigs

    def start(self, pending: PendingIncrementalAlterConfigs, request: IncrementalAlterConfigsRequest) -> Steps[None]:
        asked = []
        for resource in request.resources:
            outcome = AlterConfigsResourceResponse(
                resource_type=resource.resource_type, resource_name=resource.resource_name
            )
            pending.response.responses.append(outcome)
            changes = [
                AskedChange(config.name, config.config_operation, config.value)
                for config in resource.configs[:CONFIGS_LOOKED_AT]
            ]
            asked.append(AskedResource(resource.resource_type, resource.resource_name, changes, outcome))
            yield 1 + len(changes)
        yield from pending.ask_controller(asked, replace=False, validate_only=request.validate_only)
