"""The time that requests spend in this logstore: those that gateways ask about, and every fetch of a follower.

A gateway asks for the times of few requests (`Timed`), beside the requests of a message. A request waits in an inbox
until a step begins it, and is processed until its answer leaves; both durations are returned with the answer, and are
kept here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.channel.messages import ReplicaPiece
from barnabas.channel.timing import Timed, Times
from barnabas.metrics import request_families as families
from barnabas.metrics.family import Sample
from barnabas.metrics.histogram import Histogram
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode

PRODUCE: Final = "Produce"
FETCH: Final = "FetchConsumer"
LIST_OFFSETS: Final = "ListOffsets"
FETCH_FOLLOWER: Final = "FetchFollower"
REPLICATE_VERSION: Final = "0"
"""Followers do not use Kafka's Fetch."""
_API_NAMES: Final = {int(key): key.api_name for key in ApiKey}


@dataclass(slots=True, eq=False)
class TimedRequest:
    timed: Timed
    name: str
    """Kafka's name of the API."""
    arrived_us: int
    begun_us: int = -1
    held_us: int = -1
    """When its result began to wait for the commit."""


@dataclass(slots=True, frozen=True)
class TracedWork:
    """A traced request that has been answered: what it was, and when (µs)."""

    timed: Timed
    name: str
    arrived_us: int
    begun_us: int
    ended_us: int


class _Parts:
    __slots__ = ("queue", "work")

    def __init__(self) -> None:
        self.queue = Histogram()
        self.work = Histogram()


class _FollowerFetches:
    """All of them are timed: followers fetch rarely, at most once per turn."""

    __slots__ = ("errors", "local", "remote", "requests", "total")

    def __init__(self) -> None:
        self.requests = 0
        self.errors: dict[int, int] = {}
        self.total = Histogram()
        self.local = Histogram()
        self.remote = Histogram()


def api_name(api_key: int) -> str:
    """Return Kafka's name; a peer may send any number."""
    return _API_NAMES.get(api_key, "unknown")


class RequestTimes:
    def __init__(self, read_us: Callable[[], int]) -> None:
        """`read_us` is monotonic, and decides nothing."""
        self.read_us = read_us
        self.traced: list[TracedWork] = []
        """The traced work of this turn."""
        self._by_name: dict[str, _Parts] = {}
        self._followers = _FollowerFetches()

    def answered(self, waiting: dict[int, TimedRequest], request_ids: Iterable[int]) -> list[Times]:
        """Record those of the answered requests that are timed, and remove them from `waiting`, which is by id."""
        times = []
        for request_id in request_ids:
            request = waiting.pop(request_id, None)
            if request is not None:
                times.append(self._answer(request))
        return times

    def held(self, waiting: dict[int, TimedRequest], request_id: int) -> None:
        """The result of a request, which may be timed, waits for its commit from now on."""
        request = waiting.get(request_id)
        if request is not None:
            request.held_us = self.read_us()

    def _answer(self, request: TimedRequest) -> Times:
        ended_us = self.read_us()
        # A request that the inbox refuses is not begun.
        begun_us = request.begun_us if request.begun_us >= 0 else ended_us
        worked_us = request.held_us if request.held_us >= 0 else ended_us
        times = Times(
            request.timed.request_id, begun_us - request.arrived_us, worked_us - begun_us, ended_us - worked_us
        )
        parts = self._by_name.get(request.name)
        if parts is None:
            parts = self._by_name[request.name] = _Parts()
        parts.queue.add(times.queue_us)
        parts.work.add(times.work_us)
        if request.timed.trace_id:
            self.traced.append(TracedWork(request.timed, request.name, request.arrived_us, begun_us, ended_us))
        return times

    def follower_answered(self, came_us: int, begun_us: int, pieces: list[ReplicaPiece]) -> None:
        """A follower's fetch waited for news from `came_us` on, and has been answered since `begun_us`."""
        ended_us = self.read_us()
        followers = self._followers
        followers.requests += 1
        followers.remote.add(begun_us - came_us)
        followers.local.add(ended_us - begun_us)
        followers.total.add(ended_us - came_us)
        for piece in pieces:
            for data in piece.partitions:
                if data.error_code:
                    followers.errors[data.error_code] = followers.errors.get(data.error_code, 0) + 1

    def take_traced(self) -> Sequence[TracedWork]:
        if not self.traced:
            return ()
        traced, self.traced = self.traced, []
        return traced

    def samples(self) -> Iterator[Sample]:
        for name, parts in self._by_name.items():
            yield Sample(families.LOGSTORE_REQUEST_MS, (name, "queue"), parts.queue)
            yield Sample(families.LOGSTORE_REQUEST_MS, (name, "work"), parts.work)
        followers = self._followers
        if followers.requests:
            yield Sample(families.REQUESTS_PER_SEC, (FETCH_FOLLOWER, REPLICATE_VERSION), followers.requests)
            for code, count in followers.errors.items():
                yield Sample(families.ERRORS_PER_SEC, (FETCH_FOLLOWER, ErrorCode(code).name), count)
            yield Sample(families.TOTAL_TIME_MS, (FETCH_FOLLOWER,), followers.total)
            yield Sample(families.LOCAL_TIME_MS, (FETCH_FOLLOWER,), followers.local)
            yield Sample(families.REMOTE_TIME_MS, (FETCH_FOLLOWER,), followers.remote)
