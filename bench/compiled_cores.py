"""Compiled cores beside interpreted ones: CPU and time per request, in pairs of two clusters that run side by side.

    python -m bench.compiled_cores [--pairs 5] [--seconds 2]

Both clusters have one logstore, and are idle but for the one whose turn it is. A plain socket sends the same frame as
soon as the previous one is answered, or with 20 in flight. CPU is of all processes of a side. Needs `make compiled`.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from barnabas.cores import COMPILED, INTERPRETED, find_build
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import decode_response, encode_request
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import Request
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.wire.messages.list_offsets import (
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from bench.accounting import cpu_time, memory_bytes, touch_pages
from bench.ending import end_in_order
from bench.one_at_a_time import TOPIC, Connection, check_produced, connect_to_leader, produce_frame
from bench.report import (
    PAGE,
    command_line,
    commit,
    describe_machine,
    provenance,
    save_figures,
    utc_now,
    without_paths,
    write_section,
)
from bench.sides import BarnabasSide

IN_FLIGHT: Final = 20
WARM_UP_SECONDS: Final = 1.5
GROUP: Final = "bench-compiled"
_MARK: Final = "made by make bench-compiled"
_PORTS: Final = {INTERPRETED: 28_000, COMPILED: 28_200}
_TOUCHED_BYTES: Final = 1 << 26
_READY_SECONDS_MAX: Final = 60
_SESSION_MS: Final = 1_800_000
_RETRIED: Final = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


@dataclass(slots=True, frozen=True)
class Load:
    name: str
    in_flight: int
    frame: bytes
    check: Callable[[bytes], None]


@dataclass(slots=True)
class Measured:
    load: str
    cores: str
    requests: int
    cpu_us: float
    """Per request, of all processes of the side."""
    system_cpu_us: float
    p50_us: float
    """Between a request and its answer, with those in flight before it."""


@dataclass(slots=True)
class Run:
    command: str
    commit: str
    taken: str
    machine: dict[str, str]
    flags: dict[str, dict[str, str]]
    memory_bytes: dict[str, int] = field(default_factory=dict)
    """By cores: of all processes of a side at the end, shared pages once."""
    measured: list[Measured] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compiled cores beside interpreted ones.")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each measurement")
    arguments = parser.parse_args()
    if find_build() is None:
        raise SystemExit("bench.compiled_cores: there is no build of compiled cores: make compiled")
    end_in_order()
    run = Run(command_line("bench.compiled_cores"), commit(), utc_now(), describe_machine(), {})
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as directory, contextlib.ExitStack() as stack:
        sides: dict[str, BarnabasSide] = {}
        for cores, port in _PORTS.items():
            side = sides[cores] = BarnabasSide(Path(directory) / cores, port=port, cores=cores)
            stack.callback(side.stop)
            side.start()
            run.flags[cores] = without_paths(side.flags)
        connections = {cores: connect_to_leader(side.bootstrap, 1) for cores, side in sides.items()}
        loads = {cores: loads_of(connection) for cores, connection in connections.items()}
        for cores, connection in connections.items():
            for load in loads[cores]:
                ask(connection, load, WARM_UP_SECONDS)
        for number in range(arguments.pairs):
            # Which is first changes with each pair: a machine that slows down favours neither.
            order = list(sides) if number % 2 else list(reversed(sides))
            for place in range(len(loads[COMPILED])):
                for cores in order:
                    load = loads[cores][place]
                    run.measured.append(measure(cores, sides[cores], connections[cores], load, arguments.seconds))
                    print(run.measured[-1], flush=True)
        run.memory_bytes = {cores: memory_bytes(side.sessions) for cores, side in sides.items()}
    path = save_figures(run, "compiled-cores")
    text = section(run, path)
    write_section(PAGE, f"<!-- {_MARK}: begin -->", f"<!-- {_MARK}: end -->", text)
    print(text)


def loads_of(connection: Connection) -> list[Load]:
    """Return the requests, after they have become possible: there are records, and a group with one member."""
    check_produced(connection.ask_frame(produce_frame()))
    member_id, generation_id = join(connection)
    fetch = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        topics=[FetchTopic(TOPIC, partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=1)])],
    )
    offsets = ListOffsetsRequest(
        -1, 0, [ListOffsetsTopic(TOPIC, [ListOffsetsPartition(0, timestamp=LATEST_TIMESTAMP)])]
    )
    committed = [OffsetCommitRequestTopic(TOPIC, partitions=[OffsetCommitRequestPartition(0, 1, -1, "")])]
    commit_offsets = OffsetCommitRequest(GROUP, generation_id, member_id, topics=committed)
    heartbeat = HeartbeatRequest(GROUP, generation_id, member_id)
    return [
        Load("Produce, acks=1", IN_FLIGHT, produce_frame(1), check_produced),
        Load("Produce, acks=all", 1, produce_frame(), check_produced),
        Load("Fetch of one batch", 1, *_asking(ApiKey.FETCH, 12, fetch)),
        Load("ListOffsets", 1, *_asking(ApiKey.LIST_OFFSETS, 7, offsets)),
        Load("OffsetCommit", 1, *_asking(ApiKey.OFFSET_COMMIT, 8, commit_offsets)),
        Load("OffsetCommit", IN_FLIGHT, *_asking(ApiKey.OFFSET_COMMIT, 8, commit_offsets)),
        Load("Heartbeat", 1, *_asking(ApiKey.HEARTBEAT, 4, heartbeat)),
        Load("Heartbeat", IN_FLIGHT, *_asking(ApiKey.HEARTBEAT, 4, heartbeat)),
    ]


def _asking(api_key: ApiKey, version: int, request: Request) -> tuple[bytes, Callable[[bytes], None]]:
    def check(frame: bytes) -> None:
        _, response = decode_response(api_key, version, memoryview(frame))
        match response:
            case FetchResponse():
                (partition,) = response.responses[0].partitions
                assert partition.error_code == ErrorCode.NONE, response
                assert partition.records, response
            case ListOffsetsResponse():
                assert response.topics[0].partitions[0].error_code == ErrorCode.NONE, response
            case OffsetCommitResponse():
                assert response.topics[0].partitions[0].error_code == ErrorCode.NONE, response
            case HeartbeatResponse():
                assert response.error_code == ErrorCode.NONE, response

    return b"".join(encode_request(request, version, 1, "bench")), check


def join(connection: Connection) -> tuple[str, int]:
    """Return the member id and the generation of the only member of a group."""
    request = JoinGroupRequest(
        GROUP, _SESSION_MS, _SESSION_MS, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")]
    )
    deadline = time.monotonic() + _READY_SECONDS_MAX
    while True:
        joined = connection.ask(ApiKey.JOIN_GROUP, 7, request)
        assert isinstance(joined, JoinGroupResponse)
        if joined.error_code == ErrorCode.NONE:
            break
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            request.member_id = joined.member_id
        elif joined.error_code not in _RETRIED or time.monotonic() > deadline:
            raise RuntimeError(f"the group can't be joined: {ErrorCode(joined.error_code).name}")
        time.sleep(0.1)
    share = [SyncGroupRequestAssignment(joined.member_id, b"share")]
    sync = SyncGroupRequest(GROUP, joined.generation_id, joined.member_id, assignments=share)
    synced = connection.ask(ApiKey.SYNC_GROUP, 4, sync)
    assert isinstance(synced, SyncGroupResponse)
    assert synced.error_code == ErrorCode.NONE, synced
    return joined.member_id, joined.generation_id


def ask(connection: Connection, load: Load, seconds: float) -> list[float]:
    """Return how long each request took, in seconds. The last response is checked."""
    began: list[float] = []
    took: list[float] = []
    ends = time.perf_counter() + seconds
    for _ in range(load.in_flight):
        began.append(time.perf_counter())
        connection.send(load.frame)
    while len(took) < len(began):
        response = connection.receive()
        now = time.perf_counter()
        took.append(now - began[len(took)])
        if now < ends:
            began.append(now)
            connection.send(load.frame)
    load.check(response)
    return took


def measure(cores: str, side: BarnabasSide, connection: Connection, load: Load, seconds: float) -> Measured:
    touch_pages(_TOUCHED_BYTES)
    before = cpu_time(side.sessions)
    took = ask(connection, load, seconds)
    cpu = cpu_time(side.sessions).since(before)
    count = len(took)
    name = load.name + (f", {load.in_flight} in flight" if load.in_flight > 1 else ", one at a time")
    total_us, system_us = [round(each / count * 1e6, 1) for each in (cpu.total, cpu.system)]
    return Measured(name, cores, count, total_us, system_us, round(statistics.median(took) * 1e6, 1))


def section(run: Run, path: Path) -> str:
    busy = "**The machine was busy**: only the CPU says something."
    memory = ", ".join(f"{cores} {run.memory_bytes[cores] >> 20} MiB" for cores in _PORTS)
    names = list(dict.fromkeys(each.load for each in run.measured))
    lines = [
        f"{provenance(run, busy=busy)} "
        f"Medians of {len(run.measured) // len(names) // 2} pairs; a ratio is the median of the pairs' ratios. "
        f"Memory of all processes at the end: {memory}. All figures: `{path.relative_to(PAGE.parents[2])}`.",
        "",
        f"| requests | CPU, {INTERPRETED} | CPU, {COMPILED} | {COMPILED} ÷ {INTERPRETED} | pair by pair "
        f"| p50, {INTERPRETED} | p50, {COMPILED} | ratio |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name in names:
        plain, binary = [
            [each for each in run.measured if each.load == name and each.cores == cores] for cores in _PORTS
        ]
        cpu = [theirs.cpu_us / ours.cpu_us for ours, theirs in zip(plain, binary, strict=True)]
        time_ratios = [theirs.p50_us / ours.p50_us for ours, theirs in zip(plain, binary, strict=True)]
        middle = [
            statistics.median(getattr(each, key) for each in of)
            for key in ("cpu_us", "p50_us")
            for of in (plain, binary)
        ]
        lines.append(
            f"| {name} | {middle[0]:,.0f} µs | {middle[1]:,.0f} µs | **{statistics.median(cpu):.2f}** "
            f"| {min(cpu):.2f} to {max(cpu):.2f} | {middle[2]:,.0f} µs | {middle[3]:,.0f} µs "
            f"| {statistics.median(time_ratios):.2f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
