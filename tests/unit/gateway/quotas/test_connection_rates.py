"""How fast connections are accepted (KIP-612)."""

from __future__ import annotations

from barnabas_gateway.core.connections.connection_rates import ADDRESSES_MAX, UNLIMITED, ConnectionRates

DEFAULT = (("ip", None),)


def rates(gateway: int = UNLIMITED, **listeners: int) -> ConnectionRates:
    created = ConnectionRates(listeners, 11, 1000)
    created.limit(gateway, 0)
    return created


def test_without_limits_nothing_waits() -> None:
    limits = rates()
    assert all(limits.accepted("A", "10.0.0.1", 0) == (0, 0) for _ in range(1000))


def test_over_the_gateways_rate_the_next_connections_are_accepted_later() -> None:
    limits = rates(2)
    assert [limits.accepted("A", "10.0.0.1", 0).listener_ms for _ in range(22)] == [0] * 20 + [500, 1000]
    assert limits.accepted("B", "10.0.0.1", 0).listener_ms == 1000, "a window at most"
    assert limits.accepted("A", "10.0.0.1", 10_000).listener_ms == 0
    limits.limit(UNLIMITED, 10_000)
    assert limits.accepted("A", "10.0.0.1", 10_000).listener_ms == 0


def test_a_listener_has_a_rate_of_its_own() -> None:
    limits = rates(A=1)
    assert [limits.accepted("A", "10.0.0.1", 0).listener_ms for _ in range(11)] == [0] * 10 + [1000]
    assert limits.accepted("B", "10.0.0.1", 0).listener_ms == 0
    assert rates(0).accepted("A", "10.0.0.1", 0).listener_ms == 1000


def test_an_address_over_its_rate_is_turned_away() -> None:
    limits = rates()
    limits.quotas_changed(
        {DEFAULT: {"connection_creation_rate": 1.0}, (("ip", "::1"),): {"connection_creation_rate": 2.0}}
    )
    assert [limits.accepted("A", "10.0.0.1", 0).address_ms for _ in range(12)] == [0] * 10 + [1000, 1000]
    assert limits.accepted("A", "10.0.0.2", 0).address_ms == 0
    assert [limits.accepted("A", "0:0:0:0:0:0:0:1", 0).address_ms for _ in range(21)] == [0] * 20 + [500]
    assert limits.accepted("A", "10.0.0.1", 1000).address_ms == 0, "what was turned away is not counted"
    limits.quotas_changed({})
    assert limits.accepted("A", "10.0.0.1", 1000).address_ms == 0


def test_addresses_are_forgotten_at_a_bound() -> None:
    limits = rates()
    limits.quotas_changed({DEFAULT: {"connection_creation_rate": 1.0}})
    for number in range(ADDRESSES_MAX + 10):
        limits.accepted("A", f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 0)
    assert len(limits._by_address) == ADDRESSES_MAX
