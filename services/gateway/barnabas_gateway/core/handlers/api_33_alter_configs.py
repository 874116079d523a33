"""AlterConfigs, API key 33, versions 0 to 2 (KIP-133).

- The given configs replace all configs that a topic, a broker or (with the empty name) all brokers had before; the
  controller decides, each resource as a whole. The answer waits until every live logstore and gateway has the change.
- A null value, a key twice or a resource twice is INVALID_REQUEST, and so are loggers, as in Kafka.
- No controller, or none that answers in 30 s: REQUEST_TIMED_OUT; the configs may still be changed.

Deviations: any broker's configs may be changed by any connection, since a gateway serves all of them. Client metrics
and groups are INVALID_REQUEST, and so are all configs that a broker can't change dynamically.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import alter_configs as wire
from barnabas.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResourceResponse
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.requests.config_alterations import (
    CONFIGS_LOOKED_AT,
    SET,
    AskedChange,
    AskedResource,
    PendingAlterConfigs,
)
from barnabas_gateway.core.requests.controller_request import ControllerHandler


class PendingFullAlterConfigs(PendingAlterConfigs):
    __slots__ = ("response",)

    def __init__(
        self, handler: ControllerHandler, connection: Connection, header: RequestHeader, frame_bytes: int
    ) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.response: wire.AlterConfigsResponse = wire.AlterConfigsResponse()

    def complete(self) -> None:
        self.handler.responder.respond(self, self.response)


class AlterConfigsHandler(ControllerHandler):
    api_key = ApiKey.ALTER_CONFIGS
    request_class = PendingFullAlterConfigs

    def start(self, pending: PendingFullAlterConfigs, request: AlterConfigsRequest) -> Steps[None]:
        asked = []
        for resource in request.resources:
            outcome = AlterConfigsResourceResponse(
                resource_type=resource.resource_type, resource_name=resource.resource_name
            )
            pending.response.responses.append(outcome)
            changes = [AskedChange(config.name, SET, config.value) for config in resource.configs[:CONFIGS_LOOKED_AT]]
            asked.append(AskedResource(resource.resource_type, resource.resource_name, changes, outcome))
            yield 1 + len(changes)
        yield from pending.ask_controller(asked, replace=True, validate_only=request.validate_only)
