"""Audit: one structured log record per denial and per change that a client makes, and the counts of denials.

A client can cause any number of denials, so their records are bounded by the second. Those left out are counted, and
the next record says how many they were. Of the changes that one filter makes, the first 200 are recorded.

What a call to the controller changes is in its row (`barnabas.cluster.controller_calls`); loggers are a broker's own.
ACLs that were created or deleted have records of their own, which say what an ACL allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from barnabas.cluster.acls import Acl, Operation, Resource, ResourceType, describe_acl
from barnabas.cluster.administration import AlterBrokerLoggersRequest, AlterBrokerLoggersResponse
from barnabas.cluster.controller_calls.method import Change
from barnabas.cluster.controller_calls.table import method_of
from barnabas.metrics import security_families as families
from barnabas.metrics.family import Sample
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas_gateway.core.model.deadlines import Clock
from barnabas_gateway.core.model.log_lines import LogLineBuffer
from barnabas_gateway.core.model.outputs import ControllerAnswer, ControllerRequest, LogLevel
from barnabas_gateway.core.model.request_context import RequestContext

AuditedRequest: TypeAlias = ControllerRequest | AlterBrokerLoggersRequest
AuditedAnswer: TypeAlias = ControllerAnswer | AlterBrokerLoggersResponse

RECORDS_PER_SECOND_MAX: Final = 100
"""Records of denials, per processor."""
CHANGES_MAX: Final = 200
_NAME_MAX: Final = 256
"""Characters of a resource's name in a record."""


class Audit:
    __slots__ = ("_clock", "_denials", "_left_out", "_log_lines", "_second", "_written")

    def __init__(self, clock: Clock, log_lines: LogLineBuffer) -> None:
        self._clock = clock
        self._log_lines = log_lines
        self._denials: dict[tuple[ResourceType, Operation], int] = {}
        self._second = -1
        self._written = 0
        """Records of denials in this second."""
        self._left_out = 0

    def denied(self, context: RequestContext, header: RequestHeader, operation: Operation, resource: Resource) -> None:
        resource_type, name = resource
        key = (resource_type, operation)
        self._denials[key] = self._denials.get(key, 0) + 1
        second = self._clock.now_ms // 1000
        if second != self._second:
            self._second, self._written = second, 0
        if self._written == RECORDS_PER_SECOND_MAX:
            self._left_out += 1
            return
        self._written += 1
        fields: dict[str, str | int] = {
            "verdict": "denied",
            "operation": operation.name,
            "resource_type": resource_type.name,
            "resource": name[:_NAME_MAX],
            "request": ApiKey(header.api_key).name,
        }
        if self._left_out:
            fields["left_out"] = self._left_out
            self._left_out = 0
        self._log_lines.add_line(LogLevel.INFO, "authorization denied", context, header, fields, is_audited=True)

    def acls_changed(
        self, context: RequestContext, header: RequestHeader, acls: Sequence[Acl], *, is_created: bool
    ) -> None:
        """Record what one call to the controller has created or deleted."""
        event = "ACL created" if is_created else "ACL deleted"
        for number, acl in enumerate(acls[:CHANGES_MAX]):
            fields: dict[str, str | int] = {"verdict": "done", "acl": describe_acl(acl)[: 4 * _NAME_MAX]}
            if number == CHANGES_MAX - 1 and len(acls) > CHANGES_MAX:
                fields["left_out"] = len(acls) - CHANGES_MAX
            self._log_lines.add_line(LogLevel.INFO, event, context, header, fields, is_audited=True)

    def change_answered(
        self, context: RequestContext, header: RequestHeader, request: AuditedRequest, answer: AuditedAnswer
    ) -> None:
        """Record what one call has changed, or has not."""
        for number, change in enumerate(changes_of(request, answer)):
            if number == CHANGES_MAX:
                break
            fields: dict[str, str | int] = {
                "verdict": "refused" if change.error_code else "done",
                "resource": change.resource[:_NAME_MAX],
            }
            if change.detail:
                fields["detail"] = change.detail[:_NAME_MAX]
            if change.error_code:
                fields["error"] = ErrorCode(change.error_code).name
            event = _event_not_done(change.event, "not") if change.error_code else change.event
            self._log_lines.add_line(LogLevel.INFO, event, context, header, fields, is_audited=True)

    def answer_lost(self, context: RequestContext, header: RequestHeader, request: AuditedRequest) -> None:
        """Record what one call was to change: it may be done, or may not be."""
        for number, change in enumerate(changes_asked_for(request)):
            if number == CHANGES_MAX:
                break
            fields: dict[str, str | int] = {"verdict": "unknown", "resource": change.resource[: 4 * _NAME_MAX]}
            event = _event_not_done(change.event, "perhaps")
            self._log_lines.add_line(LogLevel.WARNING, event, context, header, fields, is_audited=True)

    def samples(self) -> Iterator[Sample]:
        for (resource_type, operation), count in self._denials.items():
            yield Sample(families.DENIED, (resource_type.name, operation.name), count)


def _event_not_done(event: str, adverb: str) -> str:
    """Return `topic not created` for `topic created`: who counts events by name must not count refusals."""
    thing, _, participle = event.rpartition(" ")
    return f"{thing} {adverb} {participle}"


def changes_of(request: AuditedRequest, answer: AuditedAnswer) -> Iterable[Change]:
    """Return a change for each element of the request, in its order; nothing for what is only validated."""
    if isinstance(request, AlterBrokerLoggersRequest):
        assert isinstance(answer, AlterBrokerLoggersResponse)
        return [] if request.validate_only else [_loggers_changed(request, answer.error_code)]
    return method_of(request).changes(request, answer)


def changes_asked_for(request: AuditedRequest) -> Iterable[Change]:
    """Return a change for each element of a request whose answer is lost; nothing for what is only validated."""
    if isinstance(request, AlterBrokerLoggersRequest):
        return [] if request.validate_only else [_loggers_changed(request, 0)]
    return method_of(request).changes_asked_for(request)


def _loggers_changed(request: AlterBrokerLoggersRequest, error_code: int) -> Change:
    loggers = ",".join(change.name for change in request.changes)
    return Change("config changed", f"BROKER_LOGGER {request.node_id}", error_code, loggers)
