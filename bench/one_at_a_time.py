"""One producer that waits for each answer (acks=all), on Barnabas by lanes, Barnabas by gRPC alone, and Apache Kafka.

    python -m bench.one_at_a_time [--replicas 3] [--pairs 5] [--seconds 2]

All sides run at the same time, and are idle but for the one whose turn it is. A request has one record of 100 bytes and
is sent to the leader of its partition when the previous one is answered. CPU is of all processes of a side.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import statistics
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import decode_response, encode_request
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import Request, Response
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from barnabas.wire.record_batch import Record, build_batch
from bench.accounting import cpu_time, switches, touch_pages
from bench.ending import end_in_order
from bench.report import PAGE, command_line, commit, describe_machine, provenance, save_figures, utc_now, write_section
from bench.sides import ApacheKafkaSide, BarnabasSide, Side

TOPIC: Final = "one-at-a-time"
RECORD_BYTES: Final = 100
WARM_UP_SECONDS: Final = 3.0
GRPC_PORT: Final = 28_200
"""Of a Barnabas whose messages go by gRPC, beside another one."""
_READY_SECONDS_MAX: Final = 60
_TOUCHED_BYTES: Final = 1 << 26
"""Free memory touched before each sample: small requests take few new pages."""
KAFKA: Final = "Apache Kafka"


@dataclass(slots=True)
class Measured:
    side: str
    requests: int
    per_second: float
    p50_us: float
    p99_us: float
    cpu_us: float
    """Per request, of all processes of the side."""
    system_cpu_us: float
    """What of it was the kernel's."""
    switches: float
    """Voluntary switches between threads, of all processes of the side, for each request."""


@dataclass(slots=True)
class Run:
    command: str
    commit: str
    taken: str
    machine: dict[str, str]
    replicas: int
    measured: list[Measured]


class Connection:
    def __init__(self, host: str, port: int) -> None:
        self.address = (host, port)
        self._socket = socket.create_connection((host, port), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""

    def ask_frame(self, frame: bytes) -> bytes:
        """Return the response without its size."""
        self.send(frame)
        return self.receive()

    def send(self, frame: bytes) -> None:
        self._socket.sendall(frame)

    def receive(self) -> bytes:
        """Return the next response without its size; what has come of those behind it is kept."""
        received = self._received
        while len(received) < 4 or len(received) < 4 + struct.unpack_from(">i", received)[0]:
            more = self._socket.recv(1 << 16)
            if not more:
                raise ConnectionError("the broker has closed the connection")
            received += more
        end = 4 + struct.unpack_from(">i", received)[0]
        self._received = received[end:]
        return received[4:end]

    def ask(self, api_key: ApiKey, version: int, request: Request) -> Response:
        frame = b"".join(encode_request(request, version, 1, "bench"))
        return decode_response(api_key, version, memoryview(self.ask_frame(frame)))[1]

    def close(self) -> None:
        self._socket.close()


def connect_to_leader(bootstrap: str, replicas: int) -> Connection:
    """Create the topic, wait for its replicas, and return a connection to the leader of its partition."""
    host, _, port = bootstrap.rpartition(":")
    connection = Connection(host, int(port))
    connection.ask(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest([CreatableTopic(TOPIC, 1, replicas)], 30_000))
    deadline = time.monotonic() + _READY_SECONDS_MAX
    while time.monotonic() < deadline:
        response = connection.ask(ApiKey.METADATA, 9, MetadataRequest([MetadataRequestTopic(name=TOPIC)]))
        assert isinstance(response, MetadataResponse)
        partitions = response.topics[0].partitions
        if partitions and len(partitions[0].isr_nodes) == replicas and partitions[0].leader_id >= 0:
            connection.close()
            addresses = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
            return Connection(*addresses[partitions[0].leader_id])
        time.sleep(0.1)
    raise TimeoutError(f"{TOPIC} at {bootstrap} has no leader with {replicas} replicas in sync")


def produce_frame(acks: int = -1) -> bytes:
    records = build_batch([Record(None, bytes(RECORD_BYTES), time.time_ns() // 1_000_000)])
    data = TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, records)])
    return b"".join(encode_request(ProduceRequest(None, acks, 30_000, [data]), 9, 1, "bench"))


def check_produced(frame: bytes) -> None:
    _, response = decode_response(ApiKey.PRODUCE, 9, memoryview(frame))
    assert isinstance(response, ProduceResponse)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE, response


def ask_repeatedly(
    connection: Connection, frame: bytes, seconds: float, check: Callable[[bytes], None] = check_produced
) -> list[float]:
    """Return the duration of each request, in seconds. The last response is checked."""
    took: list[float] = []
    ends = time.perf_counter() + seconds
    now = time.perf_counter()
    while now < ends:
        response = connection.ask_frame(frame)
        before, now = now, time.perf_counter()
        took.append(now - before)
    check(response)
    return took


def measure(
    name: str,
    side: Side,
    connection: Connection,
    frame: bytes,
    seconds: float,
    check: Callable[[bytes], None] = check_produced,
) -> Measured:
    touch_pages(_TOUCHED_BYTES)
    switches_before = switches(side.sessions)
    cpu_before = cpu_time(side.sessions)
    took = ask_repeatedly(connection, frame, seconds, check)
    cpu = cpu_time(side.sessions).since(cpu_before)
    p50, p99 = statistics.median(took), statistics.quantiles(took, n=100)[98]
    count = len(took)
    return Measured(
        name,
        count,
        round(count / sum(took), 1),
        round(p50 * 1e6, 1),
        round(p99 * 1e6, 1),
        round(cpu.total / count * 1e6, 1),
        round(cpu.system / count * 1e6, 1),
        round((switches(side.sessions) - switches_before) / count, 2),
    )


@contextlib.contextmanager
def running_sides(directory: Path, replicas: int) -> Iterator[dict[str, Side]]:
    """Start all sides, and stop them at the end."""
    sides: dict[str, Side] = {
        "Barnabas, lane": BarnabasSide(directory / "lane", replicas, lane="on"),
        "Barnabas, gRPC": BarnabasSide(directory / "grpc", replicas, GRPC_PORT, lane="off"),
        KAFKA: ApacheKafkaSide(directory / "kafka", replicas),
    }
    with contextlib.ExitStack() as stack:
        for side in sides.values():
            stack.callback(side.stop)
            side.start()
        yield sides


def section(run: Run, path: Path) -> str:
    sides = list(dict.fromkeys(each.side for each in run.measured))
    lines = [
        f"{provenance(run)} Medians of {len(run.measured) // len(sides)} turns of each side; "
        f"{run.replicas} replica{'s' if run.replicas > 1 else ''}. All figures: "
        f"`{path.relative_to(PAGE.parents[2])}`.",
        "",
        "| side | requests/s | spread | p50 | p99 | CPU per request | of it system | switches "
        "| requests/s ÷ Apache Kafka's |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    rates = {side: statistics.median(each.per_second for each in run.measured if each.side == side) for side in sides}
    for side in sides:
        of_side = [each for each in run.measured if each.side == side]
        p50, p99, cpu, system, switched = [
            statistics.median(figures)
            for figures in zip(
                *[(each.p50_us, each.p99_us, each.cpu_us, each.system_cpu_us, each.switches) for each in of_side],
                strict=True,
            )
        ]
        low, high = min(each.per_second for each in of_side), max(each.per_second for each in of_side)
        lines.append(
            f"| {side} | {rates[side]:,.0f} | {low:,.0f} to {high:,.0f} | {p50:,.0f} µs | {p99:,.0f} µs "
            f"| {cpu:,.0f} µs | {system:,.0f} µs | {switched:.1f} | {rates[side] / rates[KAFKA]:.2f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="One producer that waits for each answer, beside Apache Kafka.")
    parser.add_argument("--replicas", type=int, choices=(1, 3), default=1)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each measurement")
    arguments = parser.parse_args()
    end_in_order()
    run = Run(command_line("bench.one_at_a_time"), commit(), utc_now(), describe_machine(), arguments.replicas, [])
    frame = produce_frame()
    with (
        tempfile.TemporaryDirectory(prefix="barnabas-bench-") as directory,
        running_sides(Path(directory), arguments.replicas) as sides,
    ):
        connections = {name: connect_to_leader(side.bootstrap, arguments.replicas) for name, side in sides.items()}
        for connection in connections.values():
            ask_repeatedly(connection, frame, WARM_UP_SECONDS)
        for _ in range(arguments.pairs):
            for name, side in sides.items():
                run.measured.append(measure(name, side, connections[name], frame, arguments.seconds))
                print(run.measured[-1], flush=True)
    path = save_figures(run, f"one-at-a-time-{arguments.replicas}")
    text = section(run, path)
    mark = f"made by bench.one_at_a_time with {arguments.replicas}"
    write_section(PAGE, f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->", text)
    print(text)


if __name__ == "__main__":
    main()
