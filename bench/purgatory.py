"""How fast purgatory's core is and what an entry costs, in the manner of Kafka's TestPurgatoryPerformance.

    python -m bench.purgatory [--entries 500000] [--parked 1000000] [--json FILE]

Entries arrive at a steady rate with a timeout of 200 ms; each is due at a log-normal time after its arrival (median
20 ms, 75th percentile 60 ms, so that about one in twelve expires), when its partition's high watermark reaches its
offset. Time is virtual and goes on in turns of 1 ms; what is measured is the CPU time of the core's own calls.
Kafka's redesigned purgatory reached 105,000 requests/s in its harness.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import random
import statistics
import time
from collections import Counter, defaultdict
from pathlib import Path

from barnabas.channel.messages import (
    FetchCondition,
    ParkFetch,
    ParkProduce,
    PartitionState,
    ProduceCondition,
)
from barnabas_purgatory.core.purgatory import PurgatoryCore

TIMEOUT_MS = 200
MEDIAN_MS = 20.0
PERCENTILE_75_MS = 60.0
# The 75th percentile of the standard normal distribution.
NORMAL_PERCENTILE_75 = 0.6744897501960817
KAFKA_REQUESTS_PER_S = 105_000
TOPIC_ID = bytes(range(16))
NODE_ID = 1


def completion_delays_ms(entries: int, seed: int) -> list[int]:
    rng = random.Random(seed)
    mu = math.log(MEDIAN_MS)
    sigma = (math.log(PERCENTILE_75_MS) - mu) / NORMAL_PERCENTILE_75
    return [round(rng.lognormvariate(mu, sigma)) for _ in range(entries)]


def state(partition: int, high_watermark: int) -> PartitionState:
    return PartitionState(
        TOPIC_ID, partition, 0, high_watermark, high_watermark, 0, high_watermark * 100, True, True, True
    )


def throughput(entries: int, rate_per_ms: int, partitions: int, seed: int) -> dict[str, object]:
    """One run: entries/s of CPU time, and how they ended."""
    delays_ms = completion_delays_ms(entries, seed)
    turns = entries // rate_per_ms
    moves: defaultdict[int, dict[int, int]] = defaultdict(dict)
    parks: list[list[ParkProduce]] = [[] for _ in range(turns)]
    for entry_id in range(turns * rate_per_ms):
        arrival_ms, partition = entry_id // rate_per_ms, entry_id % partitions
        required_offset = entry_id // partitions + 1
        condition = ProduceCondition(TOPIC_ID, partition, NODE_ID, 0, required_offset)
        parks[arrival_ms].append(ParkProduce(entry_id, TIMEOUT_MS, [condition]))
        due = moves[arrival_ms + delays_ms[entry_id]]
        due[partition] = max(due.get(partition, 0), required_offset)
    states = {now_ms: [state(partition, offset) for partition, offset in due.items()] for now_ms, due in moves.items()}
    core = PurgatoryCore(now_ms=0)
    core.logstore_up(NODE_ID)
    outcomes: Counter[str] = Counter()
    parked_max = 0
    gc.collect()
    gc.freeze()
    started = time.process_time()
    for now_ms in range(turns + TIMEOUT_MS + 1):
        if now_ms < turns:
            for park in parks[now_ms]:
                core.park_produce(0, park, now_ms)
        core.partition_states(NODE_ID, states.get(now_ms, ()))
        core.advance(now_ms)
        outputs = core.take_outputs()
        for completion in outputs.completions.get(0, ()):
            outcomes[completion.outcome.name] += 1
        parked_max = max(parked_max, core.entries)
    cpu_s = time.process_time() - started
    gc.unfreeze()
    assert core.entries == 0
    assert outcomes.total() == turns * rate_per_ms
    return {
        "entries_per_s": round(outcomes.total() / cpu_s),
        "cpu_us_per_entry": round(cpu_s * 1e6 / outcomes.total(), 2),
        "parked_max": parked_max,
        "outcomes": dict(sorted(outcomes.items())),
    }


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def memory(parked: int, partitions: int, kind: str) -> dict[str, object]:
    """What `parked` entries of one condition add to the process, and what it costs to end them all by time."""
    core = PurgatoryCore(now_ms=0)
    core.logstore_up(NODE_ID)
    gc.collect()
    before = resident_bytes()
    started = time.process_time()
    for entry_id in range(parked):
        # Fresh ids, as a scanned message has them.
        topic_id, partition = bytes(bytearray(TOPIC_ID)), entry_id % partitions
        if kind == "produce":
            produce = ProduceCondition(topic_id, partition, NODE_ID, 0, 1_000_000 + entry_id)
            core.park_produce(0, ParkProduce(entry_id, 30_000, [produce]), entry_id // 100)
        else:
            fetch = FetchCondition(topic_id, partition, NODE_ID, 0, 1_000 + entry_id, 1_000_000 + entry_id, 0)
            core.park_fetch(0, ParkFetch(entry_id, 30_000, 1, [fetch]), entry_id // 100)
    park_s = time.process_time() - started
    grown = resident_bytes() - before
    started = time.process_time()
    core.advance(parked // 100 + 30_000)
    expire_s = time.process_time() - started
    assert core.entries == 0
    return {
        "entry": kind,
        "parked": parked,
        "bytes_per_entry": round(grown / parked),
        "park_us": round(park_s * 1e6 / parked, 2),
        "expire_us": round(expire_s * 1e6 / parked, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="How fast purgatory's core is and what an entry costs.")
    parser.add_argument("--entries", type=int, default=500_000)
    parser.add_argument("--rate-per-ms", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=2_000)
    parser.add_argument("--parked", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    runs = [
        throughput(arguments.entries, arguments.rate_per_ms, arguments.partitions, seed)
        for seed in range(arguments.runs)
    ]
    speeds = [int(str(run["entries_per_s"])) for run in runs]
    costs = [memory(arguments.parked, arguments.partitions, kind) for kind in ("produce", "fetch")]
    median = statistics.median(speeds)
    print(f"{median:>10,.0f} entries/s of CPU time (runs: {', '.join(f'{each:,}' for each in speeds)})")
    print(f"{median / KAFKA_REQUESTS_PER_S:>10.2f} × the {KAFKA_REQUESTS_PER_S:,}/s of Kafka's own")
    for cost in costs:
        print(
            f"{cost['bytes_per_entry']:>10,} bytes per parked {cost['entry']} ({cost['parked']:,} parked; "
            f"{cost['park_us']} µs to park, {cost['expire_us']} µs to expire)"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps({"runs": runs, "memory": costs}, indent=2) + "\n")


if __name__ == "__main__":
    main()
