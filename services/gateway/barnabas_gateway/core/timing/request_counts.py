"""Counts of requests, by API and version."""

from __future__ import annotations

from barnabas.metrics.histogram import BYTE_BOUNDS, Histogram
from barnabas_gateway.core.timing.hops import HOP_NAMES, Hop


class ApiTimes:
    """The times of the timed requests of one API."""

    __slots__ = ("hops", "local", "request_bytes", "throttle", "total")

    def __init__(self) -> None:
        self.total = Histogram()
        self.local = Histogram()
        self.throttle = Histogram()
        """Throttle times, without zeros."""
        self.hops = [Histogram() for _ in HOP_NAMES]
        """Times by hop, without zeros."""
        self.request_bytes = Histogram(BYTE_BOUNDS, unit=1)

    def add_request(self, hops_us: list[int], total_us: int) -> None:
        for histogram, hop_us in zip(self.hops, hops_us, strict=True):
            if hop_us:
                histogram.add(hop_us)
        others_us = hops_us[Hop.REQUEST_QUEUE] + hops_us[Hop.PURGATORY]
        others_us += hops_us[Hop.RESPONSE_QUEUE] + hops_us[Hop.RESPONSE_SEND]
        self.local.add(total_us - others_us)
        self.total.add(total_us)

    def hop(self, hop: int) -> Histogram:
        """Return the times of a hop, including zeros."""
        return with_zeros(self.hops[hop], self.total.count)


class ApiMetrics:
    """Metrics of one API, for all versions."""

    __slots__ = ("cancelled", "errors", "failed", "kinds", "name", "times")

    def __init__(self, name: str) -> None:
        self.name = name
        self.kinds: list[RequestKind] = []
        self.errors: dict[int, int] = {}
        """Errors by code, in all responses."""
        self.failed = 0
        """Responses with any error."""
        self.cancelled = 0
        """Requests whose clients had disconnected before they were answered."""
        self.times = ApiTimes()


class RequestKind:
    """One API in one version: how many requests have arrived, and which of them are timed."""

    __slots__ = (
        "api",
        "request_bytes",
        "requests",
        "time_at",
        "time_from_us",
        "timed",
        "timed_last",
        "trace_at",
        "version",
    )

    def __init__(self, api: ApiMetrics, version: int, trace_at: int) -> None:
        self.api = api
        self.version = version
        self.requests = 0
        self.request_bytes = 0
        self.time_at = 0
        """The request with this number is timed, and those after it until this changes."""
        self.timed_last = 0
        """The number of the last timed request."""
        self.time_from_us = 0
        """Before that, few are timed after the last one."""
        self.timed = 0
        """The timed request in progress."""
        self.trace_at = trace_at


def with_zeros(histogram: Histogram, count: int) -> Histogram:
    whole = Histogram(histogram.bounds, histogram.unit)
    whole.merge(histogram)
    whole.counts[0] += count - histogram.count
    return whole
