"""The Prometheus endpoint of a pod: one HTTP listener, its requests on threads, its samples from the event loop.

A scrape asks the event loop for samples (a copy of numbers, once for concurrent scrapes) and formats them on its own
thread. The interpreter is switched every half millisecond while it does, so that a loop in the same process continues;
the two data paths, processors and a logstore's data process, are other processes anyway.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import io
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client import exposition
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from barnabas.metrics.family import Family, Kind, Sample
from barnabas.metrics.histogram import Histogram
from barnabas.runtime.contained import CONTAINED, SCRAPE, SCRAPES
from barnabas.runtime.loop.background import BackgroundTasks, start_thread
from barnabas.runtime.metrics.security import OPEN, MetricsSecurity, ScrapeGuard

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

PATH: Final = "/metrics"
COLLECT_S_MAX: Final = 5.0
"""How long a scrape waits for the event loop, which includes its wait for the pod's other processes."""
REQUESTS_MAX: Final = 8
"""Requests served at once; more are closed, so that connections can't use up the pod's memory."""
_REQUEST_S_MAX: Final = 10.0
_SWITCH_INTERVAL_S: Final = 0.0005
_AGAIN_S: Final = 1.0


class MetricsEndpoint:
    """Serves `collect` at PATH from `start` to `stop`. `collect` runs on the event loop on which this was created."""

    def __init__(
        self,
        bound: socket.socket,
        collect: Callable[[], Awaitable[Iterable[Sample]]],
        security: MetricsSecurity = OPEN,
    ) -> None:
        """Raises OSError: files of `security` that can't be used."""
        self._collect = collect
        self._guard = ScrapeGuard(security)
        self._loop = asyncio.get_running_loop()
        self._under_way: asyncio.Task[Iterable[Sample]] | None = None
        self._tasks = BackgroundTasks(SCRAPE)
        self._server = _Server(bound, self._serve, self._guard)
        self._is_stopped = threading.Event()

    def start(self) -> None:
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        start_thread(SCRAPES, self._accept, "metrics")

    def _accept(self) -> None:
        """Serve at least once, even if `stop` comes first: it waits for the end of that."""
        while True:
            try:
                self._server.serve_forever()
                return
            except Exception as error:
                CONTAINED.contain(SCRAPES, error)
            if self._is_stopped.wait(_AGAIN_S):
                return

    def stop(self) -> None:
        """Accept no more requests; those that are being served end with the process."""
        self._is_stopped.set()
        self._server.shutdown()
        self._server.server_close()

    async def collect_once(self) -> Iterable[Sample]:
        """Concurrent callers get the same samples."""
        if self._under_way is None:
            self._under_way = self._tasks.start(self._gather())
            self._under_way.add_done_callback(self._collected)
        return await asyncio.shield(self._under_way)

    async def _gather(self) -> Iterable[Sample]:
        return await self._collect()

    def _collected(self, _done: asyncio.Future[Iterable[Sample]]) -> None:
        self._under_way = None

    def _serve(self, environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        """One request, on a thread of its own."""
        if not self._guard.is_allowed(environ.get("HTTP_AUTHORIZATION", "")):
            headers = [("Content-Type", "text/plain; charset=utf-8"), ("WWW-Authenticate", "Bearer")]
            start_response("401 Unauthorized", headers)
            return [b"a bearer token is needed\n"]
        if environ["PATH_INFO"] != PATH:
            return _plain(start_response, "404 Not Found", f"metrics are at {PATH}")
        if environ["REQUEST_METHOD"] != "GET":
            return _plain(start_response, "405 Method Not Allowed", "only GET is allowed")
        asked = asyncio.run_coroutine_threadsafe(self.collect_once(), self._loop)
        try:
            samples = asked.result(COLLECT_S_MAX)
        except (TimeoutError, concurrent.futures.TimeoutError, concurrent.futures.CancelledError):
            asked.cancel()
            return _plain(start_response, "503 Service Unavailable", f"no samples within {COLLECT_S_MAX:.0f} s")
        except Exception:  # its task has reported it
            return _plain(start_response, "500 Internal Server Error", "samples can't be collected; see the log")
        encode, content_type = _encoder(environ.get("HTTP_ACCEPT", ""))
        try:
            encoded = encode(_Samples(samples))
        except Exception as error:
            CONTAINED.contain(SCRAPE, error)
            return _plain(start_response, "500 Internal Server Error", "samples can't be encoded; see the log")
        start_response("200 OK", [("Content-Type", content_type)])
        return [encoded]


def _encoder(accept: str) -> tuple[Callable[[Any], bytes], str]:
    """Return the encoder for the formats that a client accepts, and its content type: the text, if the client names
    none that can be read.
    """
    try:
        return exposition.choose_encoder(accept)
    except (TypeError, ValueError):  # a version that is no number
        return exposition.choose_encoder("")


def _plain(start_response: StartResponse, status: str, line: str) -> list[bytes]:
    start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
    return [f"{line}\n".encode()]


class _Samples(Collector):
    """The samples of one scrape, as prometheus-client's families."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._samples = samples

    def collect(self) -> Iterator[Metric]:
        by_family: dict[str, tuple[Family, list[Sample]]] = {}
        for sample in self._samples:
            by_family.setdefault(sample.family.name, (sample.family, []))[1].append(sample)
        for _, (family, samples) in sorted(by_family.items()):
            yield _metric(family, samples)


def _metric(family: Family, samples: list[Sample]) -> Metric:
    match family.kind:
        case Kind.COUNTER:
            counter = CounterMetricFamily(family.name, family.help, labels=family.labels)
            for sample in samples:
                assert not isinstance(sample.value, Histogram)
                counter.add_metric(sample.labels, sample.value)
            return counter
        case Kind.GAUGE:
            gauge = GaugeMetricFamily(family.name, family.help, labels=family.labels)
            for sample in samples:
                assert not isinstance(sample.value, Histogram)
                gauge.add_metric(sample.labels, sample.value)
            return gauge
        case Kind.HISTOGRAM:
            histogram = HistogramMetricFamily(family.name, family.help, labels=family.labels)
            for sample in samples:
                assert isinstance(sample.value, Histogram)
                histogram.add_metric(sample.labels, _buckets(sample.value), sample.value.sum / sample.value.unit)
            return histogram


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Return Prometheus' buckets: by upper bound, each with all that is below it; the last one has no bound."""
    buckets: list[tuple[str, float]] = []
    count = 0
    for bound, within in zip(histogram.bounds, histogram.counts, strict=False):
        count += within
        buckets.append((_bound_text(bound / histogram.unit), count))
    return [*buckets, ("+Inf", count + histogram.counts[-1])]


def _bound_text(bound: float) -> str:
    return str(bound)


class _Server(exposition.ThreadingWSGIServer):
    """prometheus-client's server, over a bound socket, with a limit of concurrent requests."""

    def __init__(
        self,
        bound: socket.socket,
        app: Callable[[WSGIEnvironment, StartResponse], list[bytes]],
        guard: ScrapeGuard,
    ) -> None:
        self._guard = guard
        self.address_family = bound.family
        super().__init__(bound.getsockname()[:2], _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = bound
        self.server_name, self.server_port = bound.getsockname()[:2]
        self.setup_environ()
        self.set_app(app)
        self._free = threading.BoundedSemaphore(REQUESTS_MAX)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        request.settimeout(_REQUEST_S_MAX)
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread can be started now: only this scrape is lost
            self._free.release()
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            try:
                context = self._guard.context()
                if context is not None:
                    # Here and not where connections are accepted: a slow handshake stalls one request.
                    request = context.wrap_socket(request, server_side=True)
            except OSError:  # no TLS, no certificate that it trusts, or none of ours that can be used
                self.shutdown_request(request)
                return
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is gone or too slow is not an error."""
        error = sys.exception()
        if error is not None and not isinstance(error, OSError):
            CONTAINED.contain(SCRAPE, error)


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is http.server's
        pass

    def get_stderr(self) -> Any:
        return io.StringIO()
