"""RequestMeter: the samples of a processor's requests, for the host's scrapes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from barnabas.metrics import request_families as families
from barnabas.metrics.family import Family, Sample
from barnabas.metrics.histogram import Histogram
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas_gateway.core.backends.record_format_converter import RecordFormatConverter
from barnabas_gateway.core.connections.connections import Connections
from barnabas_gateway.core.timing.hops import HOP_NAMES, Hop
from barnabas_gateway.core.timing.request_counts import ApiMetrics, with_zeros
from barnabas_gateway.core.timing.request_metrics import RequestMetrics
from barnabas_gateway.core.timing.response_errors import error_name

_TIMES_OF_HOPS: Final = (
    (families.REQUEST_QUEUE_TIME_MS, Hop.REQUEST_QUEUE),
    (families.REMOTE_TIME_MS, Hop.PURGATORY),
    (families.RESPONSE_QUEUE_TIME_MS, Hop.RESPONSE_QUEUE),
    (families.RESPONSE_SEND_TIME_MS, Hop.RESPONSE_SEND),
)
"""Kafka's names of the hops."""


class RequestMeter:
    def __init__(self, metrics: RequestMetrics, connections: Connections, converter: RecordFormatConverter) -> None:
        self._metrics = metrics
        self._connections = connections
        self._converter = converter

    def samples(self) -> Iterable[Sample]:
        unanswered = self._connections.unanswered_by_api_key()
        apis = self._metrics.apis
        for api_key, api in apis.items():
            requests = sum(kind.requests for kind in api.kinds)
            if not requests:
                continue
            for kind in api.kinds:
                if kind.requests:
                    yield Sample(families.REQUESTS_PER_SEC, (api.name, str(kind.version)), kind.requests)
            request_bytes = sum(kind.request_bytes for kind in api.kinds)
            yield Sample(families.REQUEST_BYTES_TOTAL, (api.name,), request_bytes)
            succeeded = requests - api.failed - api.cancelled - unanswered.get(api_key, 0)
            yield Sample(families.ERRORS_PER_SEC, (api.name, ErrorCode.NONE.name), succeeded)
            for code, count in api.errors.items():
                yield Sample(families.ERRORS_PER_SEC, (api.name, error_name(code)), count)
            yield from _times(api)
        converter = self._converter
        for api_key, counts in ((ApiKey.PRODUCE, converter.produce), (ApiKey.FETCH, converter.fetch)):
            name = apis[api_key].name
            if counts.time_ms.count:
                yield Sample(families.MESSAGE_CONVERSIONS_TIME_MS, (name,), counts.time_ms)
                yield Sample(families.TEMPORARY_MEMORY_BYTES, (name,), counts.memory_bytes)


def _times(api: ApiMetrics) -> Iterator[Sample]:
    def sample(family: Family, histogram: Histogram, *labels: str) -> Sample:
        return Sample(family, (api.name, *labels), histogram)

    times = api.times
    yield sample(families.REQUEST_BYTES, times.request_bytes)
    yield sample(families.TOTAL_TIME_MS, times.total)
    yield sample(families.LOCAL_TIME_MS, times.local)
    yield sample(families.THROTTLE_TIME_MS, with_zeros(times.throttle, max(times.total.count, times.throttle.count)))
    for family, hop in _TIMES_OF_HOPS:
        yield sample(family, times.hop(hop))
    for hop, name in enumerate(HOP_NAMES):
        yield sample(families.HOP_MS, times.hop(hop), name)
