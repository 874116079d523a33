"""Byte for byte the same as kio and kafka-python, in every version that they have, both ways."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.encoding import compile_encoder
from barnabas.wire.messages import MESSAGES
from barnabas.wire.messages.api_versions import ApiVersionsResponse
from tests.tiers import Cost, examples
from tests.unit.wire.oracles import NOT_IN_KAFKA_PYTHON, NOT_IN_KIO, KafkaPython, Kio
from tests.unit.wire.strategies import message_of

FEW = settings(examples(Cost.EXTREME), suppress_health_check=list(HealthCheck))
"""Of each version."""

ALL = [(message, key) for key, pair in MESSAGES.items() for message in pair]
IDS = [message.__name__ for message, _ in ALL]


def versions_of(key: ApiKey) -> range:
    return range(key.schema_versions.first, key.schema_versions.last + 1)


def body_of(message: Any, key: ApiKey, version: int) -> bytes:
    return b"".join(compile_encoder(type(message), version, key.is_flexible(version))(message))


IN_KAFKA_PYTHON = [(message, key) for message, key in ALL if key not in NOT_IN_KAFKA_PYTHON]


@pytest.mark.parametrize(("message", "key"), IN_KAFKA_PYTHON, ids=[message.__name__ for message, _ in IN_KAFKA_PYTHON])
@FEW
@given(data=st.data())
def test_kafka_python_agrees(message: type[Any], key: ApiKey, data: st.DataObject) -> None:
    for version in versions_of(key):
        value = data.draw(message_of(message, version))
        if isinstance(value, ApiVersionsResponse):
            # kafka-python reads every response that has an error as v0, which is the one that brokers may send.
            value.error_code = 0
        KafkaPython(message).check(value, version, body_of(value, key, version))


@pytest.mark.parametrize(("message", "key"), ALL, ids=IDS)
@FEW
@given(data=st.data())
def test_kio_agrees(message: type[Any], key: ApiKey, data: st.DataObject) -> None:
    for version in versions_of(key):
        if version in NOT_IN_KIO.get(key, ()):
            continue
        value = data.draw(message_of(message, version))
        Kio(message, key, version).check(value, version, body_of(value, key, version))
