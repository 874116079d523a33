"""`barnabas up` waited for a gateway on a high port until TCP connected its probe with itself: the port was taken."""

from __future__ import annotations

import socket

import pytest

from barnabas.client.kafka_connection import ConnectionBroken, KafkaConnection
from barnabas_cli.local import ports
from barnabas_cli.local.layout import HOST


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> int:
    """A port without a listener; a client that connects to it gets it as its own port, too."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        free: int = probe.getsockname()[1]

    def from_itself(address: tuple[str, int], _timeout: float) -> socket.socket:
        connection = socket.socket()
        connection.bind(address)
        connection.connect(address)
        assert connection.getsockname() == connection.getpeername()
        return connection

    monkeypatch.setattr(socket, "create_connection", from_itself)
    return free


def test_no_process_accepts_there_and_the_port_stays_free(port: int) -> None:
    assert not ports.accepts(port)
    assert ports.is_free(port)


def test_no_kafka_is_there_and_the_port_stays_free(port: int) -> None:
    with pytest.raises(ConnectionBroken, match="refused"):
        KafkaConnection(HOST, port, 1)
    assert ports.is_free(port)
