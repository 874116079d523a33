"""Our message classes and API keys against Kafka 4.4's own message JSON, field by field.

What 4.4 has in versions that we do not have is left out: `scripts/pages/kafka_differences.py` has to name the key.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from barnabas.wire.api_keys import CLIENT_KEYS, NEVER, SERVED_KEYS, ApiKey
from barnabas.wire.messages import MESSAGES, api_key_of
from barnabas.wire.primitives import ZERO_UUID
from barnabas.wire.schema import Versions, shape_of
from scripts.pages.kafka_differences import API_KEYS
from tests.unit.wire.golden.schemas import KafkaField, kafkas_schemas
from tests.unit.wire.samples import RENAMED

KAFKAS = kafkas_schemas()

PAIRS = [(key, message) for key, pair in MESSAGES.items() for message in pair]
IDS = [message.__name__ for _, message in PAIRS]

NAMED_OTHERWISE = {
    (ApiKey.ALTER_CLIENT_QUOTAS, "EntryResult"): "EntryData",
    (ApiKey.DESCRIBE_QUORUM, "PartitionRequest"): "PartitionData",
    (ApiKey.DESCRIBE_QUORUM, "TopicRequest"): "TopicData",
}
"""Two structs of one key share a name in Kafka, where request and response are files of their own."""

NULL_BY_DEFAULT = {
    ("InitProducerIdRequest", "transactional_id"),
}
"""Kafka's generated classes start this with "", as they start every nullable error message, and everyone who makes one
has to set null."""

LATER = {key: Versions.parse(each.without_schema) for key, each in API_KEYS.items() if each.without_schema}
"""By key: the versions that Kafka 4.4 has, and that have no schema here yet."""

READ_STILL = {ApiKey.PRODUCE: "0-2", ApiKey.FETCH: "0-3"}
"""What Kafka 4 has dropped."""


def snake_case(name: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


def default_of(field: KafkaField) -> Any:
    """As Kafka's generator makes it, but for what `NULL_BY_DEFAULT` says."""
    if field.default == "null" or field.type == "records":
        return None
    if field.type.startswith("[]"):
        return []
    if field.name == "ErrorMessage" and field.nullable != "none":
        return None
    match field.type:
        case "string":
            return field.default or ""
        case "bytes":
            return b""
        case "bool":
            return field.default == "true"
        case "uuid":
            return ZERO_UUID
        case "float64":
            return 0.0
    return int(field.default or "0", 0)


def known(message: type[Any], fields: list[KafkaField]) -> dict[str, KafkaField]:
    """Those that Kafka has in a version of which there is a schema, by the name that they have here."""
    key = api_key_of(message)
    first_without = LATER[key].first if key in LATER else NEVER
    ours = {kafkas: name for (owner, name), kafkas in RENAMED.items() if owner == message.__name__}
    return {
        snake_case(ours.get(field.name, field.name)): field
        for field in fields
        if Versions.parse(field.versions).first < first_without
    }


def same_versions(message: type[Any], ours: Versions, theirs: Versions) -> bool:
    key = api_key_of(message)
    if key not in LATER:
        return ours == theirs
    last = LATER[key].first - 1
    return (ours.first, min(ours.last, last)) == (theirs.first, min(theirs.last, last))


def check_struct(message: type[Any], fields: list[KafkaField]) -> None:
    ours = {field.name: field for field in dataclasses.fields(message)}
    theirs = known(message, fields)
    assert list(ours) == list(theirs), message.__name__
    for name, field in theirs.items():
        check_field(message, ours[name], field)


def check_field(message: type[Any], ours: dataclasses.Field[Any], theirs: KafkaField) -> None:
    where = f"{message.__name__}.{ours.name}"
    shape = shape_of(ours)
    kind = theirs.type.removeprefix("[]")
    assert shape.is_array == theirs.type.startswith("[]"), where
    assert same_versions(message, shape.versions, Versions.parse(theirs.versions)), where
    assert same_versions(message, shape.nullable, Versions.parse(theirs.nullable)), where
    assert (shape.tag, theirs.tagged_versions) == (theirs.tag, None), where
    if isinstance(shape.kind, str):
        assert shape.kind == kind, where
    else:
        name = shape.kind.__name__
        assert NAMED_OTHERWISE.get((api_key_of(message), name), name) == kind, where
        check_struct(shape.kind, theirs.fields)
    if shape.is_array or isinstance(shape.kind, str):
        default = [] if ours.default_factory is list else ours.default
        assert default == (None if (message.__name__, ours.name) in NULL_BY_DEFAULT else default_of(theirs)), where
    elif theirs.nullable != "none" or theirs.tag is not None:
        assert ours.default is None, where
        assert theirs.default == (None if theirs.tag is not None else "null"), where
    else:
        assert ours.default_factory is shape.kind, where


@pytest.mark.parametrize(("key", "message"), PAIRS, ids=IDS)
def test_every_field_is_as_in_kafkas_json(key: ApiKey, message: type[Any]) -> None:
    theirs = KAFKAS[message.__name__]
    assert theirs.api_key == key
    assert theirs.flexible == ("none" if key.flexible_from == NEVER else f"{key.flexible_from}+")
    check_struct(message, theirs.fields)


def test_kafka_has_no_more_for_clients_than_we_have_or_name() -> None:
    theirs = {message.api_key for message in KAFKAS.values() if message.is_offered_to_clients}
    assert [*CLIENT_KEYS, *(key for key in LATER if key not in CLIENT_KEYS)] == sorted(theirs)
    assert len(CLIENT_KEYS) == 77


@pytest.mark.parametrize("key", CLIENT_KEYS, ids=lambda key: key.name)
def test_versions_are_kafkas(key: ApiKey) -> None:
    request, response = (KAFKAS[message.__name__] for message in MESSAGES[key])
    assert request.versions == response.versions
    valid = Versions.parse(request.versions)
    last = valid.last
    if key in LATER:
        assert LATER[key].last == last
        last = LATER[key].first - 1
    # Kafka offers a version that it marks as unstable only if configured; so it is not for us to offer either.
    assert (key.version_min, key.version_max) == (valid.first, last - request.is_unstable)
    older = Versions.parse(READ_STILL.get(key, "none"))
    assert key.schema_versions == (min(valid.first, older.first) if key in READ_STILL else valid.first, last)


IN_KAFKA = {KAFKAS[name].api_key: KAFKAS[name] for name in KAFKAS if name.endswith("Request")}


@pytest.mark.parametrize("key", [key for key in ApiKey if key in IN_KAFKA], ids=lambda key: key.name)
def test_name_and_flexible_versions_of_every_key_are_kafkas(key: ApiKey) -> None:
    theirs = IN_KAFKA[key]
    flexible = Versions.parse(theirs.flexible)
    assert theirs.name == f"{key.api_name}Request"
    assert key.flexible_from == (NEVER if flexible.first > flexible.last else flexible.first)


def test_only_the_keys_that_kafka_4_has_dropped_are_not_in_its_json() -> None:
    assert [key for key in ApiKey if key not in IN_KAFKA] == [4, 5, 6, 7]


def test_messages_are_named_after_their_key() -> None:
    assert tuple(MESSAGES) == CLIENT_KEYS
    for key, pair in MESSAGES.items():
        assert [message.__name__ for message in pair] == [f"{key.api_name}Request", f"{key.api_name}Response"]
        assert [api_key_of(message) for message in pair] == [key, key]


def test_keys_that_brokers_keep_to_themselves_have_no_messages() -> None:
    assert ApiKey.LEADER_AND_ISR not in MESSAGES
    assert not ApiKey.LEADER_AND_ISR.is_served


def test_only_the_keys_with_old_message_formats_are_advertised_below_what_kafka_offers() -> None:
    assert {key: key.advertised_min for key in SERVED_KEYS if key.advertised_min != key.version_min} == {
        ApiKey.PRODUCE: 0,
        ApiKey.FETCH: 0,
    }
