"""Calls of this logstore's coordinators to other logstores, over Coordinate streams that the host opens; and to itself.

A stream is opened with the first call to a logstore, and closed when none was made for `LINK_IDLE_MS`. A call waits for
its stream and for credit. It is lost with its stream, with the incarnation of its logstore, or when there has been no
stream for `CONNECT_MS`; its caller decides what follows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Final

from barnabas.channel.credits import CreditAccount
from barnabas.channel.messages import CoordinateRequest, CoordinateResponse, GroupAnswer, GroupCall, Hello
from barnabas_logstore.core.coordinator.coordinate_inbox import CoordinateInbox
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.streams.outbox import PeerLink

CONNECT_MS: Final = 1_000
LINK_IDLE_MS: Final = 60_000

Answered = Callable[[GroupAnswer | None], None]


class _Peer:
    __slots__ = ("credit", "in_flight", "is_up", "link", "used_ms", "waiting", "waits_since_ms")

    def __init__(self, link: PeerLink, now_ms: int) -> None:
        self.link = link
        self.is_up = False
        self.credit = CreditAccount()
        self.in_flight: dict[int, Answered] = {}
        self.waiting: deque[tuple[GroupCall, Answered]] = deque()
        self.waits_since_ms = now_ms
        """When it was last up, or wanted."""
        self.used_ms = now_ms

    def lose(self) -> list[Answered]:
        """Return the callers that get no answer."""
        lost = [*self.in_flight.values(), *(answered for _, answered in self.waiting)]
        self.in_flight.clear()
        self.waiting.clear()
        self.credit.reset()
        self.is_up = False
        return lost


class PeerCalls:
    def __init__(self, replicas: Replicas, inbox: CoordinateInbox) -> None:
        self._replicas = replicas
        self._inbox = inbox
        self._request_ids = count(1)
        self._local: dict[int, Answered] = {}
        self._peers: dict[int, _Peer] = {}
        self._failed: list[Answered] = []
        """Calls that are lost, and whose callers do not know it yet."""
        self._requests: dict[int, CoordinateRequest] = {}
        self._links_changed = False
        self._now_ms = 0

    def call(self, node_id: int, call: GroupCall, answered: Answered) -> None:
        """Send a call, and have `answered` called once, in a later step; with None: it may be done or not."""
        call.request_id = next(self._request_ids)
        if node_id == self._replicas.node_id:
            self._local[call.request_id] = answered
            self._inbox.add_own(call)
            return
        broker = self._replicas.image.brokers.get(node_id)
        if broker is None:
            self._failed.append(answered)
            return
        peer = self._peers.get(node_id)
        if peer is None:
            hello = Hello(self._replicas.cluster_id, f"logstore-{self._replicas.node_id}")
            peer = self._peers[node_id] = _Peer(PeerLink(broker, hello), self._now_ms)
            self._links_changed = True
        if not peer.waiting and not peer.in_flight and not peer.is_up:
            peer.waits_since_ms = self._now_ms
        peer.used_ms = self._now_ms
        peer.waiting.append((call, answered))
        self._admit(node_id, peer)

    def _admit(self, node_id: int, peer: _Peer) -> None:
        while peer.is_up and peer.waiting:
            call, answered = peer.waiting[0]
            if not peer.credit.try_spend(1, len(call.body)):
                return
            peer.waiting.popleft()
            peer.in_flight[call.request_id] = answered
            self._requests.setdefault(node_id, CoordinateRequest()).calls.append(call)

    # --- what arrives -------------------------------------------------------------------------------------------------

    def on_response(self, node_id: int, response: CoordinateResponse) -> None:
        """A message of a logstore on the stream to it; its welcome first."""
        peer = self._peers.get(node_id)
        if peer is None:
            return
        if response.welcome is not None:
            peer.is_up = True
        for answer in response.answers:
            answered = peer.in_flight.pop(answer.request_id, None)
            if answered is not None:
                answered(answer)
        if response.credit is not None:
            peer.credit.grant(response.credit)
        self._admit(node_id, peer)

    def on_lost(self, node_id: int) -> None:
        """That stream is lost. It is opened again without being requested again."""
        peer = self._peers.get(node_id)
        if peer is not None:
            self._failed += peer.lose()
            self._requests.pop(node_id, None)
            peer.waits_since_ms = self._now_ms

    # --- the turn -----------------------------------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        return bool(self._failed or self._inbox.own_answers)

    def step(self, now_ms: int) -> None:
        """Report lost calls and this logstore's own answers, and end streams that are not of use any more."""
        self._now_ms = now_ms
        for answer in self._inbox.take_own_answers():
            self._local.pop(answer.request_id)(answer)
        if self._peers:
            self._look_at_peers(now_ms)
        failed, self._failed = self._failed, []
        for answered in failed:
            answered(None)

    def _look_at_peers(self, now_ms: int) -> None:
        brokers = self._replicas.image.brokers
        for node_id, peer in list(self._peers.items()):
            is_idle = not (peer.waiting or peer.in_flight) and now_ms >= peer.used_ms + LINK_IDLE_MS
            if is_idle or brokers.get(node_id) != peer.link.peer:
                self._failed += peer.lose()
                self._requests.pop(node_id, None)
                del self._peers[node_id]
                self._links_changed = True
            elif not peer.is_up and peer.waiting and now_ms >= peer.waits_since_ms + CONNECT_MS:
                self._failed += peer.lose()
                peer.waits_since_ms = now_ms

    def next_deadline_ms(self) -> int | None:
        """Return when `step` has something to do, unless an event comes first."""
        deadlines_ms = [
            peer.waits_since_ms + CONNECT_MS if peer.waiting and not peer.is_up else peer.used_ms + LINK_IDLE_MS
            for peer in self._peers.values()
            if not peer.in_flight
        ]
        return min(deadlines_ms, default=None)

    @property
    def has_outputs(self) -> bool:
        """Whether there is anything to take."""
        return self._links_changed or bool(self._requests)

    def take_links(self) -> list[PeerLink] | None:
        """Return the streams that are wanted from now on; None: as before."""
        if not self._links_changed:
            return None
        self._links_changed = False
        return [peer.link for peer in self._peers.values()]

    def take_requests(self) -> list[tuple[int, CoordinateRequest]]:
        """Return the messages of this turn by node id, one each."""
        if not self._requests:
            return []
        requests, self._requests = self._requests, {}
        return list(requests.items())
