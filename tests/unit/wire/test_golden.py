from __future__ import annotations

import pytest

from barnabas.wire.decoding import compile_decoder
from barnabas.wire.encoding import compile_encoder
from tests.unit.wire.golden import (
    GOLDEN_FILE,
    HAS_KAFKA,
    IN_KAFKA,
    IN_OLDER_KAFKA,
    JARS,
    OLDER_GOLDEN_FILE,
    OLDER_JARS,
    SERVES_FILE,
    WITHOUT_KAFKA,
    golden,
    kafka_encodes,
    kafka_serves,
)
from tests.unit.wire.golden.schemas import SCHEMAS_FILE, read_jar
from tests.unit.wire.samples import Sample

GOLDEN = golden(GOLDEN_FILE)
OLDER_GOLDEN = golden(OLDER_GOLDEN_FILE)


def test_golden_bytes_are_there_for_all_that_kafka_has() -> None:
    assert list(GOLDEN) == [sample.name for sample in IN_KAFKA]
    assert list(OLDER_GOLDEN) == [sample.name for sample in IN_OLDER_KAFKA]


@pytest.mark.parametrize("sample", IN_KAFKA + IN_OLDER_KAFKA, ids=lambda sample: sample.name)
def test_the_bytes_are_those_of_kafka(sample: Sample) -> None:
    kafkas = (GOLDEN | OLDER_GOLDEN)[sample.name]
    message_type, is_flexible = type(sample.message), sample.key.is_flexible(sample.version)
    encoded = b"".join(compile_encoder(message_type, sample.version, is_flexible)(sample.message))
    assert encoded.hex() == kafkas
    decode = compile_decoder(message_type, sample.version, is_flexible)
    assert decode(memoryview(bytes.fromhex(kafkas)), 0) == sample.message


needs_kafka = pytest.mark.skipif(not HAS_KAFKA, reason=WITHOUT_KAFKA)


@pytest.mark.java
@needs_kafka
def test_kafka_still_writes_the_golden_bytes() -> None:
    assert kafka_encodes(IN_KAFKA, JARS) == GOLDEN


@pytest.mark.java
@pytest.mark.skipif(not OLDER_JARS.is_dir(), reason="needs kafka-clients 3.9.1 in .cache/peer/older")
@needs_kafka
def test_older_kafka_writes_the_golden_bytes() -> None:
    assert kafka_encodes(IN_OLDER_KAFKA, OLDER_JARS, JARS) == OLDER_GOLDEN


@pytest.mark.java
@needs_kafka
def test_kafka_still_serves_the_same() -> None:
    assert kafka_serves() == SERVES_FILE.read_text()


@needs_kafka
def test_the_schemas_are_those_of_kafkas_jar() -> None:
    assert SCHEMAS_FILE.read_text() == read_jar(JARS)
