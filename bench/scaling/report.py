"""The tables of docs/scaling.md, from the unit costs, the model, and the newest table of `make bench`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Final

import msgspec

from bench.report import RESULTS, ROOT, provenance
from bench.scaling.model import PROCESSORS, TURN_MS_MAX, Figures, Guesses, Size, StreamCost
from bench.scaling.unit_costs import UnitCosts
from bench.table.report import TableRun
from bench.table.rows import OURS, Row

PAGE: Final = ROOT / "docs/scaling.md"
SIZES: Final = (
    Size(2, 3, 10_000),
    Size(10, 30, 100_000),
    Size(30, 100, 300_000),
    Size(100, 300, 500_000),
    Size(300, 1_000, 1_000_000),
)
GATEWAY_SHARE: Final = 0.55
"""Of the CPU of a pipelined produce on one replica that is the gateway's; 0.43 is the logstore's (performance.md, where
the time goes)."""
MEGABYTE: Final = 1e6
_LANE_MESSAGE_ENDS: Final = 4
"""A round trip is two messages, each sent and received."""


@dataclass(slots=True)
class ScalingRun:
    command: str
    commit: str
    taken: str
    machine: dict[str, str]
    unit: UnitCosts
    stream: StreamCost
    stream_source: str
    guesses: Guesses
    figures: list[Figures]


@dataclass(slots=True, frozen=True)
class Throughput:
    """CPU of all processes, as `make bench` has measured it."""

    source: str
    load_average: str
    row: Row
    gateway_cpu: float
    """What of it is the gateway's."""

    @property
    def cpu(self) -> float:
        return _cpu(self.row)

    def gateways(self, gateways: int) -> float:
        """What so many gateways carry, with a core for each processor, in the unit of the row."""
        return gateways * PROCESSORS * self._per_core / self.gateway_cpu

    def logstores(self, logstores: int) -> float:
        """What so many logstores carry, with a core for each one's data process."""
        return logstores * self._per_core / (self.cpu - self.gateway_cpu)

    @property
    def _per_core(self) -> float:
        """Units of CPU in a second of a core."""
        return 1e6 if self.row.cpu_unit.startswith("µs") else 1e3


def _cpu(row: Row) -> float:
    return row.median(OURS, lambda sample: sample.cpu)


def newest_lane_result() -> tuple[StreamCost, str]:
    """The CPU of one end of a small message by gRPC, from the newest result of `python -m bench.lane`."""
    path = max(RESULTS.glob("lane-*.json"))
    measured = msgspec.json.decode(path.read_bytes())["measured"]
    cpu = sorted(each["cpu_us"] for each in measured if (each["size"], each["way"]) == ("200 B", "gRPC"))
    return StreamCost(cpu[len(cpu) // 2] / _LANE_MESSAGE_ENDS), str(path.relative_to(ROOT))


def newest_throughputs(names: Mapping[str, str]) -> list[Throughput]:
    """The rows of these names, from the newest table that has them; by gRPC where there is one, as between hosts.

    `names`: by the row, the one on one replica whose share of the gateway it has: replicas are the logstores' work.
    """
    found = []
    for path in sorted(
        RESULTS.glob("bench-*.json"), key=lambda path: ("grpc" in path.name, path.stem[-17:]), reverse=True
    ):
        run = msgspec.json.decode(path.read_bytes(), type=TableRun)
        rows = {row.name: row for stage in run.stages for row in stage.rows if row.samples.get(OURS)}
        if names.keys() <= rows.keys():
            for name, on_one_replica in names.items():
                share = GATEWAY_SHARE * _cpu(rows[on_one_replica])
                load = run.machine["load average before"]
                found.append(Throughput(str(path.relative_to(ROOT)), load, rows[name], share))
            break
    return found


def text(run: ScalingRun, throughputs: list[Throughput]) -> dict[str, str]:
    """Return the sections of the page by the names of their marks."""
    return {
        "unit costs": _unit_costs(run),
        "sizes": _sizes(run),
        "throughput": _throughput(throughputs),
    }


def _unit_costs(run: ScalingRun) -> str:
    unit, death, change = run.unit, run.unit.death, run.unit.change
    rows = [
        ("a member's image, for each partition", f"{unit.image_bytes:,.0f} B of memory in each process"),
        ("a controller's, for each partition", f"{unit.controller_image_bytes:,.0f} B of memory"),
        ("a whole image as a message, for each partition", f"{unit.update_bytes:.1f} B"),
        ("to decode and apply it, for each partition", f"{unit.member_cpu_us:.1f} µs of CPU"),
        ("a controller that takes over, for each partition", f"{unit.controller_load_us:.1f} µs of CPU"),
        ("etcd, for each partition", f"{unit.etcd_bytes:.0f} B"),
        (
            "one partition's ISR changes",
            f"{change.cpu_seconds * 1e3:.1f} ms of the controller's CPU, {change.etcd_bytes / 1e3:,.0f} kB into etcd "
            f"(its chunk), {change.update_bytes:,} B to each subscriber",
        ),
        (
            f"a logstore with {death.partitions:,} replicas stops",
            f"{death.cpu_seconds:.2f} s of the controller's CPU, {death.txns} Txns of {death.etcd_bytes / 1e6:.1f} MB, "
            f"{death.update_bytes / death.partitions:.0f} B to each subscriber for each of them",
        ),
        ("one end of a small message by gRPC", f"{run.stream.message_end_us:.0f} µs of CPU (`{run.stream_source}`)"),
    ]
    return "\n".join(
        [
            f"{provenance(run)} {unit.partitions:,} partitions of three replicas on "
            f"{unit.logstores} logstores, in one process.",
            "",
            "| what | cost |",
            "|---|---|",
            *[f"| {what} | {cost} |" for what, cost in rows],
        ]
    )


def _sizes(run: ScalingRun) -> str:
    rows: list[tuple[str, Callable[[Figures], str]]] = [
        ("partitions", lambda each: f"{each.size.partitions:,}"),
        ("streams of a logstore", lambda each: f"{each.streams_of_logstore:,.0f}"),
        ("streams of a gateway's processor", lambda each: f"{each.streams_of_processor:,.0f}"),
        ("a logstore at rest: cores", lambda each: f"{each.logstore_idle_cores:.2f}"),
        ("a processor at rest: cores", lambda each: f"{each.processor_idle_cores:.2f}"),
        ("one beat of the busiest loop", lambda each: _bold(f"{each.beat_ms:,.0f} ms", each.beat_ms > TURN_MS_MAX)),
        ("images of a gateway", lambda each: _bytes(each.gateway_image_bytes)),
        (
            "a whole image as a message; CPU to apply it",
            lambda each: f"{_bytes(each.whole_image_bytes)}; {each.apply_seconds:.1f} s",
        ),
        (
            "whole images to all subscribers",
            lambda each: f"{_bytes(each.fan_out_bytes)}; {each.fan_out_seconds:.1f} s",
        ),
        (
            "etcd's file",
            lambda each: _bold(_bytes(each.etcd_bytes), each.etcd_bytes > run.guesses.etcd_quota_bytes),
        ),
        ("a controller takes over: CPU", lambda each: f"{each.takeover_seconds:.1f} s"),
        ("a logstore dies: partitions that change", lambda each: f"{each.death_partitions:,.0f}"),
        (
            "… the controller's CPU",
            lambda each: _bold(f"{each.death_controller_seconds:.1f} s", each.death_controller_seconds > 1),
        ),
        (
            "… into etcd",
            lambda each: (
                f"{_bytes(each.death_etcd_bytes)}, {each.death_txns:,.0f} Txns, "
                + _bold(f"{each.death_etcd_seconds:.1f} s", each.death_etcd_seconds > 1)
            ),
        ),
        ("… to all subscribers", lambda each: _bytes(each.death_update_bytes)),
    ]
    guesses = ", ".join(f"`{name}={value:g}`" for name, value in asdict(run.guesses).items())
    return "\n".join(
        [
            f"| | {' | '.join(_heading(each.size) for each in run.figures)} |",
            "|---|" + "---:|" * len(run.figures),
            *[f"| {what} | {' | '.join(map(cell, run.figures))} |" for what, cell in rows],
            "",
            f"Bold: over the limit of a turn ({TURN_MS_MAX} ms), over a second, or etcd's quota. Guesses: {guesses}.",
        ]
    )


def _heading(size: Size) -> str:
    return f"{size.gateways} gateways, {size.logstores:,} logstores"


def _bold(value: str, is_over: bool) -> str:
    return f"**{value}**" if is_over else value


def _throughput(throughputs: list[Throughput]) -> str:
    if not throughputs:
        return "Not measured yet: `make bench` saves what this table is computed from."
    lines = [
        "| load | CPU of all processes | "
        + " | ".join(f"{size.gateways} gateways, {size.logstores:,} logstores" for size in SIZES)
        + " |",
        "|---|---:|" + "---:|" * len(SIZES),
    ]
    for each in throughputs:
        cells = []
        for size in SIZES:
            by_gateways, by_logstores = each.gateways(size.gateways), each.logstores(size.logstores)
            first = "gateways" if by_gateways < by_logstores else "logstores"
            cells.append(f"{_about(min(by_gateways, by_logstores))} {each.row.unit}, {first} first")
        lines.append(f"| {each.row.title} | {each.cpu:.1f} {each.row.cpu_unit} | {' | '.join(cells)} |")
    source, load = throughputs[0].source, throughputs[0].load_average
    return "\n".join(
        [*lines, "", f"From `{source}`, taken at a load average of {load}; two digits are more than it is worth."]
    )


def _about(value: float) -> str:
    """Two digits."""
    unit = 10 ** max(0, math.floor(math.log10(value)) - 1)
    return f"{round(value / unit) * unit:,}"


def _bytes(value: float) -> str:
    if value >= 1e9:
        return f"{value / 1e9:,.1f} GB"
    return f"{value / MEGABYTE:,.1f} MB"
