"""The addresses that clients get for a broker id: a policy of the gateway, per listener."""

from __future__ import annotations

from typing import Final, NamedTuple, assert_never

from barnabas.cluster.messages import Broker
from barnabas_gateway.core.model.config import AddressPolicy, Listener
from barnabas_gateway.core.model.request_context import ANY_NODE


def broker_port(policy: AddressPolicy, bootstrap_port: int, node_id: int) -> int:
    """Return the port of one broker id, given the port of the bootstrap address."""
    match policy:
        case AddressPolicy.PER_BROKER_PORT:
            return bootstrap_port + 1 + node_id
        case AddressPolicy.SHARED:
            return bootstrap_port
        case _:
            assert_never(policy)


def node_of_port(policy: AddressPolicy, bootstrap_port: int, port: int) -> int:
    """Return the broker id of a port, or ANY_NODE for the bootstrap port, which all share under SHARED."""
    match policy:
        case AddressPolicy.PER_BROKER_PORT:
            return ANY_NODE if port == bootstrap_port else port - bootstrap_port - 1
        case AddressPolicy.SHARED:
            return ANY_NODE
        case _:
            assert_never(policy)


class BrokerAddress(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None


ID_IN_HOST: Final = "{id}"
"""In an advertised host: the broker's id, where each broker has a name of its own."""


def broker_address(policy: AddressPolicy, listener: Listener, broker: Broker) -> BrokerAddress:
    """Return the address of one broker for clients of this listener."""
    port = broker_port(policy, listener.advertised_port, broker.node_id)
    host = listener.advertised_host.replace(ID_IN_HOST, str(broker.node_id))
    return BrokerAddress(broker.node_id, host, port, broker.rack or None)
