"""Records of `__consumer_offsets` by Apache Kafka 4.4's own coordinator of groups, and the partitions of groups.

`KafkaGroups.java` says what is in them. Where Kafka's jars are (`make peer`), `python -m
tests.unit.logstore.coordinator.golden` rewrites the file.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.compat.java_programs import SHORT_LIVED
from tests.unit.wire.golden import JARS

HERE = Path(__file__).parent
GOLDEN_FILE = HERE / "kafka-4.4.0.txt"
PARTITION_OF = "partition of"


def golden_records() -> dict[str, tuple[bytes, bytes | None]]:
    """Key and value, None for a tombstone, by name: "written …" as the coordinator does it, "offset VERSION" and
    "group VERSION" as any may have been.
    """
    return {
        name: (bytes.fromhex(key), None if value == "-" else bytes.fromhex(value))
        for name, key, value in _lines()
        if name != PARTITION_OF
    }


def golden_partitions() -> dict[str, int]:
    """By group id, of 50 partitions."""
    return {bytes.fromhex(key).decode(): int(value) for name, key, value in _lines() if name == PARTITION_OF}


def _lines() -> list[list[str]]:
    return [line.split("\t") for line in GOLDEN_FILE.read_text().splitlines()]


def kafka_writes() -> str:
    done = subprocess.run(
        ["java", *SHORT_LIVED, "-cp", f"{JARS}/*", HERE / "KafkaGroups.java"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=100,
    )
    return done.stdout
