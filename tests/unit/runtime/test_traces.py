"""Spans on their way out: contexts in headers, a line for a collector that is gone, an error for a bad address."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import structlog
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from barnabas.runtime.tracing.traces import _log_outages, check_trace_endpoint, parse_traceparent, traceparent

TRACE = bytes(range(24))


def test_a_context_comes_back_from_its_header() -> None:
    assert traceparent(TRACE) == f"00-{TRACE[:16].hex()}-{TRACE[16:].hex()}-01"
    assert parse_traceparent(traceparent(TRACE)) == TRACE


@pytest.mark.parametrize(
    "header",
    [
        "",
        "00",
        "00-1-2-01",
        f"00-{'z' * 32}-{'0' * 16}-01",
        f"00-{'00  ' * 8}-{'0' * 16}-01",
        f"00-{'0' * 32}-{'0' * 16}-00",
        "-" * 60,
    ],
)
def test_what_is_no_header_of_a_traced_request_is_none(header: str) -> None:
    assert parse_traceparent(header) == b""


@pytest.mark.parametrize("endpoint", ["collector", ":4317", "collector:", "collector:otlp"])
def test_an_endpoint_that_is_none_is_one_clear_error(endpoint: str) -> None:
    with pytest.raises(ValueError, match=f"traces.otlp.endpoint={endpoint}: expected host:port"):
        check_trace_endpoint(endpoint)


@pytest.mark.parametrize("endpoint", ["", "collector:4317", "http://collector:4317", "https://[::1]:4317"])
def test_an_endpoint_or_none_at_all_is_taken(endpoint: str) -> None:
    check_trace_endpoint(endpoint)


class Outage(SpanExporter):
    results = [True, False, False, True, False]  # noqa: RUF012 - of one test

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS if self.results.pop(0) else SpanExportResult.FAILURE

    def shutdown(self) -> None:
        pass


def test_a_collector_that_is_gone_is_logged_once_and_once_that_it_is_back() -> None:
    exporter = _log_outages(Outage(), "collector:4317")
    with structlog.testing.capture_logs() as lines:
        for _ in range(5):
            exporter.export([])
    assert [line["log_level"] for line in lines] == ["warning", "info", "warning"]
