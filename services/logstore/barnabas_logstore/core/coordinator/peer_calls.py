"""Calls of this logstore's coordinators to other logstores, over Coordinate streams that the host opens; and to itself.

A stream is opened with the first call to a logstore, and closed when none was made for `LINK_IDLE_MS`. A call waits for
its stream and for credit. It is lost with its stream, with the incarnation of its logstore, when there has been no
stream for `CONNECT_MS`, or when it is not answered for `CALL_MS`; its caller decides what follows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Final, NamedTuple, Protocol

from barnabas.channel.credits import CreditAccount
from barnabas.channel.messages import CoordinateRequest, CoordinateResponse, GroupAnswer, GroupCall, Hello
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.streams.outbox import PeerLink

CONNECT_MS: Final = 1_000
LINK_IDLE_MS: Final = 60_000
CALL_MS: Final = 30_000
"""As Kafka's `request.timeout.ms`: the other logstore has longer than a partition without enough replicas takes to be
noticed, and one that never answers holds up nothing for ever.
"""

Answered = Callable[[GroupAnswer | None], None]


class _Caller(NamedTuple):
    answered: Answered
    until_ms: int
    """When it does not wait any more; later calls wait longer."""


class OwnCalls(Protocol):
    """Where calls of this logstore to itself wait: beside those of processors."""

    own_answers: list[GroupAnswer]

    def add_own(self, call: GroupCall) -> None:
        """Have the call served in a later turn."""
        ...

    def take_own_answers(self) -> list[GroupAnswer]: ...


class _Peer:
    __slots__ = ("credit", "in_flight", "is_up", "link", "used_ms", "waiting", "waits_since_ms")

    def __init__(self, link: PeerLink, now_ms: int) -> None:
        self.link = link
        self.is_up = False
        self.credit = CreditAccount()
        self.in_flight: dict[int, _Caller] = {}
        self.waiting: deque[tuple[GroupCall, _Caller]] = deque()
        self.waits_since_ms = now_ms
        """When it was last up, or wanted."""
        self.used_ms = now_ms

    def lose(self) -> list[Answered]:
        """Return the callers that get no answer."""
        lost = [each.answered for each in (*self.in_flight.values(), *(caller for _, caller in self.waiting))]
        self.in_flight.clear()
        self.waiting.clear()
        self.credit.reset()
        self.is_up = False
        return lost

    def take_late(self, now_ms: int) -> list[Answered]:
        """Return the callers that have waited too long."""
        late = _take_late(self.in_flight, now_ms)
        while self.waiting and self.waiting[0][1].until_ms <= now_ms:
            late.append(self.waiting.popleft()[1].answered)
        return late

    @property
    def first_until_ms(self) -> int | None:
        """When the first caller does not wait any more."""
        callers = [next(iter(self.in_flight.values()))] if self.in_flight else []
        if self.waiting:
            callers.append(self.waiting[0][1])
        return min((each.until_ms for each in callers), default=None)


class PeerCalls:
    def __init__(self, replicas: Replicas, inbox: OwnCalls) -> None:
        self._replicas = replicas
        self._inbox = inbox
        self._request_ids = count(1)
        self._local: dict[int, _Caller] = {}
        self._peers: dict[int, _Peer] = {}
        self._failed: list[Answered] = []
        """Calls that are lost, and whose callers do not know it yet."""
        self._requests: dict[int, CoordinateRequest] = {}
        self._links_changed = False
        self._now_ms = 0

    def call(self, node_id: int, call: GroupCall, answered: Answered) -> None:
        """Send a call, and have `answered` called once, in a later step; with None: it may be done or not."""
        call.request_id = next(self._request_ids)
        caller = _Caller(answered, self._now_ms + CALL_MS)
        if node_id == self._replicas.node_id:
            self._local[call.request_id] = caller
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
        peer.waiting.append((call, caller))
        self._admit(node_id, peer)

    def _admit(self, node_id: int, peer: _Peer) -> None:
        while peer.is_up and peer.waiting:
            call, caller = peer.waiting[0]
            if not peer.credit.try_spend(1, len(call.body)):
                return
            peer.waiting.popleft()
            peer.in_flight[call.request_id] = caller
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
            caller = peer.in_flight.pop(answer.request_id, None)
            if caller is not None:
                caller.answered(answer)
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
            caller = self._local.pop(answer.request_id, None)
            if caller is not None:
                caller.answered(answer)
        if self._local:
            self._failed += _take_late(self._local, now_ms)
        if self._peers:
            self._look_at_peers(now_ms)
        failed, self._failed = self._failed, []
        for answered in failed:
            answered(None)

    def _look_at_peers(self, now_ms: int) -> None:
        brokers = self._replicas.image.brokers
        for node_id, peer in list(self._peers.items()):
            self._failed += peer.take_late(now_ms)
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
        deadlines_ms = [next(iter(self._local.values())).until_ms] if self._local else []
        for peer in self._peers.values():
            until_ms = peer.first_until_ms
            deadlines_ms.append(peer.used_ms + LINK_IDLE_MS if until_ms is None else until_ms)
            if peer.waiting and not peer.is_up:
                deadlines_ms.append(peer.waits_since_ms + CONNECT_MS)
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


def _take_late(callers: dict[int, _Caller], now_ms: int) -> list[Answered]:
    """Remove those that have waited too long, the first of them first."""
    late: list[Answered] = []
    while callers:
        request_id, caller = next(iter(callers.items()))
        if caller.until_ms > now_ms:
            break
        del callers[request_id]
        late.append(caller.answered)
    return late
