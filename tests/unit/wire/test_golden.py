from __future__ import annotations

import shutil
from typing import Any

import pytest

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.decoding import compile_decoder
from barnabas.wire.encoding import compile_encoder
from tests.unit.wire.golden import IN_KAFKA, JARS, golden, kafka_encodes

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
    assert kafka_encodes() == GOLDEN
