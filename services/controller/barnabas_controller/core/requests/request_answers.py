"""Answers to requests that were not done, or not in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from barnabas.cluster.controller_calls.table import ClusterRequest, ClusterResponse, method_of
from barnabas.cluster.messages import AllocateProducerIdsResponse
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.state.operator_requests import OperatorRequest, OperatorResponse, Outcome

Request: TypeAlias = ClusterRequest | OperatorRequest
Response: TypeAlias = ClusterResponse | OperatorResponse


def at_revision(response: Response, revision: int) -> Response:
    """Return the answer with the revision at which it holds."""
    if isinstance(response, AllocateProducerIdsResponse):
        return response
    return replace(response, revision=revision)


def timeout_of(request: Request) -> int:
    """Return how long it may take, in ms."""
    return request.timeout_ms if isinstance(request, OperatorRequest) else method_of(request).timeout_of(request)


def elements_of(request: Request) -> int:
    """Estimate how much there is to decide; gateways count in the same way what they put into one request."""
    return 1 if isinstance(request, OperatorRequest) else method_of(request).cost(request)


def not_done(request: Request, why: str) -> Response:
    """Return the answer to a request that was not begun: it has certainly changed nothing."""
    if isinstance(request, OperatorRequest):
        return OperatorResponse(Outcome.TIMED_OUT, why)
    response: Response = method_of(request).not_done(request, why)
    return response


def timed_out(request: Request, response: Response, revision: int, are_led: Sequence[bool]) -> Response:
    """What has not taken effect by the deadline, but still may, has timed out; a gateway that lags does not count.

    `revision`: of the last write, -1 if something is not written yet. `are_led`: by position of the result, whether the
    leaders that it waits for lead; empty if it waits for none.
    """
    # A logstore that has not heard of a config yet will: that is no reason to report what is done as not done.
    is_written = revision >= 0
    if isinstance(response, OperatorResponse):
        return response if is_written else OperatorResponse(Outcome.TIMED_OUT, "it is not written yet")
    results: Sequence[Any] | None = getattr(response, "results", None)
    if results is None:
        return response if is_written else not_done(request, ErrorCode.REQUEST_TIMED_OUT.message)
    late: Any = response
    answer: Response = replace(late, results=_late(results, are_led or [is_written] * len(results)), revision=revision)
    return answer


def _late(results: Sequence[Any], are_true: Sequence[bool]) -> list[Any]:
    code = ErrorCode.REQUEST_TIMED_OUT
    return [
        result if result.error_code or is_true else replace(result, error_code=code, error_message=code.message)
        for result, is_true in zip(results, are_true, strict=True)
    ]
