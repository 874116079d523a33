"""Requests that wait in purgatory: which pod holds them, and what becomes of them when it is gone.

All entries of one request are in one pod, chosen by a leader's node id over the sorted pods that are up, so that the
watches of one logstore gather in few pods. An entry's answer, its loss and its cancellation exclude each other: each
takes the entry out of its pod first.
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
from barnabas_gateway.core.model.deadlines import Clock
from barnabas_gateway.core.timing.hops import Hop
from barnabas_gateway.core.timing.request_timing import RequestTiming, timed_of

_WAIT_MS_MAX = 0xFFFF_FFFF
"""What a uint32 holds; Kafka's waits are int32 and smaller."""


class Parked(Protocol):
    """What waits in purgatory: one entry at a time."""

    pod: Pod | None
    """That holds it. Set and cleared here, but for `completed`, which clears it."""
    entry_id: int

    @property
    def timing(self) -> RequestTiming | None: ...

    def completed(self, completion: Completion) -> None:
        """Purgatory's word."""

    def pod_lost(self) -> None:
        """Its pod is gone, and no longer watches."""


class Pod:
    __slots__ = ("entries", "pod_id", "request")

    def __init__(self, pod_id: str) -> None:
        self.pod_id = pod_id
        self.entries: dict[int, Parked] = {}
        self.request: ParkRequest | None = None
        """This turn's message, made when there is something to put into it."""


class PurgatoryClient:
    __slots__ = ("_clock", "_next_entry_id", "_pods", "_sending")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pods: list[Pod] = []
        """Those that are up, by pod id."""
        self._sending: list[Pod] = []
        """Those with a message in this turn."""
        self._next_entry_id = 1

    def park_produce(self, produce: Parked, until_ms: int, conditions: list[ProduceCondition]) -> bool:
        """False when no pod is up."""
        pod = self._choose(conditions[0].leader_id)
        if pod is None:
            return False
        wait_ms = min(until_ms - self._clock.now_ms, _WAIT_MS_MAX)
        entry_id = self._enter(pod, produce)
        self._request_of(pod).produces.append(ParkProduce(entry_id, wait_ms, conditions))
        return True

    def park_fetch(self, wait: Parked, until_ms: int, min_bytes: int, conditions: list[FetchCondition]) -> bool:
        """False when no pod is up."""
        pod = self._choose(conditions[0].leader_id)
        if pod is None:
            return False
        wait_ms = min(until_ms - self._clock.now_ms, _WAIT_MS_MAX)
        entry_id = self._enter(pod, wait)
        self._request_of(pod).fetches.append(ParkFetch(entry_id, wait_ms, min_bytes, conditions))
        return True

    def park_group(self, member: Parked, park: ParkGroup) -> bool:
        """False when no pod is up. The entry id is given here."""
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
        pod.entries[entry_id] = parked
        parked.pod = pod
        parked.entry_id = entry_id
        timing = parked.timing
        if timing is not None:
            timing.enter(Hop.PURGATORY)
            if timing.trace is not None:
                self._request_of(pod).traced.append(timed_of(entry_id, timing))
        return entry_id

    def _request_of(self, pod: Pod) -> ParkRequest:
        if pod.request is None:
            pod.request = ParkRequest()
            self._sending.append(pod)
        return pod.request

    def cancel_entry(self, parked: Parked) -> None:
        """It ends otherwise, or its client is gone. Nothing happens when it is not parked."""
        pod = parked.pod
        if pod is not None:
            parked.pod = None
            del pod.entries[parked.entry_id]
            self._request_of(pod).cancels.append(parked.entry_id)

    def response_received(self, pod_id: str, response: ParkResponse) -> None:
        pod = self._find(pod_id)
        if pod is None:
            return
        for completion in response.completions:
            parked = pod.entries.pop(completion.entry_id, None)
            if parked is not None:
                _wait_is_over(parked)
                parked.completed(completion)

    def pod_up(self, pod_id: str) -> None:
        if self._find(pod_id) is None:
            self._pods.append(Pod(pod_id))
            self._pods.sort(key=lambda pod: pod.pod_id)

    def pod_down(self, pod_id: str) -> None:
        pod = self._find(pod_id)
        if pod is None:
            return
        self._pods.remove(pod)
        pod.request = None
        lost = list(pod.entries.values())
        pod.entries.clear()
        for parked in lost:
            parked.pod = None
        for parked in lost:
            _wait_is_over(parked)
            parked.pod_lost()

    def has_entries(self) -> bool:
        """Whether any request is parked."""
        return any(pod.entries for pod in self._pods)

    def _find(self, pod_id: str) -> Pod | None:
        return next((pod for pod in self._pods if pod.pod_id == pod_id), None)

    def take_requests(self) -> list[tuple[str, ParkRequest]]:
        taken = []
        for pod in self._sending:
            if pod.request is not None:
                taken.append((pod.pod_id, pod.request))
                pod.request = None
        self._sending.clear()
        return taken


def _wait_is_over(parked: Parked) -> None:
    timing = parked.timing
    if timing is not None:
        timing.enter(Hop.GATEWAY)
