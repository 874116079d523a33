"""Records of `__transaction_state` by Apache Kafka 4.3's own transaction coordinator, and the answers of that of 4.4.

`KafkaTransactions.java` says which records, `KafkaAnswers.java` which answers. Where Kafka's jars are (`make peer`),
`python -m tests.unit.logstore.transactions.golden` rewrites the records; with `answers JARS` the answers, by the jars
of 4.4.0 in that folder.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.unit.wire.golden import JARS

HERE = Path(__file__).parent
GOLDEN_FILE = HERE / "kafka-4.3.0.txt"
ANSWERS_FILE = HERE / "kafka-4.4.0-answers.txt"


def golden_records() -> dict[str, tuple[bytes, bytes]]:
    """Key and value by name, which begins with the transaction version."""
    lines = [line.split("\t") for line in GOLDEN_FILE.read_text().splitlines()]
    return {name: (bytes.fromhex(key), bytes.fromhex(value)) for name, key, value in lines}


def kafka_writes() -> str:
    return _output_of("KafkaTransactions.java", JARS)


def kafka_answers(jars: Path) -> str:
    return _output_of("KafkaAnswers.java", jars)


def _output_of(program: str, jars: Path) -> str:
    done = subprocess.run(
        ["java", "-cp", f"{jars}/*", HERE / program],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=100,
    )
    return done.stdout
