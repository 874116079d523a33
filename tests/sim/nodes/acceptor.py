"""What a gateway's acceptor does besides: it admits connections, and shares quotas with the other gateways."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.cluster.messages import UpdateMetadata
from barnabas.cluster.quotas.shares import PERIOD_MS, QuotaId, QuotaUse, ShareQuotasRequest, ShareQuotasResponse
from barnabas_gateway.core.connections.admission import Admission, ConnectionQuota
from barnabas_gateway.core.connections.connection_rates import ConnectionRates
from barnabas_gateway.core.model.containment import QUOTAS
from barnabas_gateway.core.model.gateway_shares import GatewayShares
from tests.sim.nodes.membership import Answer
from tests.sim.scheduler import MS, injected

if TYPE_CHECKING:
    from tests.sim.nodes.gateway import GatewayNode

CONNECTIONS_MAX: Final = 1_000
CONNECTIONS_PER_HOST_MAX: Final = 8
CREATION_RATE_MAX: Final = 50
SHARE_TIMEOUT_MS: Final = 2_000
_PROCESSOR: Final = "0"
_WINDOWS, _WINDOW_MS = 11, 1_000


class Acceptor:
    """`call_id` of its questions to the controller is negative, so that none is a processor's."""

    def __init__(self, node: GatewayNode) -> None:
        self._node = node
        self._quota = ConnectionQuota(0, 0)
        self._quota.limit(CONNECTIONS_MAX, CONNECTIONS_PER_HOST_MAX)
        self._rates = ConnectionRates({}, _WINDOWS, _WINDOW_MS)
        self._rates.limit(CREATION_RATE_MAX, node.now_ms)
        self._shares = GatewayShares(node.now_ms)
        self._asked: dict[int, tuple[Sequence[QuotaUse], int]] = {}
        self._last_call_id = 0
        self._is_sharing = False

    # --- connections -------------------------------------------------------------------------------------------------

    def admits(self, listener: str, host: str) -> bool:
        """Return whether a connection is served; one that is not is closed."""
        if self._quota.is_full() or self._quota.admit(host) is Admission.TOO_MANY_FROM_ADDRESS:
            return False
        if self._rates.accepted(listener, host, self._node.now_ms).address_ms:
            self._quota.release(host)
            return False
        return True

    def closed(self, host: str) -> None:
        """A connection that was admitted is closed."""
        self._quota.release(host)

    def image_changed(self, update: UpdateMetadata) -> None:
        """The gateway has applied an update."""
        self._shares.gateways = max(1, update.gateways)
        if update.full or update.client_quotas:
            self._rates.quotas_changed(self._node.running.image.client_quotas)

    # --- quotas ------------------------------------------------------------------------------------------------------

    def reported(self, uses: Sequence[QuotaUse]) -> None:
        """The processor has used quotas that others share."""
        rates = self._shares.reported(_PROCESSOR, uses, self._node.now_ms)
        shares = [(use.quota_id(), rate) for use, rate in zip(uses, rates, strict=True)]
        self._node.after(MS, "has shares of quotas", partial(self._share, shares))
        if not self._is_sharing and self._shares.is_used():
            self._is_sharing = True
            self._node.after(0, "reports quotas", self._ask)

    def _share(self, shares: list[tuple[QuotaId, float]]) -> None:
        self._node.running.quota_shares(shares, self._node.now_ms)
        self._node.turn_soon()

    def _ask(self) -> None:
        self._is_sharing = False
        now_ms = self._node.now_ms
        uses = self._shares.take_uses(now_ms)
        if uses:
            self._is_sharing = True
            self._last_call_id -= 1
            self._asked[self._last_call_id] = uses, now_ms
            self._node.ask_for_shares(self._last_call_id, ShareQuotasRequest(self._node.name, uses), SHARE_TIMEOUT_MS)

    def answered(self, call_id: int, answer: Answer | None) -> None:
        """The controller has answered, or has not; as `QuotaSharing` takes it."""
        uses, sent_ms = self._asked.pop(call_id)
        assert answer is None or isinstance(answer, ShareQuotasResponse)
        try:
            if answer is not None:
                self._shares.granted(uses, answer.rates, sent_ms)
        except Exception as error:
            if injected(error) is None:
                raise
            self._node.scheduler.contained(self._node, QUOTAS.name, QUOTAS.scope.value, traceback.format_exc())
        self._is_sharing = self._shares.is_used()
        if self._is_sharing:
            delay_ms = max(0, sent_ms + PERIOD_MS - self._node.now_ms)
            self._node.after(delay_ms * MS, "reports quotas", self._ask)
