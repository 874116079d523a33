"""Where clients are told that a broker id lives: a policy of the gateway, per listener."""

from __future__ import annotations

from typing import NamedTuple, assert_never

from barnabas.cluster.messages import Broker
from barnabas_gateway.core.model.authorization import ANY_NODE
from barnabas_gateway.core.model.config import AddressPolicy, Listener


def broker_port(policy: AddressPolicy, bootstrap_port: int, node_id: int) -> int:
    """The port of one broker id, given the port of the bootstrap address."""
    match policy:
        case AddressPolicy.PER_BROKER_PORT:
            return bootstrap_port + 1 + node_id
        case AddressPolicy.SHARED:
            return bootstrap_port
        case _:
            assert_never(policy)


def node_of_port(policy: AddressPolicy, bootstrap_port: int, port: int) -> int:
    """Whose port this is: a broker id, or ANY_NODE of the bootstrap port, which all share under SHARED."""
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


def broker_address(policy: AddressPolicy, listener: Listener, broker: Broker) -> BrokerAddress:
    """What clients of this listener are told about one broker."""
    port = broker_port(policy, listener.advertised_port, broker.node_id)
    return BrokerAddress(broker.node_id, listener.advertised_host, port, broker.rack or None)
