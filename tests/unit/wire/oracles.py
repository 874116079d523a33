"""Two independent codecs that ours is held against: kio and kafka-python.

Each takes the bytes of a body, decodes them, compares what it found with our message field by field, and encodes that
again. They never see our encoder's input, so a field that is misnamed or out of place shows as a different value.
"""

from __future__ import annotations

import datetime
import importlib
import io
import re
import uuid
import warnings
from typing import Any

from kio.serial import entity_reader, entity_writer

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages import MESSAGES
from barnabas.wire.messages.metadata import AUTHORIZED_OPERATIONS_UNKNOWN
from barnabas.wire.primitives import ZERO_UUID
from barnabas.wire.schema import Field, fields_of

with warnings.catch_warnings():
    # It reads its JSON by a function that Python has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    KAFKA_PYTHON = [
        importlib.import_module(f"kafka.protocol.{name}")
        for name in ("producer", "consumer", "admin", "metadata", "sasl")
    ]
    _RECORDS = importlib.import_module("kafka.record.default_records")

KafkaPythonBatch = _RECORDS.DefaultRecordBatch
KafkaPythonBuilder = _RECORDS.DefaultRecordBatchBuilder

NOT_IN_KIO = {
    ApiKey.PRODUCE: range(3),
    ApiKey.FETCH: range(4),
}
"""What kio lacks: versions that Kafka 4 has dropped, whose JSON it is made of."""

NOT_IN_KAFKA_PYTHON = {
    # Between brokers, or for tools of Kafka's own.
    ApiKey.UNREGISTER_BROKER,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    # What this client does not do.
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_DESCRIBE,
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE,
    ApiKey.STREAMS_GROUP_HEARTBEAT,
    ApiKey.STREAMS_GROUP_DESCRIBE,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS,
}
"""What kafka-python lacks: keys of which it has no message."""

NAMES_OF_KAFKA_PYTHON = {
    "cluster_authorized_operations": "authorized_operations",
    "topic_authorized_operations": "authorized_operations",
}

STANDS_FOR_NONE = {
    "log_append_time_ms": -1,
    "authorized_operations": AUTHORIZED_OPERATIONS_UNKNOWN,
    "cluster_authorized_operations": AUTHORIZED_OPERATIONS_UNKNOWN,
    "topic_authorized_operations": AUTHORIZED_OPERATIONS_UNKNOWN,
}


def plain(value: Any) -> Any:
    """One value of any of the three codecs as ours has it."""
    match value:
        case memoryview() | bytes():
            return bytes(value)
        case datetime.timedelta():
            return value // datetime.timedelta(milliseconds=1)
        case datetime.datetime():
            epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
            # kio went through a float.
            return round((value - epoch) / datetime.timedelta(milliseconds=1))
        case uuid.UUID():
            return value.bytes
        case set():
            # kafka-python opens the bit field of the authorized operations.
            return sum(1 << bit if bit < 31 else -(1 << 31) for bit in value)
        case bool() | None:
            return value
        case int():
            return int(value)
        case float():
            return float(value)
        case str():
            return str(value)
    raise AssertionError(f"{value!r} of a type that no field has")


def differences(ours: Any, theirs: Any, version: int, names: dict[str, str], path: str = "") -> list[str]:
    """Every field in which the two differ; `names` are those that they name otherwise."""
    found = []
    for field in fields_of(type(ours), version):
        there = f"{path}.{field.name}"
        mine, yours = getattr(ours, field.name), getattr(theirs, their_name(field.name, theirs, names))
        if field.is_array and mine is not None and yours is not None:
            if len(mine) != len(yours):
                found.append(f"{there}: {len(mine)} elements here, {len(yours)} there")
            for number, pair in enumerate(zip(mine, yours, strict=False)):
                found += compare(field, *pair, version, names, f"{there}[{number}]")
        else:
            found += compare(field, mine, yours, version, names, there)
    return found


def their_name(name: str, theirs: Any, names: dict[str, str]) -> str:
    if hasattr(theirs, names.get(name, name)):
        return names.get(name, name)
    # kio turns times into timedelta and datetime, and takes the unit off the name.
    return name.removesuffix("_ms")


def compare(field: Field, mine: Any, yours: Any, version: int, names: dict[str, str], path: str) -> list[str]:
    if isinstance(field.kind, str):
        mine, yours = plain(mine), plain(yours)
        if field.kind == "uuid":
            yours = yours or ZERO_UUID
        if yours is None:
            yours = STANDS_FOR_NONE.get(field.name)
        return [] if mine == yours else [f"{path}: {mine!r} here, {yours!r} there"]
    if mine is None and yours is not None and field.tag is not None:
        mine = field.kind()
    if mine is None or yours is None:
        return [] if mine is yours else [f"{path}: {mine!r} here, {yours!r} there"]
    return differences(mine, yours, version, names, path)


class Kio:
    """kio has one class per version."""

    def __init__(self, message: type[Any], key: ApiKey, version: int) -> None:
        words = re.sub(r"(?<!^)(?=[A-Z])", "_", key.api_name).lower()
        side = "request" if message is MESSAGES[key][0] else "response"
        module = importlib.import_module(f"kio.schema.{words}.v{version}.{side}")
        self.entity = getattr(module, message.__name__)

    def check(self, ours: Any, version: int, body: bytes) -> None:
        theirs, _ = entity_reader(self.entity)(body, 0)
        assert differences(ours, theirs, version, {}) == []
        written = io.BytesIO()
        entity_writer(self.entity)(written, theirs)
        assert written.getvalue() == body


class KafkaPython:
    """kafka-python reads Kafka's own JSON when it is imported."""

    def __init__(self, message: type[Any]) -> None:
        name = message.__name__
        self.entity = next(getattr(module, name) for module in KAFKA_PYTHON if hasattr(module, name))

    def check(self, ours: Any, version: int, body: bytes) -> None:
        theirs = self.entity.decode(body, version=version)
        assert differences(ours, theirs, version, NAMES_OF_KAFKA_PYTHON) == []
        theirs._header = None
        assert bytes(theirs.encode()) == body
