"""The waits of traced requests, as child spans of the gateway's."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from barnabas.channel.messages import Completion
from barnabas.channel.timing import Timed
from barnabas.runtime.clock import monotonic_us
from barnabas.runtime.tracing.traces import Span, TraceExporter


class TracedWaits:
    """Traced entries by stream and id, from their park to their end; all others are ignored."""

    def __init__(self, exporter: TraceExporter) -> None:
        self._exporter = exporter
        self._waiting: dict[int, dict[int, tuple[Timed, int]]] = {}

    def parked(self, stream_id: int, traced: Iterable[Timed]) -> None:
        now_us = monotonic_us()
        for timed in traced:
            self._waiting.setdefault(stream_id, {})[timed.request_id] = (timed, now_us)

    def ended(self, stream_id: int, completions: Iterable[Completion]) -> None:
        waiting = self._waiting.get(stream_id)
        if not waiting:
            return
        now_us = monotonic_us()
        spans = []
        for completion in completions:
            parked = waiting.pop(completion.entry_id, None)
            if parked is not None:
                timed, began_us = parked
                outcome = {"barnabas.outcome": completion.outcome.name.lower()}
                span_id = secrets.token_bytes(8)
                spans.append(Span(timed.trace_id, span_id, timed.span_id, "parked", began_us, now_us, outcome))
        self._exporter.export(spans)

    def cancelled(self, stream_id: int, entry_ids: Iterable[int]) -> None:
        waiting = self._waiting.get(stream_id, {})
        for entry_id in entry_ids:
            waiting.pop(entry_id, None)

    def stream_closed(self, stream_id: int) -> None:
        self._waiting.pop(stream_id, None)
