"""Our message classes against Kafka's own message JSON, of which kafka-python carries a copy."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest

from barnabas.wire.api_keys import NEVER, SERVED_KEYS, ApiKey
from barnabas.wire.messages import MESSAGES
from barnabas.wire.primitives import ZERO_UUID
from barnabas.wire.schema import Versions, shape_of
from tests.unit.wire.oracles import KAFKA_JSON

PAIRS = [(key, message) for key, pair in MESSAGES.items() for message in pair]
IDS = [message.__name__ for _, message in PAIRS]

NOT_OURS = {("ListOffsetsPartition", "max_num_offsets"), ("ListOffsetsPartitionResponse", "old_style_offsets")}
"""Fields of ListOffsets v0, which Kafka 4 has dropped and kafka-python keeps."""

NULL_BY_DEFAULT = {
    ("CreatableTopicResult", "error_message"),
    ("FindCoordinatorResponse", "error_message"),
    ("Coordinator", "error_message"),
    ("InitProducerIdRequest", "transactional_id"),
}
"""Kafka's generated classes start these with "", and everyone who makes one has to set null."""


def kafkas(name: str) -> dict[str, Any]:
    text = (KAFKA_JSON / f"{name}.json").read_text()
    loaded: dict[str, Any] = json.loads(re.sub(r"(?m)^\s*//.*$", "", text))
    return loaded


def snake_case(name: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


def default_of(field: dict[str, Any]) -> Any:
    """As Kafka's generator makes it."""
    text = field.get("default")
    kind = field["type"]
    if text == "null" or kind == "records":
        return None
    if kind.startswith("[]"):
        return []
    if kind[0].isupper():
        return None  # ours: absent
    if kind == "string":
        return text or ""
    if kind == "bool":
        return text == "true"
    if kind == "uuid":
        return ZERO_UUID
    return int(str(text), 0) if text is not None else 0


def check_struct(message: type[Any], fields: list[dict[str, Any]], inherited: str) -> None:
    ours = {field.name: field for field in dataclasses.fields(message)}
    theirs = {snake_case(field["name"]): field for field in fields}
    expected = [name for name in theirs if (message.__name__, name) not in NOT_OURS]
    assert list(ours) == expected, message.__name__
    for name in expected:
        check_field(message, ours[name], theirs[name])


def check_field(message: type[Any], ours: dataclasses.Field[Any], theirs: dict[str, Any]) -> None:
    where = f"{message.__name__}.{ours.name}"
    shape = shape_of(ours)
    kind = theirs["type"].removeprefix("[]")
    assert shape.is_array == theirs["type"].startswith("[]"), where
    assert shape.versions == Versions.parse(theirs["versions"]), where
    assert shape.nullable == Versions.parse(theirs.get("nullableVersions", "none")), where
    assert shape.tag == theirs.get("tag"), where
    if shape.tag is not None:
        assert theirs["taggedVersions"] == theirs["versions"], where
    default = [] if ours.default_factory is list else ours.default
    assert default == (None if (message.__name__, ours.name) in NULL_BY_DEFAULT else default_of(theirs)), where
    if isinstance(shape.kind, str):
        assert shape.kind == kind, where
    else:
        assert shape.kind.__name__ == kind, where
        check_struct(shape.kind, theirs["fields"], theirs["versions"])


@pytest.mark.parametrize(("key", "message"), PAIRS, ids=IDS)
def test_every_field_is_as_in_kafkas_json(key: ApiKey, message: type[Any]) -> None:
    theirs = kafkas(message.__name__)
    assert theirs["apiKey"] == key
    assert theirs["flexibleVersions"] == f"{key.flexible_from}+"
    # Kafka offers a version that it marks as unstable only when told to; so it is not for us to offer either.
    unstable = int(kafkas(MESSAGES[key][0].__name__).get("latestVersionUnstable", False))
    assert theirs["validVersions"] == f"{key.version_min}-{key.version_max + unstable}"
    check_struct(message, theirs["fields"], theirs["validVersions"])


def test_every_served_key_has_messages_named_after_it() -> None:
    assert tuple(MESSAGES) == SERVED_KEYS
    for key, (request, response) in MESSAGES.items():
        assert (request.__name__, response.__name__) == (f"{key.api_name}Request", f"{key.api_name}Response")


IN_KAFKA_PYTHON = [key for key in ApiKey if (KAFKA_JSON / f"{key.api_name}Request.json").is_file()]


@pytest.mark.parametrize("key", IN_KAFKA_PYTHON, ids=lambda key: key.name)
def test_number_and_flexible_version_of_every_key_are_kafkas(key: ApiKey) -> None:
    theirs = kafkas(f"{key.api_name}Request")
    flexible = Versions.parse(theirs["flexibleVersions"])
    assert theirs["apiKey"] == key
    assert key.flexible_from == (NEVER if flexible.first > flexible.last else flexible.first)


def test_only_produce_is_advertised_below_what_is_served() -> None:
    assert {key: key.advertised_min for key in SERVED_KEYS if key.advertised_min != key.version_min} == {
        ApiKey.PRODUCE: 0
    }


def test_produce_before_v3_is_known_but_not_served() -> None:
    assert (ApiKey.PRODUCE.version_min, ApiKey.PRODUCE.version_max) == (3, 13)


def test_a_key_without_versions_serves_none() -> None:
    assert not ApiKey.JOIN_GROUP.is_served
