"""Ports that no other test process uses and that the kernel gives to no client, so that what is free stays free."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator

from barnabas_cli.local import ports
from barnabas_cli.local.layout import HOST

_FIXED = 29_091
"""The first port of a proxy whose ports a suite of `make acceptance` has in its code: no test is given its block."""
_PORTS = [start for start in range(20_000, 32_000, 200) if _FIXED not in range(start, start + 200)]
"""Starts of blocks, below those that the kernel gives to clients."""
_LOCK_PORT_AT = 199


def reserve_ports() -> tuple[int, socket.socket]:
    """The first of a block of free ports, and the socket that keeps other test processes off it while it is open."""
    for block in random.sample(_PORTS, len(_PORTS)):
        lock = socket.socket()
        try:
            lock.bind((HOST, block + _LOCK_PORT_AT))
            lock.listen(1)
        except OSError:
            lock.close()
            continue
        if all(ports.is_free(port) for port in range(block, block + _LOCK_PORT_AT)):
            return block, lock
        lock.close()
    raise AssertionError("no block of free ports")


def _own_ports() -> Iterator[int]:
    """The ports of blocks that this process keeps until it ends."""
    locks = []
    while True:
        block, lock = reserve_ports()
        locks.append(lock)
        yield from range(block, block + _LOCK_PORT_AT)


_OWN_PORTS = _own_ports()


def free_port() -> int:
    """Return a port that neither this process nor another test process has been given."""
    return next(port for port in _OWN_PORTS if ports.is_free(port))
