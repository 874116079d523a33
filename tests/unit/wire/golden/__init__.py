"""Bytes written by Apache Kafka 4.3.0 itself, for one full and one empty sample of every message and version.

`kafka-4.3.0.txt` has them. Where Kafka's jars are (`make peer`), `python -m tests.unit.wire.golden` writes it anew.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.unit.wire.samples import kafka_json, samples

HERE = Path(__file__).parent
GOLDEN_FILE = HERE / "kafka-4.3.0.txt"
JARS = HERE.parents[3] / ".cache" / "peer" / "libs"

IN_KAFKA = [sample for sample in samples() if sample[3] >= sample[2].version_min]
"""All but what Kafka 4 has dropped and Barnabas still reads."""


def golden() -> dict[str, str]:
    """Hex by the name of the sample."""
    parts = (line.rpartition(" ") for line in GOLDEN_FILE.read_text().splitlines())
    return {name: encoded for name, _, encoded in parts}


def kafka_encodes() -> dict[str, str]:
    """The same from Kafka, now."""
    lines = [
        f"{type(message).__name__}\t{version}\t{json.dumps(kafka_json(message, version))}\n"
        for _, message, _, version in IN_KAFKA
    ]
    done = subprocess.run(
        ["java", "-cp", f"{JARS}/*", HERE / "KafkaEncodes.java"],
        input="".join(lines),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=100,
    )
    names = [name for name, *_ in IN_KAFKA]
    return dict(zip(names, done.stdout.splitlines(), strict=True))
