"""Which connections a gateway accepts: `max.connections` in all, `max.connections.per.ip` from one address."""

from __future__ import annotations

from enum import Enum, auto


class Admission(Enum):
    ADMITTED = auto()
    TOO_MANY_FROM_ADDRESS = auto()
    """Close it at once, as Kafka does (`TooManyConnectionsException`)."""


class ConnectionQuota:
    """Counts connections by the client's address. At `max.connections` nothing more is accepted: see `is_full`."""

    __slots__ = ("_by_address", "_connections", "_connections_max", "_connections_per_ip_max")

    def __init__(self, connections_max: int, connections_per_ip_max: int) -> None:
        self._connections_max = connections_max
        self._connections_per_ip_max = connections_per_ip_max
        self._connections = 0
        self._by_address: dict[str, int] = {}

    def limit(self, connections_max: int, connections_per_ip_max: int) -> None:
        """Other limits from now on. Nobody who is in is sent away."""
        self._connections_max = connections_max
        self._connections_per_ip_max = connections_per_ip_max

    def is_full(self) -> bool:
        """True: leave further connections in the listener's backlog until one has closed (KIP-402)."""
        return self._connections >= self._connections_max

    def admit(self, address: str) -> Admission:
        """Count one that was accepted."""
        count = self._by_address.get(address, 0)
        if count >= self._connections_per_ip_max:
            return Admission.TOO_MANY_FROM_ADDRESS
        self._by_address[address] = count + 1
        self._connections += 1
        return Admission.ADMITTED

    def release(self, address: str) -> None:
        """One that was admitted has closed."""
        count = self._by_address[address] - 1
        self._connections -= 1
        if count:
            self._by_address[address] = count
        else:
            del self._by_address[address]
