"""Bytes written by Apache Kafka itself, for one full and one empty sample of every message and version.

`kafka-4.4.0.txt` has them, and `kafka-3.9.1.txt` those of the versions that Kafka 4 has dropped and Barnabas still
reads. `kafka-4.4.0-serves.tsv` has what a broker lists in ApiVersions, and all errors (`KafkaServes.java`). Where the
jars are, which `make peer` fetches, `python -m tests.unit.wire.golden` rewrites them all.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from tests.compat.java_programs import SHORT_LIVED
from tests.unit.wire.samples import Sample, kafka_json, samples

HERE = Path(__file__).parent
PEER = HERE.parents[3] / ".cache" / "peer"
JARS = PEER / "libs"
OLDER_JARS = PEER / "older"
HAS_KAFKA = (JARS / ".complete-4.4.0").exists() and shutil.which("java") is not None
WITHOUT_KAFKA = "needs Java and the jars of Kafka 4.4.0 (make peer)"

IN_KAFKA = [sample for sample in samples() if sample.version >= sample.key.version_min]
IN_OLDER_KAFKA = [sample for sample in samples() if sample.version < sample.key.version_min]
GOLDEN_FILE = HERE / "kafka-4.4.0.txt"
OLDER_GOLDEN_FILE = HERE / "kafka-3.9.1.txt"
SERVES_FILE = HERE / "kafka-4.4.0-serves.tsv"


def golden(file: Path) -> dict[str, str]:
    """Hex by the name of the sample."""
    parts = (line.rpartition(" ") for line in file.read_text().splitlines())
    return {name: encoded for name, _, encoded in parts}


def kafka_encodes(wanted: list[Sample], *jars: Path) -> dict[str, str]:
    """The same from Kafka, now; of a class that several of the directories `jars` have, the first is taken."""
    lines = [
        f"{type(sample.message).__name__}\t{sample.version}\t{json.dumps(kafka_json(sample.message, sample.version))}\n"
        for sample in wanted
    ]
    done = subprocess.run(
        ["java", *SHORT_LIVED, "-cp", ":".join(f"{directory}/*" for directory in jars), HERE / "KafkaEncodes.java"],
        input="".join(lines),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=100,
    )
    return dict(zip((sample.name for sample in wanted), done.stdout.splitlines(), strict=True))


def kafka_serves() -> str:
    """The text of `SERVES_FILE` from Kafka, now."""
    done = subprocess.run(
        ["java", *SHORT_LIVED, "-cp", f"{JARS}/*", HERE / "KafkaServes.java"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=100,
    )
    return done.stdout


def serves(kind: str) -> list[list[str]]:
    """Return the rows of `SERVES_FILE` of one kind, "key", "feature" or "error", without it."""
    rows = [line.split("\t") for line in SERVES_FILE.read_text().splitlines()]
    return [columns for first, *columns in rows if first == kind]
