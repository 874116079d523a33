"""What a message from one process of this host to another costs by the lane, and by gRPC alone.

    python -m bench.lane [--pairs 5] [--seconds 0.5]

Two processes send one message to and fro on a stream of `barnabas.runtime.streams`, each in its turn: nothing overlaps,
as when a client waits for its answer. Both ways take turns, a pair after the other. What a service does with a message
is not in it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from barnabas.runtime.rpc import create_server
from barnabas.runtime.streams import ServerStream, StreamLink, register_stream
from bench.ending import end_in_order
from bench.report import PAGE, command_line, commit, describe_machine, provenance, save_figures, utc_now, write_section

SERVICE, METHOD = "barnabas.bench.v1.Echo", "Talk"
HEARTBEAT: Final = b"heartbeat"
SIZES: Final = {"200 B": 200, "16 KiB": 16 << 10, "1 MiB": 1 << 20}
WAYS: Final = {"gRPC": "off", "lane": "on"}


@dataclass(slots=True)
class Measured:
    size: str
    way: str
    round_trips: int
    round_trip_us: float
    cpu_us: float
    """Of both processes, with all their threads."""


@dataclass(slots=True)
class Run:
    command: str
    commit: str
    taken: str
    machine: dict[str, str]
    measured: list[Measured]


class Echo:
    def __init__(self, stream: ServerStream) -> None:
        self._stream = stream

    def on_message(self, data: bytes) -> None:
        if data != HEARTBEAT:
            self._stream.send(data)

    def on_closed(self, reason: str) -> None:
        pass

    def pack_heartbeat(self, count: int) -> bytes:
        return HEARTBEAT


async def serve() -> None:
    server, port = create_server("127.0.0.1:0")
    register_stream(server, SERVICE, METHOD, Echo)
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


class Client:
    """Sends a message again whenever it comes back."""

    def __init__(self, address: str, size: int) -> None:
        self._message = bytes(size)
        self._stops_at = 0.0
        self._changed = asyncio.Event()
        self.round_trips = 0
        self._link = StreamLink(
            address,
            f"/{SERVICE}/{METHOD}",
            hello=b"hello",
            pack_heartbeat=lambda count: HEARTBEAT,
            on_up=lambda data: self._changed.set(),
            on_message=self._received,
            on_down=lambda reason: None,
        )

    async def run(self, seconds: float) -> float:
        """Return how long it took."""
        self.round_trips = 0
        self._changed.clear()
        began = time.perf_counter()
        self._stops_at = began + seconds
        self._link.send(self._message)
        await self._changed.wait()
        return time.perf_counter() - began

    async def __aenter__(self) -> Client:
        self._link.start()
        await self._changed.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._link.close()

    def _received(self, data: bytes) -> None:
        if data == HEARTBEAT:
            return
        self.round_trips += 1
        if time.perf_counter() < self._stops_at:
            self._link.send(data)
        else:
            self._changed.set()


async def measure(address: str, server_pid: int, size: str, way: str, seconds: float) -> Measured:
    os.environ["BARNABAS_LANE"] = WAYS[way]
    async with Client(address, SIZES[size]) as client:
        await client.run(seconds / 5)
        cpu_ns = cpu_ns_of(server_pid) + cpu_ns_of(os.getpid())
        took = await client.run(seconds)
        cpu_ns = cpu_ns_of(server_pid) + cpu_ns_of(os.getpid()) - cpu_ns
        count = client.round_trips
    return Measured(size, way, count, round(took / count * 1e6, 1), round(cpu_ns / count / 1000, 1))


def cpu_ns_of(pid: int) -> int:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def median(run: Run, size: str, way: str, field: str) -> float:
    figures: list[float] = [getattr(each, field) for each in run.measured if (each.size, each.way) == (size, way)]
    return statistics.median(figures)


def section(run: Run, path: Path) -> str:
    busy = "**The machine was busy: only the ratios of CPU mean something.**"
    lines = [
        f"{provenance(run, busy=busy)} Medians; CPU is of both processes. "
        f"All figures: `{path.relative_to(PAGE.parents[2])}`.",
        "",
        "| message | round trip, gRPC | lane | CPU, gRPC | lane | CPU, gRPC ÷ lane |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for size in SIZES:
        figures = [median(run, size, way, field) for field in ("round_trip_us", "cpu_us") for way in WAYS]
        texts = [f"{each:,.0f} µs" for each in figures]
        lines.append(f"| {size} | {' | '.join(texts)} | {figures[2] / figures[3]:.1f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="What a message costs by the lane, and by gRPC alone.")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each measurement")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve())
        return
    end_in_order()
    run = Run(command_line("bench.lane"), commit(), utc_now(), describe_machine(), [])
    environment = {**os.environ, "BARNABAS_LANE": "on"}
    command = [sys.executable, "-m", "bench.lane", "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stdout is not None
        address = f"127.0.0.1:{server.stdout.readline().strip()}"

        async def measure_all() -> None:
            for _ in range(arguments.pairs):
                for size in SIZES:
                    for way in WAYS:
                        run.measured.append(await measure(address, server.pid, size, way, arguments.seconds))

        try:
            asyncio.run(measure_all())
        finally:
            server.kill()
    path = save_figures(run, "lane")
    text = section(run, path)
    write_section(PAGE, "<!-- made by bench.lane: begin -->", "<!-- made by bench.lane: end -->", text)
    print(text)


if __name__ == "__main__":
    main()
