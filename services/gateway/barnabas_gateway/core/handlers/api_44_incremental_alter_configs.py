"""IncrementalAlterConfigs, API key 44, versions 0 to 1 (KIP-339).

- SET, DELETE, and for lists APPEND and SUBTRACT, of the configs of a topic, a broker or (with the empty name) all
  brokers; what is not named stays. The controller decides, each resource as a whole, one request after the other:
  changes of two clients never undo each other. The answer waits until every live logstore and gateway has the change.
- SET and DELETE of the levels of a broker's loggers (KIP-412), until its process ends. The logstore with this id
  decides, each resource as a whole; as in Kafka, before the other resources of the request.
- A null value except for DELETE, a key twice or a resource twice is INVALID_REQUEST.
- No controller, or none that answers in 30 s: REQUEST_TIMED_OUT; the configs may still be changed. The same for a
  logstore that does not answer in 5 s, or that is not connected.

Deviations: any broker's configs may be changed by any connection, since a gateway serves all of them. Client metrics
and groups are INVALID_REQUEST, and so are all configs that a broker can't change dynamically.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from barnabas.cluster.administration import (
    AdministrationResponse,
    AlterBrokerLoggersRequest,
    AlterBrokerLoggersResponse,
    LoggerChange,
)
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import incremental_alter_configs as wire
from barnabas.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.backends.controller_client import ControllerClient
from barnabas_gateway.core.backends.logstore_admin_client import LogstoreAdminClient
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.model.config_resources import BROKER_LOGGER, node_id_of
from barnabas_gateway.core.model.outputs import LogstoreCall
from barnabas_gateway.core.requests.config_alterations import (
    CONFIGS_LOOKED_AT,
    TIMEOUT_MS,
    AskedChange,
    AskedResource,
    Outcome,
    PendingAlterConfigs,
    fill_outcome,
)
from barnabas_gateway.core.requests.controller_request import ControllerHandler
from barnabas_gateway.core.requests.handler import RequestEnvironment

_LOGSTORE_WAIT_MS: Final = 5_000
_LOGGERS_MAX: Final = 500
"""Loggers of one resource: each takes a logstore's event loop about 10 µs to read. There are some dozens."""


class PendingIncrementalAlterConfigs(PendingAlterConfigs):
    """The brokers change their loggers first; when all have answered, the controller is called."""

    __slots__ = ("_logger_calls", "_logger_changes", "response")

    def __init__(
        self, handler: ControllerHandler, connection: Connection, header: RequestHeader, frame_bytes: int
    ) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.response: wire.IncrementalAlterConfigsResponse = wire.IncrementalAlterConfigsResponse()
        self._logger_changes: list[tuple[AlterBrokerLoggersRequest, Outcome]] = []
        """Not sent yet."""
        self._logger_calls: dict[int, tuple[LogstoreCall, AlterBrokerLoggersRequest, Outcome]] = {}
        """Unanswered calls, by call id."""

    def ask(self, resources: Sequence[AskedResource], *, validate_only: bool) -> Steps[None]:
        """Refuse what can be refused here, and have the brokers and the controller decide the rest."""
        loggers = [each for each in resources if each.resource_type == BROKER_LOGGER]
        times_named = Counter(each.resource_name for each in loggers)
        for each in loggers:
            error, message = self.refusal(each, times_named[each.resource_name])
            node_id = node_id_of(each.resource_name)
            if not error:
                error, message = self._logger_refusal(each, node_id)
            if error or node_id is None:
                fill_outcome(each.outcome, error, message)
            else:
                fill_outcome(each.outcome, ErrorCode.REQUEST_TIMED_OUT, "")
                changes = [LoggerChange(change.name, change.operation, change.value or "") for change in each.changes]
                request = AlterBrokerLoggersRequest(node_id, changes, validate_only)
                self._logger_changes.append((request, each.outcome))
            yield 1 + len(each.changes)
        others = [each for each in resources if each.resource_type != BROKER_LOGGER]
        yield from self.ask_controller(others, replace=False, validate_only=validate_only)

    def _logger_refusal(self, asked: AskedResource, node_id: int | None) -> tuple[ErrorCode, str]:
        name = asked.resource_name[:100]
        if node_id is None:
            return ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}"
        brokers = self.handler.image.brokers
        if node_id not in brokers:
            live = ", ".join(map(str, brokers))
            return ErrorCode.INVALID_REQUEST, f"Unexpected node id. Expected one of {live}, but received {name}"
        if len(asked.changes) > _LOGGERS_MAX:
            return ErrorCode.INVALID_REQUEST, f"A broker has no more than {_LOGGERS_MAX} loggers."
        return ErrorCode.NONE, ""

    def send_calls(self, timeout_ms: int) -> None:
        handler = self.handler
        assert isinstance(handler, IncrementalAlterConfigsHandler)
        for request, outcome in self._logger_changes:
            call = handler.logstore_admin.call_logstore(self, request.node_id, request, _LOGSTORE_WAIT_MS)
            if call is not None:
                self._logger_calls[call.call_id] = (call, request, outcome)
        self._logger_changes.clear()
        if self._logger_calls:
            handler.deadlines.schedule(self, handler.clock.now_ms + _LOGSTORE_WAIT_MS)
        else:
            super().send_calls(timeout_ms)

    def logstore_answered(self, call: LogstoreCall, answer: AdministrationResponse | None) -> None:
        called = self._logger_calls.pop(call.call_id, None)
        if called is None:
            return
        _, request, outcome = called
        audit = self.handler.authorizer.audit
        if isinstance(answer, AlterBrokerLoggersResponse):
            fill_outcome(outcome, answer.error_code, answer.error_message)
            audit.change_answered(self.connection.context, self.header, request, answer)
        else:
            audit.answer_lost(self.connection.context, self.header, request)
        if not self._logger_calls:
            self.send_calls(TIMEOUT_MS)

    def expire(self, now_ms: int) -> None:
        if self._logger_calls:
            self._forget_logger_calls()
            self.send_calls(TIMEOUT_MS)
        else:
            super().expire(now_ms)

    def cancel(self) -> None:
        self._logger_changes.clear()
        self._forget_logger_calls()
        super().cancel()

    def _forget_logger_calls(self) -> None:
        handler = self.handler
        assert isinstance(handler, IncrementalAlterConfigsHandler)
        for call, request, _ in self._logger_calls.values():
            handler.logstore_admin.forget_call(call)
            handler.authorizer.audit.answer_lost(self.connection.context, self.header, request)
        self._logger_calls.clear()

    def complete(self) -> None:
        self.handler.responder.respond(self, self.response)


class IncrementalAlterConfigsHandler(ControllerHandler):
    api_key = ApiKey.INCREMENTAL_ALTER_CONFIGS
    request_class = PendingIncrementalAlterConfigs

    def __init__(
        self, environment: RequestEnvironment, controller: ControllerClient, logstore_admin: LogstoreAdminClient
    ) -> None:
        super().__init__(environment, controller)
        self.logstore_admin = logstore_admin

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
        yield from pending.ask(asked, validate_only=request.validate_only)
