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
from tests.unit.wire.oracles import KafkaPython, Kio
from tests.unit.wire.strategies import ALL_VERSIONS, ALL_VERSIONS_IDS, message_of

FEW = settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))

NOT_IN_KIO = [(message, ApiKey.PRODUCE, version) for message in MESSAGES[ApiKey.PRODUCE] for version in (0, 1, 2)]


def body_of(message: Any, key: ApiKey, version: int) -> bytes:
    return b"".join(compile_encoder(type(message), version, key.is_flexible(version))(message))


@pytest.mark.parametrize(("message", "key", "version"), ALL_VERSIONS, ids=ALL_VERSIONS_IDS)
@FEW
@given(data=st.data())
def test_kafka_python_agrees(message: type[Any], key: ApiKey, version: int, data: st.DataObject) -> None:
    value = data.draw(message_of(message, version))
    if isinstance(value, ApiVersionsResponse):
        # kafka-python reads every response that has an error as v0, which is the one that brokers may send.
        value.error_code = 0
    KafkaPython(message).check(value, version, body_of(value, key, version))


@pytest.mark.parametrize(("message", "key", "version"), [case for case in ALL_VERSIONS if case not in NOT_IN_KIO])
@FEW
@given(data=st.data())
def test_kio_agrees(message: type[Any], key: ApiKey, version: int, data: st.DataObject) -> None:
    value = data.draw(message_of(message, version))
    Kio(message, key, version).check(value, version, body_of(value, key, version))
