"""`python -m bench.profile_paths`: where one produce and one fetch spend their microseconds, service by service.

Three views of the same cluster of one logstore: round trips that go deeper and deeper, one at a time; the CPU time of
each process per request; and the Python functions that take it, by sampling.
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from barnabas.wire.messages.list_offsets import LATEST_TIMESTAMP
from barnabas.wire.record_batch import Record
from barnabas_cli.local.layout import HOST
from barnabas_cli.local.processes import session_members
from barnabas_cli.record_client import RecordClient
from bench.accounting import cpu_time_of
from bench.ending import end_in_order
from bench.loads import LOADS, ProduceLoad, create_topic
from bench.report import PAGE, ROOT, commit, describe_machine, utc_now, write_section
from bench.sides import BarnabasSide

BEGIN = "<!-- made by bench.profile_paths: begin -->"
END = "<!-- made by bench.profile_paths: end -->"

_TOPIC = "profiled"
_ROUND_TRIPS = 3000
_LOADED_SECONDS = 5.0
_FUNCTIONS_SHOWN = 12
_SHARE_MIN = 0.01


@dataclass(slots=True, frozen=True)
class ProcessName:
    """A process by what it does: the service, and which of its processes."""

    pid: int
    name: str


def main() -> None:
    end_in_order()
    directory = ROOT / ".cache/profile"
    shutil.rmtree(directory, ignore_errors=True)
    samples = directory / "samples"
    samples.mkdir(parents=True)
    sections = [
        f"Taken {utc_now()} at commit {commit()} by `python -m bench.profile_paths` on {describe_machine()['cpu']}.",
        *_with_cluster(directory / "plain", _round_trips_and_cpu),
    ]
    os.environ["BARNABAS_SAMPLES"] = str(samples)
    os.environ["PYTHONPATH"] = str(ROOT / "bench/sampling")
    sections += _with_cluster(directory / "sampled", lambda side: _functions(side, samples))
    shutil.rmtree(directory)
    text = "\n\n".join(sections)
    write_section(PAGE, BEGIN, END, text)
    print(text)


def _with_cluster(directory: Path, profile: Callable[[BarnabasSide], list[str]]) -> list[str]:
    side = BarnabasSide(directory)
    try:
        side.start()
        create_topic(side.bootstrap, _TOPIC)
        return profile(side)
    finally:
        side.stop()


def _round_trips_and_cpu(side: BarnabasSide) -> list[str]:
    port = side.cluster.layout.kafka_port
    with RecordClient(HOST, port) as client:
        requests = _requests(client)
        for ask in requests.values():
            _microseconds(ask, _ROUND_TRIPS // 10)
        rows = ["| one at a time | p50 | p99 | how far it goes |", "|---|---|---|---|"]
        for name, ask in requests.items():
            taken = _microseconds(ask, _ROUND_TRIPS)
            percentiles = statistics.quantiles(taken, n=100)
            rows.append(f"| {name} | {percentiles[49]:,.0f} µs | {percentiles[98]:,.0f} µs | {_DEPTHS[name]} |")
        costs = {
            "produce, one at a time": _cpu_per_request(
                side, lambda: len(_microseconds(requests["Produce"], _ROUND_TRIPS))
            ),
            "fetch, one at a time": _cpu_per_request(side, lambda: len(_microseconds(requests["Fetch"], _ROUND_TRIPS))),
            "produce, pipelined": _cpu_per_request(side, lambda: _pipelined(side)),
        }
    return ["\n".join(rows), _cpu_table(costs)]


_DEPTHS = {
    "ApiVersions": "client → gateway",
    "ListOffsets": "client → gateway → logstore's core, no disk",
    "Produce": "client → gateway → logstore → its file, and back (100 B, acks=all, RF 1)",
    "Fetch": "client → gateway → logstore → its file, and back (one batch of 100 B)",
}


def _requests(client: RecordClient) -> dict[str, Callable[[], object]]:
    record = Record(None, b"x" * 100, 0)
    client.topic(_TOPIC, create=False)
    client.produce(_TOPIC, 0, [record])
    last = client.offset(_TOPIC, 1, LATEST_TIMESTAMP)
    client.produce(_TOPIC, 1, [record])
    return {
        "ApiVersions": client.api_versions,
        "ListOffsets": lambda: client.offset(_TOPIC, 0, LATEST_TIMESTAMP),
        "Produce": lambda: client.produce(_TOPIC, 0, [record]),
        "Fetch": lambda: client.fetch(_TOPIC, 1, last, 100),
    }


def _microseconds(ask: Callable[[], object], count: int) -> list[float]:
    taken = []
    for _ in range(count):
        began = time.perf_counter_ns()
        ask()
        taken.append((time.perf_counter_ns() - began) / 1000)
    return taken


def _pipelined(side: BarnabasSide) -> int:
    load = next(load for load in LOADS if load.is_one_record_a_request)
    return ProduceLoad(side.bootstrap, load).run(_TOPIC, _LOADED_SECONDS).records


def _cpu_per_request(side: BarnabasSide, run: Callable[[], int]) -> dict[str, float]:
    """CPU microseconds per request of each process, by name; those that did nothing are left out."""
    names = _processes(side)
    before = {process: cpu_time_of(process.pid).total for process in names}
    requests = run()
    used = dict.fromkeys((process.name for process in names), 0.0)
    for process in names:
        used[process.name] += (cpu_time_of(process.pid).total - before[process]) / requests * 1e6
    return {name: cost for name, cost in used.items() if cost >= 0.05}


def _cpu_table(costs: dict[str, dict[str, float]]) -> str:
    names = sorted({name for by_name in costs.values() for name in by_name})
    rows = [f"| CPU per request | {' | '.join(costs)} |", f"|---|{'---|' * len(costs)}"]
    for name in names:
        cells = [f"{by_name.get(name, 0):.1f} µs" for by_name in costs.values()]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    cells = [f"**{sum(by_name.values()):.1f} µs**" for by_name in costs.values()]
    rows.append(f"| together | {' | '.join(cells)} |")
    return "\n".join(rows)


def _processes(side: BarnabasSide) -> list[ProcessName]:
    names = []
    for service in side.cluster.services:
        identity = side.cluster.identity(service)
        assert identity is not None, "the cluster is up"
        for pid in session_members(identity):
            is_leader = pid == identity.pid
            names.append(ProcessName(pid, service.name if is_leader else f"{service.name}, child processes"))
    return names


def _functions(side: BarnabasSide, samples: Path) -> list[str]:
    """The functions under a pipelined produce and under fetches, one table a load."""
    sections = []
    with RecordClient(HOST, side.cluster.layout.kafka_port) as client:
        fetch = _requests(client)["Fetch"]
        loads: dict[str, Callable[[], object]] = {
            "produce, pipelined": lambda: _pipelined(side),
            "fetch, one at a time": lambda: _microseconds(fetch, 2 * _ROUND_TRIPS),
        }
        for title, run in loads.items():
            before = _read_samples(samples)
            run()
            after = _read_samples(samples)
            for process in _processes(side):
                counts = after.get(process.pid, Counter()) - before.get(process.pid, Counter())
                if counts.total() >= 100:
                    sections.append(_function_table(f"{title}: {process.name} (pid {process.pid})", counts))
    return sections


def _read_samples(samples: Path) -> dict[int, Counter[str]]:
    return {int(path.stem): Counter(msgspec.json.decode(path.read_bytes())) for path in samples.glob("*.json")}


def _function_table(title: str, counts: Counter[str]) -> str:
    rows = [f"| {title} | share of its CPU |", "|---|---|"]
    total = counts.total()
    for name, count in counts.most_common(_FUNCTIONS_SHOWN):
        if count / total >= _SHARE_MIN:
            rows.append(f"| `{_short(name)}` | {100 * count / total:.0f} % |")
    return "\n".join(rows)


def _short(name: str) -> str:
    """`services/gateway/barnabas_gateway/…:function`, `asyncio/events.py:function`."""
    path, _, function = name.rpartition(":")
    if path.startswith(str(ROOT)) and "site-packages" not in path:
        return f"{Path(path).relative_to(ROOT)}:{function}"
    return f"{'/'.join(Path(path).parts[-2:])}:{function}"


if __name__ == "__main__":
    main()
