"""A switch and machines on it, each in a network namespace of its own, whose links can be cut.

All of it, the bridge included, lives in namespaces whose names begin with one prefix: nothing of it is seen from
outside, runs beside each other can use the same addresses, and to delete the namespaces is to clean up everything.

A cut is a wrong address on the envelope: the sender keeps, as a permanent neighbour, a MAC address that no host has.
Its packets to that one peer leave and arrive nowhere, without an error and without a reset, in one direction only, and
connections that are open feel it as new ones do. It needs no packet filter in the kernel.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

SUBNET: Final = "10.99.0"
_NAMESPACES: Final = Path("/run/netns")
_NOWHERE: Final = "02:00:00:00:ff:ff"
_CLONE_NEWNET: Final = 0x40000000
_INTERFACE: Final = "eth0"


class NamespacesError(Exception):
    """Why there can be no namespaces here, in one line."""


@dataclass(slots=True, frozen=True)
class _Machine:
    name: str
    namespace: str
    number: int

    @property
    def address(self) -> str:
        return f"{SUBNET}.{self.number}"

    @property
    def mac(self) -> str:
        return f"02:00:00:00:00:{self.number:02x}"


class Network:
    """Use it as a context manager. Raises NamespacesError where the machine does not allow it."""

    def __init__(self, prefix: str, machines: Iterable[str]) -> None:
        self._prefix = prefix
        self._switch = f"{prefix}-switch"
        self._machines = {
            name: _Machine(name, f"{prefix}-{name}", number) for number, name in enumerate(machines, start=1)
        }
        self._cuts: set[tuple[str, str]] = set()
        self._slow: set[str] = set()

    def __enter__(self) -> Network:
        if os.geteuid() != 0:
            raise NamespacesError("network namespaces need root")
        try:
            self._build()
        except BaseException:
            delete_namespaces(self._prefix)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        delete_namespaces(self._prefix)

    def address(self, machine: str) -> str:
        return self._machines[machine].address

    def command(self, machine: str, argv: list[str]) -> list[str]:
        """The command that runs `argv` on that machine: it keeps its pid, and sees the same files."""
        return ["/usr/bin/nsenter", f"--net={_NAMESPACES / self._machines[machine].namespace}", "--", *argv]

    def enter(self, machine: str) -> None:
        """This thread moves there, and with it every thread and process that it starts from now on."""
        libc = ctypes.CDLL(None, use_errno=True)
        descriptor = os.open(_NAMESPACES / self._machines[machine].namespace, os.O_RDONLY)
        try:
            if libc.setns(descriptor, _CLONE_NEWNET) != 0:
                raise NamespacesError(f"setns: {os.strerror(ctypes.get_errno())}")
        finally:
            os.close(descriptor)

    def cut(self, sender: str, receiver: str) -> None:
        """What `sender` sends to `receiver` is lost from now on; the other direction is left alone."""
        self._neighbour(sender, receiver, _NOWHERE)
        self._cuts.add((sender, receiver))

    def cut_both(self, one: str, others: Iterable[str]) -> None:
        for other in others:
            if other != one:
                self.cut(one, other)
                self.cut(other, one)

    def slow(self, machine: str, kilobits_per_second: int) -> None:
        """What the machine sends waits in line for so thin a line; what waits longer than 400 ms is dropped."""
        rate = ["rate", f"{kilobits_per_second}kbit", "burst", "8kb", "latency", "400ms"]
        self._tc(machine, "replace", "tbf", *rate)
        self._slow.add(machine)

    def heal(self) -> None:
        """No cuts and no thin lines any more."""
        for sender, receiver in sorted(self._cuts):
            self._neighbour(sender, receiver, self._machines[receiver].mac)
        self._cuts.clear()
        for machine in sorted(self._slow):
            self._tc(machine, "delete")
        self._slow.clear()

    def _build(self) -> None:
        for namespace in (self._switch, *(machine.namespace for machine in self._machines.values())):
            _run("ip", "netns", "add", namespace)
        _run("ip", "-n", self._switch, "link", "add", "switch", "type", "bridge")
        _run("ip", "-n", self._switch, "link", "set", "switch", "up")
        for machine in self._machines.values():
            self._plug_in(machine)
        for machine in self._machines.values():
            for other in self._machines.values():
                if other is not machine:
                    self._neighbour(machine.name, other.name, other.mac)

    def _plug_in(self, machine: _Machine) -> None:
        port = f"port{machine.number}"
        veth = ["link", "add", port, "type", "veth", "peer", "name", _INTERFACE, "netns", machine.namespace]
        _run("ip", "-n", self._switch, *veth)
        _run("ip", "-n", self._switch, "link", "set", port, "master", "switch", "up")
        _run("ip", "-n", machine.namespace, "link", "set", "lo", "up")
        _run("ip", "-n", machine.namespace, "link", "set", _INTERFACE, "address", machine.mac, "up")
        _run("ip", "-n", machine.namespace, "address", "add", f"{machine.address}/24", "dev", _INTERFACE)

    def _neighbour(self, machine: str, peer: str, mac: str) -> None:
        """Every machine has static entries for its peers: no ARP is used, whose answers a cut could lose or bring."""
        namespace, address = self._machines[machine].namespace, self._machines[peer].address
        entry = [address, "lladdr", mac, "dev", _INTERFACE, "nud", "permanent"]
        _run("ip", "-n", namespace, "neighbour", "replace", *entry)

    def _tc(self, machine: str, *arguments: str) -> None:
        verb, *discipline = arguments
        namespace = self._machines[machine].namespace
        _run("tc", "-n", namespace, "qdisc", verb, "dev", _INTERFACE, "root", *discipline)


def delete_namespaces(prefix: str) -> None:
    """All that this prefix names, whatever state they are in; for those that were left behind too."""
    for namespace in sorted(_NAMESPACES.glob(f"{prefix}-*")):
        subprocess.run(["ip", "netns", "delete", namespace.name], capture_output=True, check=False)


def _run(*argv: str) -> None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise NamespacesError(f"no `{argv[0]}` here (Debian and Ubuntu: apt-get install iproute2)") from None
    if done.returncode != 0:
        raise NamespacesError(f"{' '.join(argv)}: {done.stderr.strip()}")
