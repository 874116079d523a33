"""The listeners of a suite's cluster: brokers are advertised where a suite has its proxy, and listen elsewhere."""

from __future__ import annotations

import pytest

from barnabas.cluster.messages import Broker
from barnabas_cli.local.layout import HOST, ClusterLayout
from barnabas_gateway.core.model.addresses import broker_address, node_of_port
from barnabas_gateway.core.model.config import AddressPolicy
from barnabas_gateway.core.model.config import Listener as GatewayListener
from tests.acceptance.listeners import (
    PROXIED,
    Listener,
    gateway_listener,
    gateway_ports,
    listeners_at,
    numbered,
    settings_of,
)
from tests.acceptance.suite import Addresses

FROM_ONE = Addresses(first_id=1, first_port=29091)
FROM_ZERO = Addresses(first_id=0, first_port=19092)


def test_a_listener_is_advertised_where_it_listens() -> None:
    assert settings_of(listeners_at(9092, 9192)) == {
        "listeners": f"PLAINTEXT://{HOST}:9092,SASL_PLAINTEXT://{HOST}:9192",
        "advertised.listeners": f"PLAINTEXT://{HOST}:9092,SASL_PLAINTEXT://{HOST}:9192",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    }


def test_a_listener_behind_a_proxy_is_advertised_where_the_proxy_listens() -> None:
    settings = settings_of(listeners_at(9092, 9192, Listener(PROXIED, 9292, 29091)))
    assert settings["listeners"].endswith(f",PROXIED://{HOST}:9292")
    assert settings["advertised.listeners"].endswith(f",PROXIED://{HOST}:29091")
    assert settings["listener.security.protocol.map"].endswith(",PROXIED:PLAINTEXT")


@pytest.mark.parametrize("addresses", [FROM_ONE, FROM_ZERO])
def test_a_gateway_advertises_each_broker_where_the_suite_expects_it(addresses: Addresses) -> None:
    own = gateway_listener(addresses, 20090)
    listener = GatewayListener(own.name, HOST, own.port, HOST, own.advertised_port)
    ids = range(addresses.first_id, addresses.first_id + 3)
    shown = [broker_address(AddressPolicy.PER_BROKER_PORT, listener, Broker(each, "", 0)).port for each in ids]
    assert shown == [addresses.first_port + place for place in range(3)]


@pytest.mark.parametrize("addresses", [FROM_ONE, FROM_ZERO])
def test_the_proxy_leads_to_the_broker_that_is_advertised_there(addresses: Addresses) -> None:
    ids = range(addresses.first_id, addresses.first_id + 3)
    ports = gateway_ports(addresses, ids, 20090)
    assert list(ports) == [addresses.port_of(each) for each in ids]
    assert [node_of_port(AddressPolicy.PER_BROKER_PORT, 20090, port) for port in ports.values()] == list(ids)


def test_a_cluster_has_the_ids_of_the_suite_on_the_ports_of_the_usual_one() -> None:
    usual = ClusterLayout(20000, 20040, 3, secure=True)
    layout = numbered(usual, 1)
    assert list(layout.logstore_ids) == [1, 2, 3]
    assert (layout.kafka_port, layout.internal_port, layout.logstores) == (20000, 20040, 3)
    assert (layout.secure, layout.format) == (usual.secure, usual.format)
