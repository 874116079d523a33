"""`python -m bench.compaction`: how fast the cleaner is, beside Apache Kafka's on the same bytes.

A topic is filled at an Apache Kafka broker that is not yet allowed to clean it. Its closed segments are copied, and
cleaned here by the code of the cleaner's process; then the broker cleans its own, and what its log says of that counts.
Both take the same key space, the same dedupe buffer, and no throttle; the pass after it on a fresh topic as well, since
a JVM is warm only then.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from barnabas.cluster.topic_config import TopicConfig
from barnabas.runtime.compression import CODECS
from barnabas_cli.local.layout import HOST
from barnabas_cli.record_client import KafkaError, RecordClient
from barnabas_logstore.core.storage.compaction.cleaner import Cleaner
from barnabas_logstore.core.storage.compaction.orders import (
    CleanedSegment,
    CleanOrder,
    PassEnded,
    PassOutcome,
    SourceSegment,
)
from barnabas_logstore.shell.posix_disk import PosixDisk
from bench.accounting import cpu_seconds
from bench.apache_kafka import VERSION, ApacheKafka

RESULTS = Path(__file__).parent / "results"
PORT = 28_300
SEGMENT_BYTES = 16 * 1024 * 1024
DEDUPE_BUFFER_BYTES = 128 * 1024 * 1024
LOAD_FACTOR = 0.9
IO_BUFFER_BYTES = 512 * 1024
MIB = 1024 * 1024
SECONDS_MAX = 60

_CLEANED = re.compile(
    r"cleaned log (?P<log>\S+) .*?"
    r"(?P<read>[\d.,]+) MB of log processed in (?P<seconds>[\d.,]+) seconds.*?"
    r"Start size: [\d.,]+ MB \((?P<records>[\d.,]+) messages\).*?"
    r"End size: (?P<written>[\d.,]+) MB \((?P<left>[\d.,]+) messages\)",
    re.DOTALL,
)


@dataclass(slots=True, frozen=True)
class Load:
    """`value_bytes` is what a record carries besides its key of 12 bytes."""

    value_bytes: int
    codec: str
    megabytes: int
    keys: int

    @property
    def name(self) -> str:
        return f"{self.value_bytes} B, {self.codec}"


@dataclass(slots=True, frozen=True)
class Outcome:
    side: str
    load: str
    run: int
    seconds: float
    cpu_seconds: float
    mib_read: float
    mib_written: float
    records_read: int
    records_written: int

    @property
    def mib_per_second(self) -> float:
        return self.mib_read / self.seconds

    @property
    def records_per_second(self) -> float:
        return self.records_read / self.seconds


class Peer:
    """The broker, with what is asked of it here."""

    def __init__(self, directory: Path) -> None:
        settings = {
            "log.cleaner.backoff.ms": "200",
            "log.cleaner.dedupe.buffer.size": str(DEDUPE_BUFFER_BYTES),
            "log.retention.check.interval.ms": "600000",
        }
        self.broker = ApacheKafka(directory, PORT, PORT + 1, "1G", settings)
        self.data = directory / "data"
        self.client: dict[str, str | int | float | bool] = {"bootstrap.servers": self.broker.bootstrap}

    def start(self) -> None:
        """Return when it answers."""
        self.broker.start()
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            try:
                with RecordClient(HOST, PORT, 5) as client:
                    client.metadata()
                return
            except KafkaError:
                assert time.monotonic() < deadline, self.broker.explain()
                time.sleep(0.2)

    def create(self, topic: str) -> None:
        configs = {
            "cleanup.policy": "compact",
            "segment.bytes": str(SEGMENT_BYTES),
            # Never exceeded: nothing is cleaned before it is asked for.
            "min.cleanable.dirty.ratio": "1.0",
        }
        admin = AdminClient(self.client)
        admin.create_topics([NewTopic(topic, 1, 1, config=configs)])[topic].result(timeout=60)

    def fill(self, topic: str, load: Load) -> None:
        settings = {"linger.ms": 20, "batch.size": 65536, "compression.type": load.codec, "acks": 1}
        producer = Producer({**self.client, **settings, "queue.buffering.max.kbytes": 262_144})
        for key, value in records(load):
            while True:
                try:
                    producer.produce(topic, value, key, 0)
                    break
                except BufferError:
                    producer.poll(0.05)
        assert producer.flush(SECONDS_MAX) == 0

    def clean(self, topic: str, load: Load, run: int) -> Outcome:
        cpu_before = cpu_seconds([self.broker.identity])
        resource = ConfigResource(
            ResourceType.TOPIC,
            topic,
            incremental_configs=[
                ConfigEntry("min.cleanable.dirty.ratio", "0.0", incremental_operation=AlterConfigOpType.SET)
            ],
        )
        admin = AdminClient(self.client)
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(timeout=60)
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            for match in _CLEANED.finditer(self.broker.log_path.read_text()):
                if match["log"] == f"{topic}-0":
                    return Outcome(
                        f"Apache Kafka {VERSION}",
                        load.name,
                        run,
                        _number(match["seconds"]),
                        cpu_seconds([self.broker.identity]) - cpu_before,
                        _number(match["read"]),
                        _number(match["written"]),
                        int(_number(match["records"])),
                        int(_number(match["left"])),
                    )
            assert time.monotonic() < deadline, f"{topic} was not cleaned\n{self.broker.explain()}"
            time.sleep(0.05)


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def records(load: Load) -> Iterator[tuple[bytes, bytes]]:
    """Random keys, values of half random hexadecimal digits: they compress to about two thirds."""
    source = random.Random(load.value_bytes)
    values = [
        (source.randbytes(load.value_bytes // 4).hex() + "field=value " * load.value_bytes)[: load.value_bytes].encode()
        for _ in range(256)
    ]
    count = load.megabytes * 1_000_000 // (load.value_bytes + 20)
    for _ in range(count):
        yield b"key-%08d" % source.randrange(load.keys), values[source.randrange(256)]


def clean_here(directory: Path, load: Load, run: int) -> Outcome:
    """One pass as the cleaner's process makes it, over every segment in `directory`."""
    logs = sorted(directory.glob("*.log"))
    sources = [SourceSegment(int(path.stem), path.stat().st_size) for path in logs]
    end_offset = int((directory / "end").read_text())
    config = TopicConfig(cleanup_policy="compact", segment_bytes=SEGMENT_BYTES)
    order = CleanOrder(1, str(directory), config, sources, 0, end_offset, int(time.time() * 1000), [])
    cleaner = Cleaner(
        PosixDisk,
        CODECS,
        dedupe_buffer_bytes=int(DEDUPE_BUFFER_BYTES * LOAD_FACTOR),
        io_buffer_bytes=IO_BUFFER_BYTES,
    )
    began, cpu_began = time.perf_counter(), time.process_time()
    cleaner.begin(order, 0)
    ended: PassEnded | None = None
    segments = 0
    while ended is None:
        _, report = cleaner.step(0)
        segments += isinstance(report, CleanedSegment)
        ended = report if isinstance(report, PassEnded) else None
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu_began
    assert ended.outcome is PassOutcome.DONE, ended
    assert not ended.statistics.map_is_full
    did = ended.statistics
    return Outcome(
        "Barnabas",
        load.name,
        run,
        round(seconds, 3),
        round(cpu, 3),
        round(did.bytes_read / MIB, 1),
        round(did.bytes_written / MIB, 1),
        did.records_read,
        did.records_written,
    )


def copy_closed(partition: Path, target: Path) -> None:
    """All segments but the active one, without indexes: the cleaner reads logs alone."""
    target.mkdir()
    logs = sorted(partition.glob("*.log"))
    for path in logs[:-1]:
        shutil.copy(path, target / path.name)
    (target / "end").write_text(logs[-1].stem)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.compaction", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=256, help="of records in each log, before compression")
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=2, help="of each load")
    arguments = parser.parse_args()
    loads = [
        Load(value_bytes, codec, arguments.megabytes, arguments.keys)
        for value_bytes in (100, 1000)
        for codec in ("none", "lz4")
    ]
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="bench-compaction-") as name:
        directory = Path(name)
        peer = Peer(directory / "kafka")
        peer.start()
        try:
            for run in range(1, arguments.runs + 1):
                for number, load in enumerate(loads):
                    topic = f"load-{number}-{run}"
                    outcomes += measure(peer, topic, load, run, directory / topic)
                    for outcome in outcomes[-2:]:
                        print(line_of(outcome), flush=True)
        finally:
            peer.broker.stop()
    print(f"saved as {save(outcomes)}")


def measure(peer: Peer, topic: str, load: Load, run: int, copied: Path) -> list[Outcome]:
    peer.create(topic)
    peer.fill(topic, load)
    copy_closed(peer.data / f"{topic}-0", copied)
    ours = clean_here(copied, load, run)
    theirs = peer.clean(topic, load, run)
    shutil.rmtree(copied)
    return [ours, theirs]


def line_of(outcome: Outcome) -> str:
    return (
        f"{outcome.load:>12}  run {outcome.run}  {outcome.side:<20} {outcome.seconds:6.2f} s  "
        f"{outcome.mib_per_second:7.1f} MiB/s  {outcome.records_per_second / 1000:7.0f} thousand records/s  "
        f"{outcome.cpu_seconds:5.2f} s CPU  "
        f"{outcome.mib_read:.0f} → {outcome.mib_written:.0f} MiB, {outcome.records_read} → {outcome.records_written}"
    )


def save(outcomes: list[Outcome]) -> Path:
    now = time.strftime("%Y-%m-%dT%H%M%SZ", time.gmtime())
    path = RESULTS / f"compaction-{now}.json"
    content = {
        "command": " ".join(["python -m bench.compaction", *sys.argv[1:]]),
        "when": now,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "outcomes": [
            asdict(outcome)
            | {
                "mib_per_second": round(outcome.mib_per_second, 1),
                "records_per_second": round(outcome.records_per_second),
            }
            for outcome in outcomes
        ],
    }
    path.write_text(json.dumps(content, indent=1) + "\n")
    return path


if __name__ == "__main__":
    main()
