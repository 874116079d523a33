"""Records of `__transaction_state` by Apache Kafka 4.3's own transaction coordinator.

`KafkaTransactions.java` says what is in them. Where Kafka's jars are (`make peer`), `python -m
tests.unit.logstore.transactions.golden` rewrites the file.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.unit.wire.golden import JARS

HERE = Path(__file__).parent
GOLDEN_FILE = HERE / "kafka-4.3.0.txt"


def golden_records() -> dict[str, tuple[bytes, bytes]]:
    """Key and value by name, which begins with the transaction version."""
    lines = [line.split("\t") for line in GOLDEN_FILE.read_text().splitlines()]
    return {name: (bytes.fromhex(key), bytes.fromhex(value)) for name, key, value in lines}


def kafka_writes() -> str:
    done = subprocess.run(
        ["java", "-cp", f"{JARS}/*", HERE / "KafkaTransactions.java"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=100,
    )
    return done.stdout
