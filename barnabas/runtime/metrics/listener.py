"""The listener of the metrics endpoint: the key `metrics.listeners`, and the socket bound to it.

Separate from the endpoint itself, which only the process needs that serves it.
"""

from __future__ import annotations

import socket
from typing import Final

KEY: Final = "metrics.listeners"
_BACKLOG: Final = 16
_WILDCARDS: Final = ("0.0.0.0", "[::]")


def check_metrics_listener(address: str) -> None:
    """Raises ValueError, for a service's configuration."""
    host, separator, port = address.rpartition(":")
    if address and (not separator or not host or not port.isdigit() or int(port) > 0xFFFF):
        raise ValueError(f"{KEY}={address}: expected host:port, or nothing for no metrics")


def bind_metrics(address: str) -> socket.socket | None:
    """Return the listening socket of "host:port", port 0 for any; None for an empty address. Raises OSError that names
    it.
    """
    if not address:
        return None
    host, _, port = address.rpartition(":")
    bound = socket.socket(socket.AF_INET6 if host.startswith("[") else socket.AF_INET, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host.strip("[]"), int(port)))
        bound.listen(_BACKLOG)
    except OSError as error:
        bound.close()
        raise OSError(f"{KEY}={address}: cannot listen there: {error.strerror or error}") from error
    return bound


def advertised_metrics_address(address: str, bound: socket.socket | None, service_address: str) -> str:
    """Return the address of the metrics for others; a wildcard host is replaced by that of `service_address`."""
    if bound is None:
        return ""
    host = address.rpartition(":")[0]
    if host in _WILDCARDS:
        host = service_address.rpartition(":")[0]
    return f"{host}:{bound.getsockname()[1]}"
