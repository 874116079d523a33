"""Records of `__transaction_state` by Apache Kafka 4.4's own transaction coordinator, and its answers.

`KafkaTransactions.java` says which records, `KafkaAnswers.java` which answers. Where Kafka's jars are (`make peer`),
`python -m tests.unit.logstore.transactions.golden` rewrites both.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.compat.java_programs import SHORT_LIVED
from tests.unit.wire.golden import JARS

HERE = Path(__file__).parent
GOLDEN_FILE = HERE / "kafka-4.4.0.txt"
ANSWERS_FILE = HERE / "kafka-4.4.0-answers.txt"


def golden_records() -> dict[str, tuple[bytes, bytes]]:
    """Key and value by name, which begins with the transaction version."""
    lines = [line.split("\t") for line in GOLDEN_FILE.read_text().splitlines()]
    return {name: (bytes.fromhex(key), bytes.fromhex(value)) for name, key, value in lines}


def kafka_writes() -> str:
    return _output_of("KafkaTransactions.java")


def kafka_answers() -> str:
    return _output_of("KafkaAnswers.java")


def _output_of(program: str) -> str:
    done = subprocess.run(
        # Its log would be between the lines: what it has for producers at the last epoch is of level ERROR.
        ["java", *SHORT_LIVED, "-Dorg.apache.logging.log4j.level=OFF", "-cp", f"{JARS}/*", HERE / program],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=100,
    )
    return done.stdout
