"""Gateways with processors whose clients use one quota, and the controllers that they agree with: simulated.

Everything that decides is the product's: `ClientQuotas` of each processor, `GatewayShares` of each gateway,
`ShareOwner` of the active controller. Clients, messages and time are not. A message takes some ms; a client sends
requests as fast as its link and its throttle times let it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from barnabas.cluster.quotas.shares import PERIOD_MS, QuotaUse, ShareOwner
from barnabas_gateway.core.model.client_quotas import ClientQuotas
from barnabas_gateway.core.model.deadlines import Clock, Deadlines
from barnabas_gateway.core.model.gateway_shares import GatewayShares
from barnabas_gateway.core.model.outputs import Outputs, Turn
from barnabas_gateway.core.model.request_context import RequestContext
from tests.unit.gateway.world import CONFIG

LINK_BYTES_PER_MS = 50_000
TO_ACCEPTOR_MS = 2
TO_CONTROLLER_MS = 8


@dataclass
class SimulatedClient:
    """A client on one processor at a time; it sends while it is active, and waits as long as it has to."""

    processor: int
    request_bytes: int
    bytes_per_s: float = float("inf")
    """What it wants."""
    consumes: bool = False
    life: int = 0
    """One more with each move: events of a former connection mean nothing."""


@dataclass
class Agreement:
    quota: float
    gateways: int = 2
    processors: int = 3
    now_ms: int = 0
    admitted: list[tuple[int, int]] = field(default_factory=list)
    """(ms, bytes) of what was let through."""
    reports: int = 0
    """Messages to the controller."""

    def __post_init__(self) -> None:
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._serial = 0
        self.controller: ShareOwner | None = ShareOwner()
        self.controller.begin(-10_000)
        self.shares = [GatewayShares(-10_000) for _ in range(self.gateways)]
        self._asking = [False] * self.gateways
        self._turns: list[set[int]] = [set() for _ in range(self.gateways * self.processors)]
        """When turns are due, by processor."""
        self.members: list[tuple[ClientQuotas, Clock, Deadlines, Turn]] = []
        for gateway in range(self.gateways):
            self.shares[gateway].gateways = self.gateways
            for _ in range(self.processors):
                clock, deadlines, turn = Clock(), Deadlines(), Turn()
                quotas = ClientQuotas(replace(CONFIG, processors=self.processors), clock, lambda: 0, deadlines, turn)
                quotas.gateways_changed(self.gateways)
                values = {"producer_byte_rate": self.quota, "consumer_byte_rate": self.quota}
                quotas.quotas_changed({(("user", None),): values})
                self.members.append((quotas, clock, deadlines, turn))

    def at(self, time_ms: float, do: Callable[[], None]) -> None:
        self._serial += 1
        heapq.heappush(self._events, (max(self.now_ms, int(time_ms)), self._serial, do))

    def run(self, until_ms: int) -> None:
        while self._events and self._events[0][0] <= until_ms:
            self.now_ms, _, do = heapq.heappop(self._events)
            do()
        self.now_ms = until_ms

    # --- clients ---

    def start(self, client: SimulatedClient) -> None:
        life = client.life
        self.at(self.now_ms, lambda: self._send(client, life))

    def move(self, client: SimulatedClient, processor: int) -> None:
        client.life += 1
        client.processor = processor
        self.start(client)

    def stop(self, client: SimulatedClient) -> None:
        client.life += 1

    def _send(self, client: SimulatedClient, life: int) -> None:
        if life != client.life:
            return
        quotas, clock, _, _ = self.members[client.processor]
        clock.now_ms = self.now_ms
        context = RequestContext(1, "PLAINTEXT", "10.0.0.1:1")
        if client.consumes:
            throttle_ms = quotas.fetch_wait_ms(context, "c")
            admitted = 0 if throttle_ms else client.request_bytes
            if admitted:
                quotas.fetched(context, "c", admitted)
        else:
            admitted = client.request_bytes
            quotas.produced(context, "c", admitted)
            throttle_ms = quotas.produce_wait_ms(context, "c")
        if admitted:
            self.admitted.append((self.now_ms, admitted))
        self._turn(client.processor)
        took_ms = max(1.0, admitted / LINK_BYTES_PER_MS, 1000 * admitted / client.bytes_per_s)
        self.at(self.now_ms + max(took_ms, throttle_ms), lambda: self._send(client, life))

    # --- messages ---

    def _turn(self, processor: int) -> None:
        """What a processor's host does: expire deadlines, and pass on what is to be reported."""
        _, clock, deadlines, turn = self.members[processor]
        clock.now_ms = self.now_ms
        deadlines.expire(self.now_ms)
        uses = turn.rare.quota_uses
        turn.outputs = Outputs()
        if uses:
            self.at(self.now_ms + TO_ACCEPTOR_MS, lambda: self._reported(processor, uses))
        due_ms = deadlines.next_deadline_ms()
        if due_ms is not None and due_ms not in self._turns[processor]:
            self._turns[processor].add(due_ms)
            self.at(due_ms, lambda: self._deadline(processor, due_ms))

    def _deadline(self, processor: int, due_ms: int) -> None:
        self._turns[processor].discard(due_ms)
        self._turn(processor)

    def _reported(self, processor: int, uses: list[QuotaUse]) -> None:
        gateway = processor // self.processors
        shares = self.shares[gateway]
        rates = shares.reported(str(processor), uses, self.now_ms)
        pairs = [(use.quota_id(), rate) for use, rate in zip(uses, rates, strict=True)]
        self.at(self.now_ms + TO_ACCEPTOR_MS, lambda: self._granted(processor, pairs))
        if not self._asking[gateway] and shares.is_used():
            self._asking[gateway] = True
            self.at(self.now_ms, lambda: self._ask(gateway))

    def _granted(self, processor: int, pairs: list) -> None:  # type: ignore[type-arg]
        quotas, clock, _, _ = self.members[processor]
        clock.now_ms = self.now_ms
        quotas.shares_granted(pairs)

    def _ask(self, gateway: int) -> None:
        shares, sent_ms = self.shares[gateway], self.now_ms
        uses = shares.take_uses(sent_ms)
        if not uses:
            self._asking[gateway] = False
            return

        def decide() -> None:
            self.reports += 1
            if self.controller is not None:
                owner = self.controller
                rates = [owner.report(str(gateway), use, use.limit, self.now_ms) for use in uses]
                self.at(self.now_ms + TO_CONTROLLER_MS, lambda: shares.granted(uses, rates, sent_ms))

        self.at(sent_ms + TO_CONTROLLER_MS, decide)
        self.at(sent_ms + PERIOD_MS, lambda: self._ask(gateway))

    def fail_over(self, outage_ms: int) -> None:
        """The controller is gone; another one, which knows nothing, is active after this time."""
        self.controller = None

        def begin() -> None:
            self.controller = ShareOwner()
            self.controller.begin(self.now_ms)

        self.at(self.now_ms + outage_ms, begin)

    # --- what came through ---

    def rate(self, begin_ms: int, end_ms: int) -> float:
        """Return the rate in this time, as a part of the quota."""
        admitted = sum(size for at_ms, size in self.admitted if begin_ms <= at_ms < end_ms)
        return admitted * 1000 / (end_ms - begin_ms) / self.quota
