"""Handshakes for each second of a side's CPU, and how long another client's requests take during a storm of them."""

from __future__ import annotations

import json
import socket
import ssl
import statistics
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Final

from barnabas_cli.local.layout import HOST
from bench.accounting import cpu_time
from bench.loads import create_topic
from bench.one_at_a_time import TOPIC, check_produced, produce_frame
from bench.report import ROOT
from bench.tls.copying import load_average
from bench.tls.secured import Secured

STORM_RATE: Final = 300.0
"""Handshakes per second of the storm in which another client's requests are measured: the same on both sides."""
_GAP_S: Final = 0.005
"""Between two requests of that client."""
_BEGUN_S: Final = 0.7
"""Python takes so long to start the storm's process."""


@dataclass(slots=True)
class Handshakes:
    """A storm of as many as there can be on one side, once."""

    side: str
    is_resumed: bool
    per_second: float
    per_cpu_second: float
    resumed_share: float
    failed: int
    load_average: float


@dataclass(slots=True)
class Victim:
    """The requests of a client beside a storm, or without one."""

    side: str
    is_storm: bool
    requests: int
    p50_ms: float
    p99_ms: float
    handshakes_per_second: float
    load_average: float


def measure_handshakes(name: str, secured: Secured, seconds: float, *, is_resumed: bool) -> Handshakes:
    before = cpu_time(secured.side.sessions)
    storm = json.loads(_start_storm(secured, seconds, 0.0, is_resumed=is_resumed).communicate()[0])
    cpu = cpu_time(secured.side.sessions).since(before)
    count = storm["handshakes"]
    return Handshakes(
        name,
        is_resumed,
        round(count / storm["seconds"], 1),
        round(count / cpu.total, 1),
        round(storm["resumed"] / max(1, count), 3),
        storm["failed"],
        load_average(),
    )


def measure_victim(name: str, secured: Secured, seconds: float, *, is_storm: bool) -> Victim:
    """Produce one record at a time by TLS, with acks=1."""
    storm = _start_storm(secured, seconds + 2 * _BEGUN_S, STORM_RATE, is_resumed=False) if is_storm else None
    time.sleep(_BEGUN_S)
    took = _produce_repeatedly(secured, seconds)
    per_second = 0.0
    if storm is not None:
        said = json.loads(storm.communicate()[0])
        per_second = round(said["handshakes"] / said["seconds"], 1)
    p99 = statistics.quantiles(took, n=100)[98]
    return Victim(
        name,
        is_storm,
        len(took),
        round(statistics.median(took) * 1000, 2),
        round(p99 * 1000, 2),
        per_second,
        load_average(),
    )


def prepare(secured: Secured) -> None:
    create_topic(secured.side.bootstrap, TOPIC, partitions=1)


def _start_storm(secured: Secured, seconds: float, rate: float, *, is_resumed: bool) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "bench.tls.storm", secured.bootstrap, str(secured.authority)]
    command += ["--seconds", str(seconds), "--rate", str(rate), *(["--resumed"] if is_resumed else [])]
    return subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)


def _produce_repeatedly(secured: Secured, seconds: float) -> list[float]:
    context, frame = ssl.create_default_context(cafile=secured.authority), produce_frame(acks=1)
    took: list[float] = []
    with (
        socket.create_connection((HOST, secured.port), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname=HOST) as tls,
    ):
        tls.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        until = time.perf_counter() + seconds
        response = b""
        while time.perf_counter() < until:
            began = time.perf_counter()
            tls.sendall(frame)
            response = _receive(tls)
            took.append(time.perf_counter() - began)
            time.sleep(_GAP_S)
    check_produced(response)
    return took


def _receive(tls: ssl.SSLSocket) -> bytes:
    received = b""
    while len(received) < 4 or len(received) < 4 + struct.unpack_from(">i", received)[0]:
        more = tls.recv(1 << 16)
        if not more:
            raise ConnectionError("the broker has closed the connection")
        received += more
    return received[4:]
