"""QuotaSharing: the acceptor's part in agreeing on shares of quotas, between its processors and the controller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from barnabas.cluster.quotas.shares import PERIOD_MS, QuotaUse, ShareQuotasRequest, ShareQuotasResponse
from barnabas.runtime.clock import monotonic_ms
from barnabas.runtime.contained import CONTAINED
from barnabas.runtime.loop.background import BackgroundTasks
from barnabas_gateway.core.model.containment import QUOTAS
from barnabas_gateway.core.model.gateway_shares import GatewayShares

Ask = Callable[[ShareQuotasRequest], Awaitable[ShareQuotasResponse]]


class QuotaSharing:
    """It has a timer only while a quota is used that other gateways use too."""

    def __init__(self, gateway_id: str, ask: Ask) -> None:
        self._gateway_id = gateway_id
        self._ask = ask
        self._shares = GatewayShares(monotonic_ms())
        self._loop = asyncio.get_running_loop()
        self._tasks = BackgroundTasks(QUOTAS)
        self._timer: asyncio.TimerHandle | None = None
        self._asking: asyncio.Task[None] | None = None

    def gateways_changed(self, gateways: int) -> None:
        self._shares.gateways = max(1, gateways)

    def reported(self, processor: str, uses: list[QuotaUse]) -> list[float]:
        """Return the rates of a processor's shares."""
        rates = self._shares.reported(processor, uses, monotonic_ms())
        if self._timer is None and self._asking is None and self._shares.is_used():
            self._timer = self._loop.call_later(0, self._report)
        return rates

    def _report(self) -> None:
        self._timer = None
        now_ms = monotonic_ms()
        uses = self._shares.take_uses(now_ms)
        if uses:
            self._asking = self._tasks.start(self._agree(uses, now_ms))

    async def _agree(self, uses: list[QuotaUse], sent_ms: int) -> None:
        try:
            answer = await self._ask(ShareQuotasRequest(self._gateway_id, uses))
            self._shares.granted(uses, answer.rates, sent_ms)
        except Exception as error:
            CONTAINED.contain(QUOTAS, error)
        self._asking = None
        if self._shares.is_used():
            delay_ms = max(0, sent_ms + PERIOD_MS - monotonic_ms())
            self._timer = self._loop.call_later(delay_ms / 1000, self._report)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._asking is not None:
            self._asking.cancel()
