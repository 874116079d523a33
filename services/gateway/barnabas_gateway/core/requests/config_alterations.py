"""Changes of configs, full or incremental: checks that a gateway makes itself, and the call to the controller.

Rules and messages are those of Kafka's ConfigAdminManager. The answer is given when logstores and gateways have the
changes, and this processor too.
"""

from __future__ import annotations

from abc import ABC
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from barnabas.cluster.acls import Operation
from barnabas.cluster.broker_config_keys import BROKER_KEYS
from barnabas.cluster.messages import (
    ALL_BROKERS,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
    ConfigChange,
)
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.primitives import SHORT_ELEMENTS_MAX, Steps
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.model.config_resources import (
    BROKER,
    BROKER_LOGGER,
    NOT_SERVED,
    TOPIC,
    acl_resource,
    authorization_error,
)
from barnabas_gateway.core.model.error_messages import client_message
from barnabas_gateway.core.model.outputs import ControllerAnswer
from barnabas_gateway.core.requests.controller_request import (
    UNKNOWN_NAMES_MAX,
    ControllerHandler,
    PendingControllerRequest,
)

TIMEOUT_MS: Final = 30_000
"""These requests have no timeout; Kafka's clients wait this long by default."""

CONFIGS_LOOKED_AT: Final = SHORT_ELEMENTS_MAX + 1
"""Configs of one resource: with this many it is refused."""

SET, DELETE = 0, 1
"""The values of Kafka's AlterConfigOp that the gateway has to distinguish."""

_PROCESSORS: Final = "num.network.threads"


class Outcome(Protocol):
    """A resource's place in the response of either API."""

    error_code: int
    error_message: str | None


@dataclass(slots=True, frozen=True)
class AskedChange:
    name: str
    operation: int
    value: str | None


@dataclass(slots=True, frozen=True)
class AskedResource:
    resource_type: int
    resource_name: str
    changes: Sequence[AskedChange]
    outcome: Outcome


_Asked: TypeAlias = tuple[AlterConfigsResource, Outcome]


class PendingAlterConfigs(PendingControllerRequest[_Asked], ABC):
    """The changes of either API; a subclass has the response."""

    __slots__ = ("validate_only",)

    def __init__(
        self, handler: ControllerHandler, connection: Connection, header: RequestHeader, frame_bytes: int
    ) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.validate_only = False

    def ask_controller(self, resources: Sequence[AskedResource], *, replace: bool, validate_only: bool) -> Steps[None]:
        """Refuse what can be refused here, and send the rest to the controller."""
        self.validate_only = validate_only
        named: dict[tuple[int, str], int] = {}
        for each in resources:
            key = (each.resource_type, each.resource_name)
            named[key] = named.get(key, 0) + 1
            yield 1
        unknown_left = UNKNOWN_NAMES_MAX
        for each in resources:
            error, message = self.refusal(each, named[each.resource_type, each.resource_name])
            if not error and each.resource_type == BROKER_LOGGER:
                # The controller has no loggers; IncrementalAlterConfigs asks brokers.
                error, message = ErrorCode.INVALID_REQUEST, f"Unknown resource type {BROKER_LOGGER}"
            is_known = each.resource_type != TOPIC or each.resource_name in self._topics
            if not error and not is_known:
                unknown_left -= 1
                error = ErrorCode.NONE if unknown_left >= 0 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if error:
                fill_outcome(each.outcome, error, message)
            else:
                fill_outcome(each.outcome, ErrorCode.REQUEST_TIMED_OUT, "")
                changes = [ConfigChange(change.name, change.operation, change.value or "") for change in each.changes]
                asked = AlterConfigsResource(each.resource_type, each.resource_name, replace, changes)
                self.add_query((asked, each.outcome), 1 + len(changes))
                yield len(changes)
            yield 1
        self.send_calls(TIMEOUT_MS)

    @property
    def _topics(self) -> Container[str]:
        return self.handler.image.topics_by_name

    def refusal(self, asked: AskedResource, times_named: int) -> tuple[ErrorCode, str]:
        """Return what is wrong with a resource as far as this gateway can say; NONE: nothing."""
        if times_named > 1:
            return ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
        if len(asked.changes) > SHORT_ELEMENTS_MAX:
            return ErrorCode.INVALID_REQUEST, f"A resource has no more than {SHORT_ELEMENTS_MAX} configs."
        if any(count > 1 for count in Counter(change.name for change in asked.changes).values()):
            return ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys"
        nulls = [change.name for change in asked.changes if change.value is None and change.operation != DELETE]
        if nulls:
            return ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}"
        resource = acl_resource(asked.resource_type, asked.resource_name)
        if resource is None:
            return ErrorCode.INVALID_REQUEST, f"Unknown resource type {asked.resource_type}"
        if not self.handler.authorizer.authorize(self, Operation.ALTER_CONFIGS, resource):
            return authorization_error(asked.resource_type), ""
        if asked.resource_type in NOT_SERVED:
            return ErrorCode.INVALID_REQUEST, NOT_SERVED[asked.resource_type]
        if asked.resource_type == BROKER:
            problem = self._problem_of_processors(asked.changes)
            if problem:
                return ErrorCode.INVALID_REQUEST, problem
        return ErrorCode.NONE, ""

    def _problem_of_processors(self, changes: Sequence[AskedChange]) -> str:
        """At most double, and at most halve, the number of processors at a time: a typing error would start hundreds of
        processes.

        As in Kafka's DynamicThreadPool. The controller refuses numbers that are invalid in themselves.
        """
        config, image = self.handler.config, self.handler.image
        setting = config.settings.get(_PROCESSORS)
        current = image.broker_configs.get(ALL_BROKERS, {}).get(_PROCESSORS) or (setting.value if setting else None)
        for change in changes:
            asked = change.value or ""
            if change.name != _PROCESSORS or change.operation != SET or current is None:
                continue
            if BROKER_KEYS[_PROCESSORS].problem(asked) is not None:
                continue
            prefix = f"Dynamic thread count update validation failed for {_PROCESSORS}={asked}, value should"
            if int(asked) > 2 * int(current):
                return f"{prefix} not be greater than double the current value {current}"
            if int(asked) < int(current) // 2:
                return f"{prefix} be at least half the current value {current}"
        return ""

    def request_of(self, queries: Sequence[_Asked], timeout_ms: int) -> AlterConfigsRequest:
        return AlterConfigsRequest([asked for asked, _ in queries], timeout_ms, self.validate_only)

    def fill_results(self, queries: Sequence[_Asked], answer: ControllerAnswer) -> int:
        assert isinstance(answer, AlterConfigsResponse)
        for (_, outcome), result in zip(queries, answer.results, strict=False):
            fill_outcome(outcome, result.error_code, result.error_message)
        return answer.revision


def fill_outcome(outcome: Outcome, error_code: int, message: str) -> None:
    outcome.error_code = error_code
    outcome.error_message = client_message(error_code, message)
