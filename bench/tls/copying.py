"""What a megabyte costs by TLS: librdkafka produces and consumes, on each side in turn."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Final

from bench.accounting import cpu_time, touch_pages
from bench.loads import Load, Outcome, ProduceLoad, Settings, consume, create_topic, delete_topic
from bench.measure import MEGABYTE
from bench.tls.secured import Secured

_BATCHED: Final[Settings] = {"acks": 1, "linger.ms": 5, "queue.buffering.max.messages": 200_000}
PRODUCE: Final = (
    Load("produce-1000", "produce 1,000 B, linger.ms=5, acks=1", 1_000, _BATCHED),
    Load("produce-16000", "produce 16,000 B, linger.ms=5, acks=1", 16_000, _BATCHED),
)
"""librdkafka makes a TLS record of each message that it does not copy: 1,000 bytes of 16 KiB that a record can have."""
CONSUME: Final = Load(
    "consume-1000", "consume 1,000 B", 1_000, {"enable.auto.commit": False, "group.id": "bench"}, is_consume=True
)
_FILLED: Final = "tls-filled"
_FILL_SECONDS: Final = 3.0


@dataclass(slots=True)
class Copied:
    """One load on one side, once."""

    load: str
    side: str
    is_tls: bool
    megabytes_per_second: float
    cpu_ms_per_megabyte: float
    """Of all processes of the side."""
    load_average: float


class Copying:
    """The loads on one side."""

    def __init__(self, name: str, secured: Secured) -> None:
        self._name = name
        self._secured = secured
        self._records = 0
        """In the topic that is consumed."""

    def fill(self) -> None:
        create_topic(self._secured.side.bootstrap, _FILLED)
        self._records = ProduceLoad(self._secured.side.bootstrap, PRODUCE[0]).run(_FILLED, _FILL_SECONDS).records

    def measure(self, load: Load, seconds: float, *, is_tls: bool) -> Copied:
        bootstrap = self._secured.bootstrap if is_tls else self._secured.side.bootstrap
        used = replace(load, settings=load.settings | self._secured.settings) if is_tls else load
        topic = f"tls-{load.name}"
        if not load.is_consume:
            create_topic(self._secured.side.bootstrap, topic)
        touch_pages()
        before = cpu_time(self._secured.side.sessions)
        outcome = self._consume(bootstrap, used, seconds) if load.is_consume else _produce(bootstrap, used, seconds)
        # What a broker puts off is part of its cost.
        time.sleep(0.2)
        cpu = cpu_time(self._secured.side.sessions).since(before)
        megabytes = outcome.records * load.record_bytes / MEGABYTE
        if not load.is_consume:
            delete_topic(self._secured.side.bootstrap, topic)
        return Copied(
            load.name,
            self._name,
            is_tls,
            round(megabytes / outcome.seconds, 1),
            round(cpu.total * 1000 / megabytes, 3),
            load_average(),
        )

    def _consume(self, bootstrap: str, load: Load, seconds: float) -> Outcome:
        records, took = 0, 0.0
        while took < seconds:
            outcome = consume(bootstrap, load, _FILLED, self._records)
            records += outcome.records
            took += outcome.seconds
        return Outcome(records, took)


def _produce(bootstrap: str, load: Load, seconds: float) -> Outcome:
    return ProduceLoad(bootstrap, load).run(f"tls-{load.name}", seconds)


def load_average() -> float:
    with open("/proc/loadavg") as file:
        return float(file.read().split()[0])
