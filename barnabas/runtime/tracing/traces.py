"""Export spans of traced requests to an OpenTelemetry collector: the extra `traces`.

Nothing is imported, and nothing costs anything, if `traces.otlp.endpoint` is empty. Spans are passed to the library's
own thread, which sends them in batches and drops what does not fit; a collector that can't be reached is logged in one
line. Trace contexts travel between services in Barnabas' own messages, and in the calls to the controller as W3C's
`traceparent`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING, Any, Final

from barnabas.runtime.contained import TRACES
from barnabas.runtime.logs import get_logger
from barnabas.runtime.loop.background import start_thread

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

KEY: Final = "traces.otlp.endpoint"
FLUSH_MS: Final = 1_000
SPANS_WAITING_MAX: Final = 2_048
_LIBRARY: Final = "opentelemetry.exporter.otlp.proto.grpc.trace_exporter"

_log = get_logger("traces")

CURRENT: ContextVar[bytes] = ContextVar("trace", default=b"")
"""Trace id and span id of the traced request that the present task works for; empty otherwise."""


@dataclass(slots=True, frozen=True)
class Span:
    """A piece of work for a traced request. Times are of this host's monotonic clock, in µs."""

    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    """Empty for the root span of its trace."""
    name: str
    began_us: int
    ended_us: int
    attributes: Mapping[str, str | int] = field(default_factory=dict)


def check_trace_endpoint(endpoint: str) -> None:
    """Raises ValueError, for a service's configuration."""
    if not endpoint:
        return
    host, separator, port = endpoint.removeprefix("http://").removeprefix("https://").rpartition(":")
    if not separator or not host or not port.isdigit():
        raise ValueError(f"{KEY}={endpoint}: expected host:port of a collector's gRPC listener, or nothing")
    try:
        found = importlib.util.find_spec(_LIBRARY)
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise ValueError(f"{KEY}={endpoint}: needs the extra `traces`: pip install 'barnabas[traces]'")


def traceparent(trace: bytes) -> str:
    """Return W3C's header for a trace id and a span id."""
    return f"00-{trace[:16].hex()}-{trace[16:].hex()}-01"


def parse_traceparent(text: str) -> bytes:
    """Return trace id and span id; empty if it is not such a header, or the request is not traced."""
    parts = text.split("-")
    if len(parts) != 4 or len(parts[1]) != 32 or len(parts[2]) != 16 or parts[3] != "01":
        return b""
    try:
        trace = bytes.fromhex(parts[1] + parts[2])
    except ValueError:
        return b""
    # `fromhex` accepts spaces among the digits.
    return trace if len(trace) == 24 else b""


class TraceExporter:
    """Passes spans to the library's thread. Loading the library takes a second or two, so that is done on a thread,
    too; spans exported before that wait, at most `SPANS_WAITING_MAX`.
    """

    def __init__(self, endpoint: str, service: str, instance: str) -> None:
        self._waiting: list[Span] = []
        self._processor: BatchSpanProcessor | None = None
        self._resource: Resource | None = None
        start_thread(TRACES, partial(self._load, endpoint, service, instance), "traces")

    def _load(self, endpoint: str, service: str, instance: str) -> None:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        self._resource = Resource(
            {"service.name": f"barnabas-{service}", "service.namespace": "barnabas", "service.instance.id": instance}
        )
        exporter = OTLPSpanExporter(endpoint=endpoint, insecure=not endpoint.startswith("https://"))
        self._processor = BatchSpanProcessor(_log_outages(exporter, endpoint))

    def export(self, spans: Iterable[Span]) -> None:
        if self._processor is None:
            self._waiting += list(spans)[: SPANS_WAITING_MAX - len(self._waiting)]
            return
        spans, self._waiting = [*self._waiting, *spans], []
        offset_ns = time_ns() - monotonic_ns()
        for span in spans:
            # A peer's ids are unchecked; one of another length would make the library lose the whole batch.
            if len(span.trace_id) == 16 and len(span.span_id) == 8 and len(span.parent_id) in (0, 8):
                self._processor.on_end(_readable(span, self._resource, offset_ns))

    def close(self) -> None:
        """Send the remaining spans, for a moment."""
        if self._processor is not None:
            self.export(())
            self._processor.force_flush(FLUSH_MS)


def trace_exporter(endpoint: str, service: str, instance: str) -> TraceExporter | None:
    """Return None for an empty endpoint."""
    return TraceExporter(endpoint, service, instance) if endpoint else None


def _readable(span: Span, resource: Any, offset_ns: int) -> ReadableSpan:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext, TraceFlags

    def context(span_id: bytes, *, is_remote: bool) -> SpanContext:
        flags = TraceFlags(TraceFlags.SAMPLED)
        return SpanContext(
            int.from_bytes(span.trace_id, "big"), int.from_bytes(span_id, "big"), is_remote, trace_flags=flags
        )

    return ReadableSpan(
        name=span.name,
        context=context(span.span_id, is_remote=False),
        parent=context(span.parent_id, is_remote=True) if span.parent_id else None,
        resource=resource,
        attributes=dict(span.attributes),
        start_time=span.began_us * 1000 + offset_ns,
        end_time=span.ended_us * 1000 + offset_ns,
    )


def _log_outages(exporter: SpanExporter, endpoint: str) -> SpanExporter:
    """Return the exporter, which logs one line when the collector can't be reached, and one when it can again."""
    import logging

    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    for name in ("opentelemetry.exporter.otlp.proto.grpc.exporter", "opentelemetry.sdk"):
        logging.getLogger(name).setLevel(logging.CRITICAL)

    class OutageLogger(SpanExporter):
        is_lost = False

        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            result = exporter.export(spans)
            is_lost = result is not SpanExportResult.SUCCESS
            if is_lost and not self.is_lost:
                _log.warning("the collector of traces can't be reached: they are dropped", endpoint=endpoint)
            elif self.is_lost and not is_lost:
                _log.info("the collector of traces is back", endpoint=endpoint)
            self.is_lost = is_lost
            return result

        def shutdown(self) -> None:
            exporter.shutdown()

    return OutageLogger()
