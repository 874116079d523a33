"""The loggers of this broker, and changes of their levels (KIP-412).

Changes last until the process ends, as in Kafka. A request is carried out as a whole: if one change is refused, none is
made. Rules, messages and order of checks are those of Kafka's RuntimeLoggerManager: INVALID_CONFIG for a logger that
does not exist and for a level that does not; INVALID_REQUEST for another broker, for the deletion of the root's level,
and for operations of lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from barnabas.cluster.administration import (
    AlterBrokerLoggersRequest,
    AlterBrokerLoggersResponse,
    DescribedConfig,
    DescribedResource,
    LoggerChange,
)
from barnabas.cluster.config_description import Wanted
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.administration.work import Pause, Work

BROKER_LOGGER: Final = 8
"""Kafka's ConfigResource.Type."""
LEVELS: Final = ("FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE")
_ROOT: Final = "root"
_DYNAMIC_BROKER_LOGGER_CONFIG: Final = 6
_SET, _DELETE = 0, 1
_LIST_OPERATIONS: Final = {2: "APPEND", 3: "SUBTRACT"}
_QUOTED_MAX: Final = 100
"""Characters of a name or level in a message."""


class LoggerLevels(Protocol):
    """The loggers of the process."""

    def levels(self) -> dict[str, str]:
        """Return the level of each logger, `root` included."""

    def change(self, changes: Mapping[str, str | None]) -> None:
        """Give loggers these levels; None: none of their own."""


class BrokerLoggers:
    def __init__(self, node_id: int, loggers: LoggerLevels) -> None:
        self._node_id = node_id
        self._loggers = loggers

    def describe(self, node_id: str, wanted: Wanted) -> DescribedResource:
        if node_id != str(self._node_id):
            return DescribedResource(ErrorCode.INVALID_REQUEST, self._unexpected(node_id))
        return DescribedResource(
            ErrorCode.NONE,
            configs=[
                DescribedConfig(name, False, level, False, _DYNAMIC_BROKER_LOGGER_CONFIG, False, [], 0, "")
                for name, level in self._loggers.levels().items()
                if wanted.keys is None or name in wanted.keys
            ],
        )

    def alter(self, request: AlterBrokerLoggersRequest, now_ms: int) -> Work:
        if request.node_id != self._node_id:
            return AlterBrokerLoggersResponse(ErrorCode.INVALID_REQUEST, self._unexpected(str(request.node_id)))
        known = self._loggers.levels()
        changes: dict[str, str | None] = {}
        for change in request.changes:
            error, message = _problem(change, known)
            if error:
                return AlterBrokerLoggersResponse(error, message)
            changes[change.name] = change.level if change.operation == _SET else None
            yield Pause.MORE
        if not request.validate_only:
            self._loggers.change(changes)
        return AlterBrokerLoggersResponse(ErrorCode.NONE)

    def _unexpected(self, node_id: str) -> str:
        return f"Unexpected node id. Expected {self._node_id}, but received {node_id[:_QUOTED_MAX]}"


def _problem(change: LoggerChange, known: Mapping[str, str]) -> tuple[ErrorCode, str]:
    name = change.name[:_QUOTED_MAX]
    if change.operation in _LIST_OPERATIONS:
        operation = _LIST_OPERATIONS[change.operation]
        return ErrorCode.INVALID_REQUEST, f"{operation} operation is not allowed for the BROKER_LOGGER resource"
    if change.operation not in (_SET, _DELETE):
        message = f"Unknown operation type {change.operation} is not allowed for the BROKER_LOGGER resource"
        return ErrorCode.INVALID_REQUEST, message
    if change.name not in known:
        return ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!"
    if change.operation == _DELETE:
        if change.name == _ROOT:
            return ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed"
        return ErrorCode.NONE, ""
    if change.level not in LEVELS:
        return ErrorCode.INVALID_CONFIG, (
            f"Cannot set the log level of {name} to {change.level[:_QUOTED_MAX]} as it is not a supported log level. "
            f"Valid log levels are {', '.join(LEVELS)}"
        )
    return ErrorCode.NONE, ""
