"""The acceptor: listens on the bootstrap ports and the brokers' ports, and passes accepted connections to the
processors.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Mapping

from barnabas.cluster.quotas.entities import Entity
from barnabas.runtime.clock import monotonic_ms
from barnabas.runtime.logs import get_logger
from barnabas_gateway.core.connections.admission import Admission, ConnectionQuota
from barnabas_gateway.core.connections.connection_rates import ConnectionRates
from barnabas_gateway.core.model.addresses import broker_port, node_of_port
from barnabas_gateway.core.model.config import AddressPolicy
from barnabas_gateway.shell.config import GatewayProperties
from barnabas_gateway.shell.connection_meter import ConnectionMeter
from barnabas_gateway.shell.processors import Processors

_log = get_logger("gateway.acceptor")

_ACCEPTS_PER_WAKEUP = 64
_THROTTLED_MAX = 1_000
"""Connections that are held until they are closed because of their address' rate; further ones are closed at once."""
_ACCEPT_PAUSE_S = 0.1
"""Delay after accept failed because descriptors or memory ran out."""


class Acceptor:
    """Its sockets are bound at once, so that clients wait in the backlog rather than being refused; it accepts once
    `start` says that a processor can serve them."""

    def __init__(self, properties: GatewayProperties) -> None:
        """Raises OSError that names the address when a bootstrap port can't be bound."""
        self._backlog = properties.socket_listen_backlog_size
        self._send_buffer_bytes = properties.socket_send_buffer_bytes
        self._policy = AddressPolicy(properties.advertised_address_policy)
        self._quota = ConnectionQuota(properties.max_connections, properties.max_connections_per_ip)
        self._rates = ConnectionRates(
            {name: each.connection_rate_max for name, each in properties.security().items()},
            properties.quota_window_num,
            properties.quota_window_size_seconds * 1000,
        )
        self._resting: set[str] = set()
        """Listeners that accept nothing until their rate is kept again."""
        self._throttled: set[socket.socket] = set()
        """Connections that will be closed."""
        self._hosts = {name: host for name, host, _ in properties.bound_listeners()}
        self._sockets: dict[tuple[str, int], socket.socket] = {}
        """By listener name and port."""
        self.bound_ports: dict[str, int] = {}
        """The bootstrap port by listener name."""
        self._processors: Processors | None = None
        self._loop = asyncio.get_running_loop()
        self._is_reading = False
        self.meter = ConnectionMeter()
        for name, host, port in properties.bound_listeners():
            bound = _listen(host, port, self._backlog, self._send_buffer_bytes)
            self.bound_ports[name] = bound.getsockname()[1]
            self._sockets[name, self.bound_ports[name]] = bound

    def start(self, processors: Processors) -> None:
        """Begin to accept."""
        self._processors = processors
        self._read()

    def add_brokers(self, node_ids: Iterable[int]) -> None:
        """Listen on the ports of these brokers too. A port that can't be bound is logged, and tried again the next
        time.
        """
        if self._policy is AddressPolicy.SHARED:
            return
        for name, bootstrap_port in self.bound_ports.items():
            for node_id in node_ids:
                port = broker_port(self._policy, bootstrap_port, node_id)
                if (name, port) in self._sockets:
                    continue
                try:
                    bound = _listen(self._hosts[name], port, self._backlog, self._send_buffer_bytes)
                except OSError as error:
                    _log.error("a broker's port can't be bound", listener=name, node_id=node_id, reason=str(error))
                    continue
                self._sockets[name, port] = bound
                if self._is_reading and name not in self._resting:
                    self._loop.add_reader(bound, self._accept, name, bound)

    def limit(self, connections_max: int, connections_per_ip_max: int, connection_rate_max: int) -> None:
        """Change the limits."""
        self._quota.limit(connections_max, connections_per_ip_max)
        self._rates.limit(connection_rate_max, monotonic_ms())
        if not self._quota.is_full():
            self._read()

    def quotas_changed(self, quotas: Mapping[Entity, Mapping[str, float]]) -> None:
        """Limit the rates of addresses by these."""
        self._rates.quotas_changed(quotas)

    def connection_closed(self, listener: str, address: str) -> None:
        self.meter.closed[listener] += 1
        self._quota.release(address)
        if self._processors is not None and not self._is_reading:
            self._read()

    def stop(self) -> None:
        """Stop accepting."""
        self._processors = None
        self._pause()
        for bound in self._sockets.values():
            bound.close()
        self._sockets.clear()
        for throttled in self._throttled:
            throttled.close()
        self._throttled.clear()

    def _read(self) -> None:
        if not self._is_reading and self._processors is not None:
            self._is_reading = True
            for (name, _), bound in self._sockets.items():
                if name not in self._resting:
                    self._loop.add_reader(bound, self._accept, name, bound)

    def _rest(self, listener: str, rest_ms: int) -> None:
        """Accept nothing at a listener for so long."""
        self._resting.add(listener)
        for (name, _), bound in self._sockets.items():
            if name == listener:
                self._loop.remove_reader(bound)
        self._loop.call_later(rest_ms / 1000, self._rested, listener)

    def _rested(self, listener: str) -> None:
        self._resting.discard(listener)
        if self._is_reading:
            for (name, _), bound in self._sockets.items():
                if name == listener:
                    self._loop.add_reader(bound, self._accept, name, bound)

    def _close_later(self, accepted: socket.socket, delay_ms: int) -> None:
        if len(self._throttled) >= _THROTTLED_MAX:
            accepted.close()
            return
        self._throttled.add(accepted)
        self._loop.call_later(delay_ms / 1000, self._close_throttled, accepted)

    def _close_throttled(self, accepted: socket.socket) -> None:
        self._throttled.discard(accepted)
        accepted.close()

    def _pause(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self.meter.pauses += self._processors is not None
            for bound in self._sockets.values():
                self._loop.remove_reader(bound)

    def _accept(self, listener: str, bound: socket.socket) -> None:
        for _ in range(_ACCEPTS_PER_WAKEUP):
            processors = self._processors
            if processors is None or not self._is_reading or listener in self._resting:
                return
            if self._quota.is_full():
                _log.warning("max.connections is reached: further connections wait")
                self._pause()
                return
            if not processors.has_live():
                self._pause()
                self._loop.call_later(_ACCEPT_PAUSE_S, self._read)
                return
            try:
                accepted, address = bound.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                _log.error("accept failed", listener=listener, reason=str(error))
                self._pause()
                self._loop.call_later(_ACCEPT_PAUSE_S, self._read)
                return
            self._admit(processors, listener, accepted, address)

    def _admit(self, processors: Processors, listener: str, accepted: socket.socket, address: tuple[str, int]) -> None:
        host, port = address[:2]
        if self._quota.admit(host) is Admission.TOO_MANY_FROM_ADDRESS:
            _log.warning("max.connections.per.ip is reached: connection closed", limit_key=host, peer=host)
            self.meter.refused[listener] += 1
            accepted.close()
            return
        throttle = self._rates.accepted(listener, host, monotonic_ms())
        if throttle.address_ms:
            self._quota.release(host)
            self.meter.throttled["ip"] += 1
            self._close_later(accepted, throttle.address_ms)
            return
        if throttle.listener_ms:
            self.meter.throttled["listener"] += 1
            self._rest(listener, throttle.listener_ms)
        self.meter.created[listener] += 1
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        own_port = accepted.getsockname()[1]
        node_id = node_of_port(self._policy, self.bound_ports[listener], own_port)
        processors.hand_over(accepted, listener, host, f"{host}:{port}", node_id)


def _listen(host: str, port: int, backlog: int, send_buffer_bytes: int) -> socket.socket:
    """Return a non-blocking listening socket. Connections have its `send_buffer_bytes`, or the system's if that is -1.
    Raises OSError that names the address.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if send_buffer_bytes >= 0:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        bound.bind((host.strip("[]"), port))
        bound.listen(backlog)
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    return bound
