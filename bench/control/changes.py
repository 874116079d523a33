"""Leader changes one by one, each away from the loaded logstore with produces parked there, and timed.

One clock, CLOCK_MONOTONIC of the one machine, read in three processes. The controller's notes the commit (when it has
etcd's answer to the Txn that makes the leader, or the watch's event of that revision, whichever is first), when it has
sent LeaderAndIsr to the loaded logstore, and when it has its acknowledgement; the loaded logstore's, when the command
has come to its data process and when its core has carried it out. The parked produces are not timed: the next leader
holds them, and they wait on there (ADR 0020) until their connection is closed.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import Response
from barnabas.wire.messages.elect_leaders import ElectLeadersResponse
from barnabas.wire.record_batch import Record, build_batch
from bench.control.admin import ELECTION_VERSION, election_errors, election_request
from bench.control.cluster import LOADED, MOVED_TOPIC, PARTITIONS, STANDING_STILL, SUCCESSOR, MeasuredCluster
from bench.control.connection import PRODUCE_VERSION, PipelinedConnection, produce_error, produce_request
from bench.control.recording import Event

PARKED = 10
"""Produces that wait at the old leader for each change."""
PATIENCE_MS = 600_000
SECONDS_MAX = 60.0
_ACKS_ALL, _ACKS_LEADER = -1, 1


@dataclass(slots=True, frozen=True)
class LeaderChange:
    """Milliseconds from the commit in etcd; `parked_failed` only of runs in which leader changes failed produces."""

    away: bool
    requests_waiting: int
    """Data requests that the command found waiting at the loaded logstore."""
    sent: float
    arrived: float
    applied: float
    acknowledged: float
    parked_failed: float | None = None


@dataclass(slots=True, frozen=True)
class _Done:
    partition: int
    leader_epoch: int
    away: bool


class LeaderChanges:
    """Three connections: elections, parked produces, and one that tells when those are written."""

    def __init__(self, cluster: MeasuredCluster) -> None:
        self._cluster = cluster
        self._electing, self._parking, self._telling = (PipelinedConnection(*cluster.address) for _ in range(3))
        self._batch = build_batch([Record(None, b"parked", time.time_ns() // 1_000_000)])

    def close(self) -> None:
        for connection in (self._electing, self._parking, self._telling):
            connection.close()

    def measure(self, count: int, seconds_max: float) -> list[LeaderChange]:
        """At least `count` changes away from the loaded logstore, and as many back; fewer when time is over."""
        done: list[_Done] = []
        deadline = time.monotonic() + seconds_max
        while sum(each.away for each in done) < count and time.monotonic() < deadline:
            for replicas in ([SUCCESSOR, LOADED, STANDING_STILL], [LOADED, SUCCESSOR, STANDING_STILL]):
                errors = self._cluster.admin.reassign(MOVED_TOPIC, dict.fromkeys(range(PARTITIONS), replicas))
                assert set(errors.values()) == {ErrorCode.NONE}, errors
                epochs = self._cluster.admin.leaders(MOVED_TOPIC)
                for partition in range(PARTITIONS):
                    away = replicas[0] == SUCCESSOR
                    done.append(self._change(partition, epochs[partition][1] + 1, away=away))
        return self._timed(done)

    def _change(self, partition: int, leader_epoch: int, *, away: bool) -> _Done:
        if away:
            self._park(partition)
        self._electing.send(election_request(MOVED_TOPIC, [partition]), ELECTION_VERSION)
        while self._electing.unanswered:
            self._wait((self._electing,))
            for response in self._electing.receive():
                assert isinstance(response, ElectLeadersResponse)
                assert election_errors(response) == {partition: ErrorCode.NONE}, response
        if away:
            self._parking.close()
            self._parking = PipelinedConnection(*self._cluster.address)
        return _Done(partition, leader_epoch, away)

    def _park(self, partition: int) -> None:
        """Written at the leader, answered to the gateway, and so parked: one stream, and the last of them is back."""
        produce = produce_request(MOVED_TOPIC, partition, self._batch, _ACKS_ALL, PATIENCE_MS)
        for _ in range(PARKED):
            self._parking.send(produce, PRODUCE_VERSION)
        tell = produce_request(MOVED_TOPIC, partition, self._batch, _ACKS_LEADER, PATIENCE_MS)
        self._telling.send(tell, PRODUCE_VERSION)
        while self._telling.unanswered:
            self._wait((self._telling,))
            _expect(ErrorCode.NONE, self._telling.receive())
        assert self._parking.unanswered == PARKED
        assert not self._parking.receive(), "a produce was not parked"

    @staticmethod
    def _wait(connections: Sequence[PipelinedConnection]) -> None:
        with selectors.DefaultSelector() as selector:
            for connection in connections:
                selector.register(connection, selectors.EVENT_READ)
            assert selector.select(SECONDS_MAX), "nobody answers"

    def _timed(self, done: Sequence[_Done]) -> list[LeaderChange]:
        events = self._cluster.events()
        changes = []
        for each in done:
            times = events[self._cluster.topic_id, each.partition, each.leader_epoch]
            since = _milliseconds_since(times[Event.COMMITTED].at_ns)
            changes.append(
                LeaderChange(
                    each.away,
                    times[Event.ARRIVED].requests_waiting,
                    since(times[Event.SENT].at_ns),
                    since(times[Event.ARRIVED].at_ns),
                    since(times[Event.APPLIED].at_ns),
                    since(times[Event.ACKNOWLEDGED].at_ns),
                )
            )
        return changes


def _milliseconds_since(began_ns: int) -> Callable[[int], float]:
    return lambda at_ns: round((at_ns - began_ns) / 1e6, 3)


def _expect(error: ErrorCode, responses: Sequence[Response]) -> None:
    errors = {produce_error(response) for response in responses}
    assert errors <= {error}, errors
