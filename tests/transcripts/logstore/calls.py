"""Requests to coordinators, as a gateway sends them, and what waits in purgatory for their answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from barnabas.channel.messages import (
    CoordinateRequest,
    GroupAnswer,
    GroupCall,
    GroupCollect,
    GroupState,
    GroupWait,
    WatchedGroup,
    WatchRequest,
)
from barnabas.wire.codec import decode_response_body, encode_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import Request, Response, api_key_of
from tests.transcripts.logstore.cluster import Cluster
from tests.transcripts.logstore.node import COORDINATE, WATCH, Node
from tests.transcripts.logstore.records import OFFSETS_TOPIC

Answered = Callable[[Any], None]
"""Gets the response, or the ErrorCode that the whole call has."""


@dataclass(slots=True)
class PendingCall:
    """`wait` is set while the answer waits for other members (a join, a sync)."""

    client: str
    node: Node
    partition: int
    api_key: int
    version: int
    body: bytes
    answered: Answered
    verify: Callable[[int], None] | None = None
    wait: GroupWait | None = None


class Calls:
    """Calls of all clients. A call that has to wait is collected once its group has come so far."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._ids = count(1)
        self._pending: dict[int, PendingCall] = {}
        self._states: dict[tuple[int, str], GroupState] = {}

    def call(
        self,
        client: str,
        coordinator: tuple[str, int],
        request: Request,
        version: int,
        answered: Answered,
        *,
        at: int = 0,
    ) -> PendingCall:
        """Send a request to the coordinator's partition, to the logstore `at` or its leader."""
        node = self._cluster.node(at) if at else self._cluster.leader(*coordinator)
        body = encode_body(request, version)
        pending = PendingCall(
            client, node, coordinator[1], int(api_key_of(type(request))), version, bytes(body), answered
        )
        self.send(pending)
        return pending

    def send(self, pending: PendingCall, verification_guard: int = 0) -> None:
        request_id = next(self._ids)
        self._pending[request_id] = pending
        call = GroupCall(
            request_id,
            pending.partition,
            pending.api_key,
            pending.version,
            pending.client,
            "/127.0.0.1",
            pending.body,
            verification_guard,
        )
        pending.node.core.on_coordinate(COORDINATE, CoordinateRequest(calls=[call]))
        self._cluster.arrived()

    def answered(self, answer: GroupAnswer) -> None:
        """Process an answer of a coordinator."""
        pending = self._pending.pop(answer.request_id)
        if answer.wait is not None:
            pending.wait = answer.wait
            self._pending[answer.request_id] = pending
            topic_id = self._cluster.topics[OFFSETS_TOPIC].topic_id
            watched = WatchedGroup(topic_id, pending.partition, answer.wait.group_id)
            pending.node.core.on_watch(WATCH, WatchRequest(group_watches=[watched]))
            self._cluster.arrived()
        elif answer.verification_guard and pending.verify is not None:
            pending.verify(answer.verification_guard)
        elif answer.error_code:
            pending.answered(ErrorCode(answer.error_code))
        else:
            response = decode_response_body(pending.api_key, pending.version, memoryview(answer.body))
            assert isinstance(response, Response)
            pending.answered(response)

    def group_states(self, node: Node, states: list[GroupState]) -> None:
        """Collect what a group's new state ends the wait of."""
        for state in states:
            self._states[node.node_id, state.group_id] = state
        for request_id, pending in list(self._pending.items()):
            wait = pending.wait
            if wait is None or pending.node is not node:
                continue
            known = self._states.get((node.node_id, wait.group_id))
            if known is not None and (known.coordinator_epoch != wait.coordinator_epoch or known.step >= wait.step):
                del self._pending[request_id]
                self._collect(pending, wait)

    def _collect(self, pending: PendingCall, wait: GroupWait) -> None:
        request_id = next(self._ids)
        pending.wait = None
        self._pending[request_id] = pending
        collect = GroupCollect(
            request_id,
            pending.partition,
            pending.api_key,
            pending.version,
            wait.coordinator_epoch,
            wait.group_id,
            wait.member_id,
            wait.generation_id,
        )
        pending.node.core.on_coordinate(COORDINATE, CoordinateRequest(collects=[collect]))
        self._cluster.arrived()
