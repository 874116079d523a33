"""Spans of a traced request: one for the request, and one child for each hop."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Final

from barnabas.runtime.tracing.traces import Span
from barnabas_gateway.core.timing.hops import HOP_NAMES
from barnabas_gateway.core.timing.request_timing import RequestTiming

SPAN_ID_BYTES: Final = 8


def spans_of(timing: RequestTiming) -> Iterator[Span]:
    """Return the spans of a finished trace."""
    trace, pending = timing.trace, timing.pending
    assert trace is not None, "only what is traced has spans"
    header, context = pending.header, pending.connection.context
    attributes: dict[str, str | int] = {
        "barnabas.api_key": header.api_key,
        "barnabas.api_version": header.api_version,
        "barnabas.correlation_id": header.correlation_id,
        "barnabas.client_id": header.client_id or "",
        "barnabas.connection_id": context.connection_id,
        "barnabas.listener": context.listener,
        "barnabas.principal": str(context.principal),
        "client.address": context.peer,
    }
    ended_us = timing.began_us + sum(timing.hops_us)
    name = timing.kind.api.name
    yield Span(trace.trace_id, trace.span_id, b"", name, timing.began_us, ended_us, attributes)
    for hop, began_us, hop_ended_us in trace.hops:
        span_id = secrets.token_bytes(SPAN_ID_BYTES)
        yield Span(trace.trace_id, span_id, trace.span_id, f"{name} {HOP_NAMES[hop]}", began_us, hop_ended_us)
