"""The span of a logstore's work for a traced request, as a child of the gateway's."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

from barnabas.runtime.tracing.traces import Span
from barnabas_logstore.core.streams.request_times import TracedWork


def spans_of(work: TracedWork, node_id: int) -> Iterator[Span]:
    timed = work.timed
    whole = secrets.token_bytes(8)
    attributes = {"barnabas.node_id": node_id}
    name = f"{work.name} at logstore {node_id}"
    yield Span(timed.trace_id, whole, timed.span_id, name, work.arrived_us, work.ended_us, attributes)
    for part, began_us, ended_us in (
        ("queue", work.arrived_us, work.begun_us),
        ("work", work.begun_us, work.ended_us),
    ):
        yield Span(timed.trace_id, secrets.token_bytes(8), whole, f"{work.name} {part}", began_us, ended_us)
