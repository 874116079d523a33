"""What clients get of a quota that they use through several processors and gateways.

    python -m bench.quotas [--quota 10000000] [--seconds 60] [--clients 8]

One logstore and two gateways with three processors each; half of the clients at either gateway, each with a connection
of its own, all with one client id that has the quota. Producers first, then consumers of what they wrote: all of them
as fast as they can. What a client has sent and seen acknowledged, or has been given, counts: without headers of
requests and batches, so that a little less than the quota is the whole of it.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from os import getloadavg
from pathlib import Path
from typing import Any, Final

from barnabas.client.kafka_connection import KafkaConnection
from barnabas.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from barnabas_cli.local.layout import HOST
from barnabas_cli.local.services import Role
from bench.ending import end_in_order
from bench.report import command_line, commit, describe_machine, save_figures, utc_now
from bench.sides import BarnabasSide

TOPIC: Final = "quotas"
CLIENT_ID: Final = "limited"
PARTITIONS: Final = 4
VALUE_BYTES: Final = 10_000
BATCH_BYTES: Final = 50_000
FETCH_BYTES: Final = 2_000_000
"""Many batches: the last one of an answer may be cut off, counts to the quota, and is thrown away by the client."""
SETTLE_SECONDS: Final = 15
"""Until the burst of the beginning is over."""
DEVIATION_MAX: Final = 0.05
_SECOND_GATEWAY: Final = "gateway-2"
_SECOND_PORT: Final = 30
"""After the first gateway's."""


@dataclass(slots=True)
class Measured:
    what: str
    mb_per_s: float
    of_quota: float
    by_gateway_mb_per_s: list[float]
    connections_by_processor: list[list[int]]
    load_before: float
    load_after: float


@dataclass(slots=True)
class Run:
    command: str
    commit: str
    taken: str
    machine: dict[str, str]
    quota_mb_per_s: float
    gateways: int
    processors: int
    clients: int
    seconds: float
    measured: list[Measured] = field(default_factory=list)


class Counter:
    """Bytes of one client's own gateway, added to by its thread alone."""

    def __init__(self) -> None:
        self.bytes = 0

    def delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.bytes += len(message.value())


def produce(bootstrap: str, number: int, counter: Counter, stopping: threading.Event) -> None:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": CLIENT_ID,
            "batch.size": BATCH_BYTES,
            "linger.ms": 20,
            "queue.buffering.max.messages": 500,
            "delivery.timeout.ms": 300_000,
            "on_delivery": counter.delivered,
        }
    )
    value = bytes(range(250)) * (VALUE_BYTES // 250)
    while not stopping.is_set():
        try:
            producer.produce(TOPIC, value, partition=number % PARTITIONS)
        except BufferError:
            producer.poll(0.05)
        producer.poll(0)
    producer.purge()
    producer.flush(1)


def consume(bootstrap: str, number: int, counter: Counter, stopping: threading.Event) -> None:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": CLIENT_ID,
            "group.id": f"quotas-{number}",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": FETCH_BYTES,
            # With a full queue a client pauses for a second, however fast it is emptied.
            "queued.max.messages.kbytes": 50_000,
            "enable.partition.eof": True,
        }
    )
    beginning = [TopicPartition(TOPIC, number % PARTITIONS, OFFSET_BEGINNING)]
    consumer.assign(beginning)
    while not stopping.is_set():
        message = consumer.poll(0.1)
        if message is None:
            continue
        if message.error() is None:
            counter.bytes += len(message.value() or b"")
        else:
            consumer.assign(beginning)
    consumer.close()


Load = Callable[[str, int, Counter, threading.Event], None]


def measure(what: str, load: Load, run: Run, bootstraps: list[str], metrics: list[str]) -> Measured:
    stopping = threading.Event()
    counters = [Counter() for _ in range(run.clients)]
    threads = [
        threading.Thread(target=load, args=(bootstraps[number % len(bootstraps)], number, counter, stopping))
        for number, counter in enumerate(counters)
    ]
    load_before = getloadavg()[0]
    for thread in threads:
        thread.start()
    try:
        time.sleep(SETTLE_SECONDS)
        began_s, before = time.monotonic(), [counter.bytes for counter in counters]
        time.sleep(run.seconds)
        took_s, after = time.monotonic() - began_s, [counter.bytes for counter in counters]
        connections = [connections_by_processor(address) for address in metrics]
    finally:
        stopping.set()
        for thread in threads:
            thread.join()
    rates = [(now - then) / took_s / 1e6 for now, then in zip(after, before, strict=True)]
    by_gateway = [round(sum(rates[gateway :: len(bootstraps)]), 2) for gateway in range(len(bootstraps))]
    total = sum(rates)
    return Measured(
        what,
        round(total, 3),
        round(total / run.quota_mb_per_s, 4),
        by_gateway,
        connections,
        round(load_before, 1),
        round(getloadavg()[0], 1),
    )


def connections_by_processor(address: str) -> list[int]:
    """Return how many connections each processor of a gateway has."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as response:
        text = response.read().decode()
    found = re.findall(r'connection_count\{[^}]*processor="\d+"[^}]*\} (\d+)', text)
    return [int(float(each)) for each in found]


def set_quota(bootstrap: str, quota: float) -> None:
    host, port = bootstrap.rsplit(":", 1)
    ops = [OpData("producer_byte_rate", quota, False), OpData("consumer_byte_rate", quota, False)]
    with KafkaConnection(host, int(port), 30) as connection:
        entry = EntryData([EntityData("client-id", CLIENT_ID)], ops)
        answer = connection.ask(AlterClientQuotasRequest([entry], False), 1, AlterClientQuotasResponse)
    assert [each.error_code for each in answer.entries] == [0], answer


def create_topic(bootstrap: str) -> None:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    administrator = AdminClient({"bootstrap.servers": bootstrap})
    (created,) = administrator.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values()
    created.result(30)


def second_gateway(side: BarnabasSide, directory: Path) -> tuple[subprocess.Popen[bytes], str, str]:
    """Start it; return its bootstrap address, and that of its metrics."""
    (first,) = [service for service in side.cluster.services if service.role is Role.GATEWAY]
    port = int(side.bootstrap.rsplit(":", 1)[1]) + _SECOND_PORT
    properties = first.properties | {
        "gateway.id": _SECOND_GATEWAY,
        "listeners": f"PLAINTEXT://{HOST}:{port}",
        "ops.listeners": f"{HOST}:{port + 5}",
        "metrics.listeners": f"{HOST}:{port + 6}",
    }
    path = directory / f"{_SECOND_GATEWAY}.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    process = subprocess.Popen([sys.executable, "-m", "barnabas_gateway", "--config", str(path)])
    return process, f"{HOST}:{port}", f"{HOST}:{port + 6}"


def main() -> None:
    end_in_order()
    parser = argparse.ArgumentParser(prog="python -m bench.quotas", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quota", type=float, default=10e6, help="bytes per second")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=8)
    arguments = parser.parse_args()
    run = Run(
        command_line("bench.quotas"),
        commit(),
        utc_now(),
        describe_machine(),
        arguments.quota / 1e6,
        gateways=2,
        processors=3,
        clients=arguments.clients,
        seconds=arguments.seconds,
    )
    with tempfile.TemporaryDirectory(prefix="barnabas-quotas-") as directory:
        side = BarnabasSide(Path(directory) / "cluster")
        side.start()
        (gateway,) = [service for service in side.cluster.services if service.role is Role.GATEWAY]
        process, bootstrap, metrics = second_gateway(side, Path(directory))
        try:
            create_topic(side.bootstrap)
            set_quota(side.bootstrap, arguments.quota)
            bootstraps, addresses = [side.bootstrap, bootstrap], [gateway.addresses["metrics"], metrics]
            for what, load in (("produce", produce), ("consume", consume)):
                run.measured.append(measure(what, load, run, bootstraps, addresses))
                print(run.measured[-1], flush=True)
        finally:
            process.terminate()
            process.wait(20)
            side.stop()
    path = save_figures(run, "quotas")
    print(path)
    missed = [each.what for each in run.measured if abs(each.of_quota - 1) > DEVIATION_MAX]
    if missed:
        sys.exit(f"not within {DEVIATION_MAX:.0%} of the quota: {', '.join(missed)}")


if __name__ == "__main__":
    main()
