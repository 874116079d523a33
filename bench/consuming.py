"""One consumer that reads six partitions from their beginning: at the tail, from a backlog, and from a cold disk.

    python -m bench.consuming [--pairs 5] [--megabytes 300] [--before CHECKOUT]

- tail: the brokers have just taken the records.
- backlog: the brokers have been restarted since; the page cache has the records.
- cold: the page cache has been made to forget them, on all sides in the same way, before each measurement.

All sides run at the same time, and are idle but for the one whose turn it is. The consumer is a bare one, so that two
cores are enough for it and for a broker: one fetch after the other over one connection, of 1 MiB at most for each
partition, and no look at the records but at the lengths of their batches. CPU is of all processes of a side.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import statistics
import struct
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import decode_response, encode_request
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from barnabas.wire.record_batch import iterate_headers
from bench.accounting import TOUCHED_BYTES, cpu_time, touch_pages
from bench.ending import end_in_order
from bench.loads import LOADS, PARTITIONS, ProduceLoad, create_topic
from bench.one_at_a_time import GRPC_PORT
from bench.report import (
    PAGE,
    RESULTS,
    command_line,
    commit,
    describe_machine,
    provenance,
    save_figures,
    utc_now,
    write_section,
)
from bench.sides import ApacheKafkaSide, BarnabasSide, Side

TOPIC: Final = "consumed"
LANE: Final = "Barnabas, lane"
GRPC: Final = "Barnabas, gRPC"
BEFORE: Final = "Barnabas, before"
KAFKA: Final = "Apache Kafka"
ROWS: Final = ("tail", "backlog", "cold")
FETCH_VERSION: Final = 11
PARTITION_BYTES: Final = 1 << 20
MEGABYTE: Final = 1_000_000
_SIZE: Final = struct.Struct(">i")
_BEFORE_PORT: Final = 28_300
_BEGIN: Final = "<!-- made by bench.consuming: begin -->"
_END: Final = "<!-- made by bench.consuming: end -->"


@dataclass(slots=True)
class Measured:
    row: str
    side: str
    megabytes: float
    megabytes_per_second: float
    cpu_ms_per_megabyte: float
    """Of all processes of the side."""
    system_cpu_ms_per_megabyte: float
    """What of it was the kernel's."""


@dataclass(slots=True)
class Run:
    command: str
    commit: str
    taken: str
    machine: dict[str, str]
    measured: list[Measured]


class BareConsumer:
    """Fetches all partitions over one connection, each answer into the same memory."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._buffer = memoryview(bytearray((PARTITIONS + 1) * PARTITION_BYTES))
        self._offsets = [0] * PARTITIONS
        self.byte_count = 0

    def fetch(self) -> bool:
        """Fetch what is next of each partition; return whether there was anything."""
        partitions = [
            FetchPartition(
                partition=partition, fetch_offset=offset, partition_max_bytes=PARTITION_BYTES, current_leader_epoch=-1
            )
            for partition, offset in enumerate(self._offsets)
        ]
        topic = FetchTopic(topic=TOPIC, partitions=partitions)
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=55 << 20, topics=[topic])
        self._socket.sendall(b"".join(encode_request(request, FETCH_VERSION, 1, "bench")))
        _, response = decode_response(ApiKey.FETCH, FETCH_VERSION, self._receive())
        assert isinstance(response, FetchResponse)
        found = False
        for answer in response.responses[0].partitions if response.responses else ():
            assert answer.error_code == ErrorCode.NONE, answer.error_code
            records = answer.records or b""
            for _, header in iterate_headers(records):
                self._offsets[answer.partition_index] = header.next_offset
                self.byte_count += header.size_bytes
                found = True
        return found

    def _receive(self) -> memoryview:
        received = 0
        end = _SIZE.size
        while received < end:
            count = self._socket.recv_into(self._buffer[received:])
            assert count, "the broker closed the connection"
            if received < _SIZE.size <= received + count:
                end = _SIZE.size + _SIZE.unpack_from(self._buffer)[0]
            received += count
        return self._buffer[_SIZE.size : end]

    def close(self) -> None:
        self._socket.close()


def measure(row: str, name: str, side: Side, directory: Path, touched_bytes: int = TOUCHED_BYTES) -> Measured:
    touch_pages(touched_bytes)
    if row == "cold":
        forget_pages(directory)
    cpu_before = cpu_time(side.sessions)
    consumer = BareConsumer(side.bootstrap)
    began = time.perf_counter()
    while consumer.fetch():
        pass
    seconds = time.perf_counter() - began
    consumer.close()
    cpu = cpu_time(side.sessions).since(cpu_before)
    megabytes = consumer.byte_count / MEGABYTE
    return Measured(
        row,
        name,
        round(megabytes, 1),
        round(megabytes / seconds, 1),
        round(cpu.total / megabytes * 1e3, 3),
        round(cpu.system / megabytes * 1e3, 3),
    )


def forget_pages(directory: Path) -> None:
    """Have the kernel drop what it has of the topic's files from memory; it drops only what is on the disk."""
    for path in directory.rglob(f"{TOPIC}-*/*.log"):
        with path.open("rb") as file:
            os.fdatasync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@contextlib.contextmanager
def running_sides(directory: Path, before: Path | None) -> Iterator[dict[str, Side]]:
    """Start all sides, each in the directory of its name, and stop them at the end."""
    sides: dict[str, Side] = {
        LANE: BarnabasSide(_home(directory, LANE), lane="on"),
        GRPC: BarnabasSide(_home(directory, GRPC), port=GRPC_PORT, lane="off"),
    }
    if before is not None:
        sides[BEFORE] = BarnabasSide(_home(directory, BEFORE), port=_BEFORE_PORT, checkout=before)
    sides[KAFKA] = ApacheKafkaSide(_home(directory, KAFKA))
    with contextlib.ExitStack() as stack:
        for side in sides.values():
            stack.callback(side.stop)
            side.start()
        yield sides


def _home(directory: Path, side: str) -> Path:
    # A comma would separate log directories.
    return directory / side.replace(", ", "-")


def fill(side: Side, megabytes: int) -> None:
    """Write so much in batches as large as librdkafka makes them."""
    load = next(load for load in LOADS if load.name == "batched-1000")
    create_topic(side.bootstrap, TOPIC)
    written = 0
    while written < megabytes * MEGABYTE:
        written += ProduceLoad(side.bootstrap, load).run(TOPIC, 0.2).records * load.record_bytes


def section(run: Run, path: Path) -> str:
    sides = list(dict.fromkeys(each.side for each in run.measured))
    turns = len(run.measured) // len(sides) // len(ROWS)
    lines = [
        f"{provenance(run)} Medians of {turns} turns of each side. All figures: `{path.relative_to(PAGE.parents[2])}`.",
        "",
        "| row | side | MB/s | spread | CPU per MB | of it system | MB/s ÷ Apache Kafka's | CPU ÷ Apache Kafka's |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in ROWS:
        of_row = {side: [each for each in run.measured if (each.row, each.side) == (row, side)] for side in sides}
        rates = {side: statistics.median(each.megabytes_per_second for each in of_row[side]) for side in sides}
        costs = {side: statistics.median(each.cpu_ms_per_megabyte for each in of_row[side]) for side in sides}
        for side in sides:
            system = statistics.median(each.system_cpu_ms_per_megabyte for each in of_row[side])
            all_rates = [each.megabytes_per_second for each in of_row[side]]
            lines.append(
                f"| {row} | {side} | {rates[side]:,.0f} | {min(all_rates):,.0f} to {max(all_rates):,.0f} "
                f"| {costs[side]:.2f} ms | {system:.2f} ms | {rates[side] / rates[KAFKA]:.2f} "
                f"| {costs[side] / costs[KAFKA]:.2f} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="One consumer at the tail, of a backlog, and of a cold disk.")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=300, help="to consume in each measurement")
    parser.add_argument("--before", type=Path, help="another checkout of Barnabas, as one more side")
    arguments = parser.parse_args()
    end_in_order()
    run = Run(command_line("bench.consuming"), commit(), utc_now(), describe_machine(), [])
    # On a disk: temporary files may be in memory.
    with tempfile.TemporaryDirectory(prefix="consuming-", dir=RESULTS.parents[1] / ".cache") as home:
        directory = Path(home)
        with running_sides(directory, arguments.before) as sides:
            for side in sides.values():
                fill(side, arguments.megabytes)
            for row in ROWS:
                if row == "backlog":
                    for side in sides.values():
                        side.stop()
                        side.start()
                for name, side in sides.items():
                    measure("warm-up", name, side, _home(directory, name))
                for _ in range(arguments.pairs):
                    for name, side in sides.items():
                        run.measured.append(measure(row, name, side, _home(directory, name)))
                        print(run.measured[-1], flush=True)
    path = save_figures(run, "consuming")
    text = section(run, path)
    write_section(PAGE, _BEGIN, _END, text)
    print(text)


if __name__ == "__main__":
    main()
