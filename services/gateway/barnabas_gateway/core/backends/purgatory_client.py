"""Requests that wait in purgatory: which pod holds them, and how they end if the pod is lost.

All entries of one request are in one pod, chosen by a leader's node id from the sorted pods that are up, so that the
watches of one logstore concentrate on few pods. An entry's answer, its loss and its cancellation exclude each other:
each removes the entry from its pod first.
"""

from __future__ import annotations

from typing import Protocol

from barnabas.channel.messages import (
    Completion,
    FetchCondition,
    ParkFetch,
    ParkGroup,
    ParkProduce,
    ParkRequest,
    ParkResponse,
    ProduceCondition,
)
from barnabas_gateway.core.model.containment import end_by
from barnabas_gateway.core.model.deadlines import Clock
from barnabas_gateway.core.model.outputs import Turn
from barnabas_gateway.core.timing.hops import Hop
from barnabas_gateway.core.timing.request_timing import RequestTiming, timed_of

_WAIT_MS_MAX = 0xFFFF_FFFF
"""The maximum of a uint32; Kafka's waits are int32 and smaller."""


class Parked(Protocol):
    """A request that waits in purgatory, with one entry at a time."""

    pod: Pod | None
    """The pod that holds it. Set and cleared here, except that `completed` clears it."""
    entry_id: int

    @property
    def timing(self) -> RequestTiming | None: ...

    def completed(self, completion: Completion) -> None:
        """Purgatory's answer."""

    def pod_lost(self) -> None:
        """Its pod is gone, and does not watch any more."""

    def failed(self, error: Exception) -> None:
        """An answer has met an unexpected exception."""


class Pod:
    __slots__ = ("entries", "pod_id")

    def __init__(self, pod_id: str) -> None:
        self.pod_id = pod_id
        self.entries: dict[int, Parked] = {}


class PurgatoryClient:
    __slots__ = ("_clock", "_next_entry_id", "_pods", "_turn")

    def __init__(self, clock: Clock, turn: Turn) -> None:
        self._clock = clock
        self._turn = turn
        self._pods: list[Pod] = []
        """The pods that are up, by pod id."""
        self._next_entry_id = 1

    def park_produce(self, produce: Parked, until_ms: int, conditions: list[ProduceCondition]) -> bool:
        """Return False if no pod is up."""
        pod = self._choose(conditions[0].leader_id)
        if pod is None:
            return False
        wait_ms = min(until_ms - self._clock.now_ms, _WAIT_MS_MAX)
        entry_id = self._enter(pod, produce)
        self._request_of(pod).produces.append(ParkProduce(entry_id, wait_ms, conditions))
        return True

    def park_fetch(self, wait: Parked, until_ms: int, min_bytes: int, conditions: list[FetchCondition]) -> bool:
        """Return False if no pod is up."""
        pod = self._choose(conditions[0].leader_id)
        if pod is None:
            return False
        wait_ms = min(until_ms - self._clock.now_ms, _WAIT_MS_MAX)
        entry_id = self._enter(pod, wait)
        self._request_of(pod).fetches.append(ParkFetch(entry_id, wait_ms, min_bytes, conditions))
        return True

    def park_group(self, member: Parked, park: ParkGroup) -> bool:
        """Return False if no pod is up. The entry id is assigned here."""
        pod = self._choose(park.leader_id)
        if pod is None:
            return False
        park.entry_id = self._enter(pod, member)
        self._request_of(pod).groups.append(park)
        return True

    def _choose(self, leader_id: int) -> Pod | None:
        return self._pods[leader_id % len(self._pods)] if self._pods else None

    def _enter(self, pod: Pod, parked: Parked) -> int:
        entry_id = self._next_entry_id
        self._next_entry_id = entry_id + 1
        parked.pod, parked.entry_id = pod, entry_id
        pod.entries[entry_id] = parked
        timing = parked.timing
        if timing is not None:
            timing.enter(Hop.PURGATORY)
            if timing.trace is not None:
                self._request_of(pod).traced.append(timed_of(entry_id, timing))
        return entry_id

    def _request_of(self, pod: Pod) -> ParkRequest:
        """This turn's message, created when there is something to put into it."""
        parks = self._turn.outputs.parks
        request = parks.get(pod.pod_id)
        if request is None:
            request = parks[pod.pod_id] = ParkRequest()
        return request

    def cancel_entry(self, parked: Parked) -> None:
        """It ends otherwise, or its client is gone. Does nothing if it is not parked."""
        pod = parked.pod
        if pod is not None:
            parked.pod = None
            pod.entries.pop(parked.entry_id, None)
            self._request_of(pod).cancels.append(parked.entry_id)

    def response_received(self, pod_id: str, response: ParkResponse) -> None:
        pod = self._find(pod_id)
        if pod is None:
            return
        for completion in response.completions:
            parked = pod.entries.pop(completion.entry_id, None)
            if parked is not None:
                _wait_is_over(parked)
                try:
                    parked.completed(completion)
                except Exception as error:
                    end_by(parked, error)

    def pod_up(self, pod_id: str) -> None:
        if self._find(pod_id) is None:
            self._pods.append(Pod(pod_id))
            self._pods.sort(key=lambda pod: pod.pod_id)

    def pod_down(self, pod_id: str) -> None:
        pod = self._find(pod_id)
        if pod is None:
            return
        self._pods.remove(pod)
        self._turn.outputs.parks.pop(pod_id, None)
        lost = list(pod.entries.values())
        pod.entries.clear()
        for parked in lost:
            parked.pod = None
        for parked in lost:
            _wait_is_over(parked)
            try:
                parked.pod_lost()
            except Exception as error:
                end_by(parked, error)

    def has_entries(self) -> bool:
        """Whether any request is parked."""
        return any(pod.entries for pod in self._pods)

    def _find(self, pod_id: str) -> Pod | None:
        return next((pod for pod in self._pods if pod.pod_id == pod_id), None)


def _wait_is_over(parked: Parked) -> None:
    timing = parked.timing
    if timing is not None:
        timing.enter(Hop.GATEWAY)
