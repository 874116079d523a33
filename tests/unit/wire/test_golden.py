"""Bytes written by Apache Kafka 4.3.0 itself, for one full and one empty sample of every message and version.

`golden/kafka-4.3.0.txt` has them; `KafkaEncodes.java` beside it wrote them, and does so again where Kafka's jars are.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.decoding import compile_decoder
from barnabas.wire.encoding import compile_encoder
from tests.unit.wire.samples import kafka_json, samples

HERE = Path(__file__).parent / "golden"
GOLDEN_FILE = HERE / "kafka-4.3.0.txt"
JARS = Path(__file__).parents[3] / ".cache" / "peer" / "libs"

SAMPLES = list(samples())
# Kafka has dropped these three; ours are there to refuse them.
IN_KAFKA = [sample for sample in SAMPLES if sample[2].serves(sample[3])]


def golden() -> dict[str, str]:
    parts = (line.rpartition(" ") for line in GOLDEN_FILE.read_text().splitlines())
    return {name: encoded for name, _, encoded in parts}


GOLDEN = golden()


def test_golden_bytes_are_there_for_all_that_kafka_has() -> None:
    assert list(GOLDEN) == [name for name, *_ in IN_KAFKA]


@pytest.mark.parametrize(("name", "message", "key", "version"), IN_KAFKA, ids=[name for name, *_ in IN_KAFKA])
def test_the_bytes_are_those_of_kafka(name: str, message: Any, key: ApiKey, version: int) -> None:
    encoded = b"".join(compile_encoder(type(message), version, key.is_flexible(version))(message))
    assert encoded.hex() == GOLDEN[name]
    decode = compile_decoder(type(message), version, key.is_flexible(version))
    assert decode(memoryview(bytes.fromhex(GOLDEN[name])), 0) == message


@pytest.mark.java
@pytest.mark.skipif(not (JARS.is_dir() and shutil.which("java")), reason="needs a JDK and Kafka's jars (make peer)")
def test_kafka_still_writes_the_golden_bytes() -> None:
    lines = [
        f"{type(message).__name__}\t{version}\t{json.dumps(kafka_json(message, version))}\n"
        for _, message, _, version in IN_KAFKA
    ]
    done = subprocess.run(
        ["java", "-cp", f"{JARS}/*", HERE / "KafkaEncodes.java"],
        input="".join(lines),
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    assert done.stdout.splitlines() == list(GOLDEN.values())
