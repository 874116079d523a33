"""The switch on which the cells cut links: what is cut is lost in that direction, and everything else arrives."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.faults.namespaces import NamespacesError, Network

pytestmark = [pytest.mark.integration, pytest.mark.deep]

PORT = 9999
RECEIVE = "import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(('', {port})); print('bound', flush=True)\n"
RECEIVE += "while True: print(s.recv(100).decode(), flush=True)"
SEND = "import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'{text}', ('{address}', {port}))"


@pytest.fixture
def network() -> Iterator[Network]:
    try:
        with Network(f"bftest{os.getpid()}", ["one", "two", "three"]) as network:
            yield network
    except NamespacesError as reason:
        pytest.skip(str(reason))


class Receiver:
    def __init__(self, network: Network, machine: str) -> None:
        argv = network.command(machine, [sys.executable, "-c", RECEIVE.format(port=PORT)])
        self._process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert self.next() == "bound"

    def next(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def send(network: Network, sender: str, receiver: str, text: str) -> None:
    """One datagram; the links keep the order of what they carry."""
    code = SEND.format(text=text, address=network.address(receiver), port=PORT)
    subprocess.run(network.command(sender, [sys.executable, "-c", code]), check=True, timeout=30)


@pytest.fixture
def receivers(network: Network) -> Iterator[dict[str, Receiver]]:
    receivers = {machine: Receiver(network, machine) for machine in ("one", "two")}
    yield receivers
    for receiver in receivers.values():
        receiver.close()


def test_a_cut_is_of_one_direction_and_one_pair(network: Network, receivers: dict[str, Receiver]) -> None:
    network.cut("one", "two")
    send(network, "one", "two", "lost")
    send(network, "two", "one", "the other direction")
    send(network, "three", "two", "another pair")
    assert receivers["one"].next() == "the other direction"
    assert receivers["two"].next() == "another pair"
    network.heal()
    send(network, "one", "two", "healed")
    assert receivers["two"].next() == "healed"


def test_who_is_cut_off_everybody(network: Network, receivers: dict[str, Receiver]) -> None:
    network.cut_both("one", ["one", "two", "three"])
    send(network, "one", "two", "lost")
    send(network, "two", "one", "lost as well")
    send(network, "three", "one", "lost too")
    send(network, "three", "two", "not theirs")
    assert receivers["two"].next() == "not theirs"
    network.heal()
    send(network, "two", "one", "healed")
    assert receivers["one"].next() == "healed"


def test_a_thin_line_heals(network: Network, receivers: dict[str, Receiver]) -> None:
    network.slow("one", 64)
    send(network, "one", "two", "slowly")
    assert receivers["two"].next() == "slowly"
    network.heal()
    send(network, "one", "two", "fast")
    assert receivers["two"].next() == "fast"


def test_addresses_are_of_this_network_alone(network: Network, receivers: dict[str, Receiver]) -> None:
    """Two networks at the same time have the same addresses, and nothing to do with each other."""
    with Network(f"bfother{os.getpid()}", ["one", "two", "three"]) as other:
        assert other.address("two") == network.address("two")
        send(other, "one", "two", "elsewhere")
        send(network, "one", "two", "here")
        assert receivers["two"].next() == "here"
