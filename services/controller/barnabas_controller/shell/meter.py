"""DriverMeter: how long requests to the controller take, and its own commands to logstores."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from barnabas.cluster.messages import ControlRequest, ControlResponse
from barnabas.metrics.controller_families import (
    BECAME_ACTIVE,
    CONTROL_STREAMS_LOST,
    CONTROL_TIME,
    PENDING_REQUESTS,
    REQUEST_TIME,
)
from barnabas.metrics.family import Sample
from barnabas.metrics.histogram import Histogram
from barnabas.runtime.clock import monotonic_us

_SENT_MAX: Final = 1_000
"""Commands of which is remembered when they were sent; answers come in order, so the oldest are the next."""


class DriverMeter:
    def __init__(self) -> None:
        self.became_active = 0
        self.pending_requests = 0
        self._requests: dict[str, Histogram] = {}
        self._control: dict[int, Histogram] = {}
        self._lost: dict[int, int] = {}
        self._sent: dict[int, deque[tuple[int, int]]] = {}
        """By node: sequence and time of commands that are not answered."""

    def answered(self, request: object, since_us: int) -> None:
        name = type(request).__name__.removesuffix("Request")
        self._requests.setdefault(name, Histogram()).add(monotonic_us() - since_us)

    def command_sent(self, node_id: int, request: ControlRequest) -> None:
        self._sent.setdefault(node_id, deque(maxlen=_SENT_MAX)).append((request.sequence, monotonic_us()))

    def command_answered(self, node_id: int, response: ControlResponse) -> None:
        sent = self._sent.get(node_id)
        while sent and sent[0][0] <= response.sequence:
            sequence, sent_us = sent.popleft()
            if sequence == response.sequence:
                self._control.setdefault(node_id, Histogram()).add(monotonic_us() - sent_us)

    def stream_lost(self, node_id: int) -> None:
        """Its commands will not be answered, and their numbers begin anew."""
        self._lost[node_id] = self._lost.get(node_id, 0) + 1
        self._sent.pop(node_id, None)

    def samples(self) -> Iterator[Sample]:
        yield Sample(BECAME_ACTIVE, (), self.became_active)
        yield Sample(PENDING_REQUESTS, (), self.pending_requests)
        for name, times in self._requests.items():
            yield Sample(REQUEST_TIME, (name,), times)
        for node_id, times in self._control.items():
            yield Sample(CONTROL_TIME, (str(node_id),), times)
        for node_id, lost in self._lost.items():
            yield Sample(CONTROL_STREAMS_LOST, (str(node_id),), lost)
