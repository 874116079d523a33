"""ConnectionRates: how fast a gateway accepts connections, in all, by listener, and from one address (KIP-612).

- Over the rate of the gateway, or of a listener, the next connections of that listener are accepted later.
- A connection over the rate of its address is accepted, is not served, and is closed after the delay, which the client
  feels instead of coming back at once.

A delay is a window at most (`ConnectionQuotas` in Kafka).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from barnabas.cluster.quotas.entities import CONNECTION_CREATION_RATE, IP, Entity, canonical_address
from barnabas_gateway.core.model.quota_bucket import QuotaBucket

UNLIMITED: Final = 0x7FFF_FFFF
"""The default of Kafka's `max.connection.creation.rate`."""
ADDRESSES_MAX: Final = 20_000
_RATE_MIN: Final = 0.001
"""In place of 0, which lets one connection in with each delay."""


class Throttle(NamedTuple):
    """What follows from a connection, in ms; 0: nothing."""

    listener_ms: int
    """No further connection of its listener is accepted so long."""
    address_ms: int
    """It is closed after so long, and not served."""


class ConnectionRates:
    __slots__ = ("_addresses", "_burst_ms", "_by_address", "_default", "_gateway", "_listeners", "_window_ms")

    def __init__(self, listener_rates: Mapping[str, int], windows: int, window_ms: int) -> None:
        """`listener_rates`: `max.connection.creation.rate` of each listener that has one of its own."""
        self._burst_ms = max(1, windows - 1) * window_ms
        self._window_ms = window_ms
        self._gateway: QuotaBucket | None = None
        self._listeners = {name: self._bucket(rate, 0) for name, rate in listener_rates.items() if rate < UNLIMITED}
        self._addresses: dict[str, float] = {}
        """Quotas by address."""
        self._default: float | None = None
        self._by_address: dict[str, QuotaBucket] = {}

    def _bucket(self, rate: float, now_ms: int) -> QuotaBucket:
        return QuotaBucket(max(rate, _RATE_MIN), 1, self._burst_ms, self._window_ms, now_ms)

    def limit(self, rate: int, now_ms: int) -> None:
        """Change the gateway's rate."""
        if rate >= UNLIMITED:
            self._gateway = None
        elif self._gateway is None:
            self._gateway = self._bucket(rate, now_ms)
        elif self._gateway.limit != max(rate, _RATE_MIN):
            self._gateway.change(max(rate, _RATE_MIN), 1, now_ms)

    def quotas_changed(self, quotas: Mapping[Entity, Mapping[str, float]]) -> None:
        """Limit addresses by these, of the other entities nothing."""
        rates = {
            name: values[CONNECTION_CREATION_RATE]
            for ((kind, name), *_), values in quotas.items()
            if kind == IP and CONNECTION_CREATION_RATE in values
        }
        self._default = rates.pop(None, None)
        addresses = {canonical_address(name) or name: rate for name, rate in rates.items() if name is not None}
        if addresses != self._addresses or self._default is None:
            self._by_address.clear()
        self._addresses = addresses

    def accepted(self, listener: str, address: str, now_ms: int) -> Throttle:
        """Count a connection, unless its address has to wait."""
        if self._gateway is None and not self._listeners and self._default is None and not self._addresses:
            return _UNTHROTTLED
        address_ms = self._of_address(address, now_ms)
        if address_ms:
            return Throttle(0, min(address_ms, self._window_ms))
        listener_ms = 0
        for bucket in (self._gateway, self._listeners.get(listener)):
            if bucket is not None:
                listener_ms = max(listener_ms, bucket.spend(1, now_ms))
        return Throttle(min(listener_ms, self._window_ms), 0)

    def _of_address(self, address: str, now_ms: int) -> int:
        address = canonical_address(address) or address
        rate = self._addresses.get(address, self._default)
        if rate is None:
            return 0
        bucket = self._by_address.get(address)
        if bucket is None or bucket.limit != rate:
            if len(self._by_address) >= ADDRESSES_MAX:
                del self._by_address[next(iter(self._by_address))]
            bucket = self._by_address[address] = self._bucket(rate, now_ms)
        throttle_ms = bucket.spend(1, now_ms)
        if throttle_ms:
            bucket.spend(-1, now_ms)
        return throttle_ms


_UNTHROTTLED: Final = Throttle(0, 0)
