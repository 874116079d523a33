"""Records of every magic, written and down-converted by Apache Kafka 3.9.1, the last that still could.

`KafkaRecords.java` says what is in them. Where kafka-clients 3.9.1 is (see `tests.unit.wire.golden`), `python -m
tests.unit.wire.golden_records` rewrites the file.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.compat.java_programs import SHORT_LIVED
from tests.unit.wire.golden import JARS, OLDER_JARS

HERE = Path(__file__).parent
GOLDEN_FILE = HERE / "kafka-3.9.1.txt"


def golden_records() -> dict[str, bytes]:
    """By name: "written MAGIC CODEC TIMESTAMP_TYPE", "converted …", "several …"."""
    parts = (line.split("\t") for line in GOLDEN_FILE.read_text().splitlines())
    return {name: bytes.fromhex(encoded) for name, encoded in parts}


def kafka_writes() -> str:
    done = subprocess.run(
        ["java", *SHORT_LIVED, "-cp", f"{OLDER_JARS}/*:{JARS}/*", HERE / "KafkaRecords.java"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=100,
    )
    return done.stdout
