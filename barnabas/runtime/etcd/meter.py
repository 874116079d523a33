"""EtcdMeter: durations and failures of etcd requests, by operation; each attempt counts separately."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Iterator
from typing import TypeVar

import grpc.aio

from barnabas.metrics.etcd_families import ERRORS, REQUEST_TIME, WATCH_EVENTS, WATCH_RESTARTS
from barnabas.metrics.family import Sample
from barnabas.metrics.histogram import Histogram
from barnabas.runtime.clock import monotonic_us

Answer = TypeVar("Answer")


class EtcdMeter:
    def __init__(self) -> None:
        self._times: dict[str, Histogram] = {}
        self._errors: Counter[tuple[str, str]] = Counter()
        self.watch_events = 0
        self.watch_restarts = 0

    async def time(self, operation: str, attempt: Awaitable[Answer]) -> Answer:
        """Return the answer of `attempt`; raises what it raises."""
        began_us = monotonic_us()
        try:
            return await attempt
        except grpc.aio.AioRpcError as error:
            self._errors[operation, error.code().name] += 1
            raise
        finally:
            self._times.setdefault(operation, Histogram()).add(monotonic_us() - began_us)

    def samples(self) -> Iterator[Sample]:
        for operation, times in self._times.items():
            yield Sample(REQUEST_TIME, (operation,), times)
        for (operation, status), count in self._errors.items():
            yield Sample(ERRORS, (operation, status), count)
        yield Sample(WATCH_EVENTS, (), self.watch_events)
        yield Sample(WATCH_RESTARTS, (), self.watch_restarts)
