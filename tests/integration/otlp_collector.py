"""An OpenTelemetry collector in this process: it takes what comes, and keeps it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as rpc

WAIT_SECONDS_MAX = 60.0


@dataclass(slots=True, frozen=True)
class CollectedSpan:
    service: str
    name: str
    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    began_ns: int
    ended_ns: int
    attributes: dict[str, object]


class Collector(rpc.TraceServiceServicer):
    """Use it as a context manager."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._spans: list[CollectedSpan] = []
        self._server = grpc.server(ThreadPoolExecutor(2))
        rpc.add_TraceServiceServicer_to_server(self, self._server)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def __enter__(self) -> Collector:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None)

    def Export(  # noqa: N802 - gRPC's name
        self, request: pb.ExportTraceServiceRequest, context: grpc.ServicerContext
    ) -> pb.ExportTraceServiceResponse:
        with self._changed:
            for resource in request.resource_spans:
                named = {each.key: each.value.string_value for each in resource.resource.attributes}
                for scope in resource.scope_spans:
                    self._spans += [
                        CollectedSpan(
                            named["service.name"],
                            span.name,
                            span.trace_id,
                            span.span_id,
                            span.parent_span_id,
                            span.start_time_unix_nano,
                            span.end_time_unix_nano,
                            {each.key: each.value.string_value or each.value.int_value for each in span.attributes},
                        )
                        for span in scope.spans
                    ]
            self._changed.notify_all()
        return pb.ExportTraceServiceResponse()

    def trace_that(self, is_wanted: Callable[[list[CollectedSpan]], bool]) -> list[CollectedSpan]:
        """The first trace of which enough has come."""
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        with self._changed:
            while True:
                by_trace: dict[bytes, list[CollectedSpan]] = {}
                for span in self._spans:
                    by_trace.setdefault(span.trace_id, []).append(span)
                for spans in by_trace.values():
                    if is_wanted(spans):
                        return spans
                left = deadline - time.monotonic()
                assert left > 0, (
                    f"no such trace; there are {[[span.name for span in each] for each in by_trace.values()]}"
                )
                self._changed.wait(left)
