"""Harmful schemas, and values by them: dead letters, and never the end of the job or of its memory."""

from __future__ import annotations

import datetime
import decimal
import io
import itertools
import json
import uuid
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastavro", reason="needs the pipeline's environment (make pipeline)")
pytest.importorskip("pyiceberg", reason="needs the pipeline's environment (make pipeline)")

import fastavro
from google.protobuf import message_factory

from barnabas_pipeline.core.columns import Kind, ListOf
from barnabas_pipeline.core.rows import MisfitError, RowMaker
from barnabas_pipeline.schemas.avro import AvroSchema, AvroSchemaError
from barnabas_pipeline.schemas.protobuf import ProtobufFileDecoder, ProtobufSchema, ProtobufSchemaError
from tests.pipeline.tables_world import FakeCluster, World

NODE = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "v", "type": "long"}, {"name": "next", "type": ["null", "Node"]}],
}


def avro_record(name: str, *types: Any) -> dict[str, Any]:
    fields = [{"name": f"f{number}", "type": each} for number, each in enumerate(types)]
    return {"type": "record", "name": name, "fields": fields}


def avro(*types: Any) -> AvroSchema:
    return AvroSchema.parse(json.dumps(avro_record("R", *types)))


def test_avro_records_inside_of_each_other_by_the_thousand_are_a_dead_letter(tmp_path: Path) -> None:
    """10 kB of them overflowed the C stack: SIGSEGV, at each start of the job again."""
    path = tmp_path / "node.avsc"
    path.write_text(json.dumps(NODE))
    cluster = FakeCluster()
    cluster.produce("nodes", 0, (b"k", b"\x02\x02" * 5000 + b"\x02\x00"), (b"k", b"\x02\x02\x04\x00"))
    world = World(tmp_path / "lake", cluster, {"into": "parquet", "value": "avro", "schema_file": str(path)})
    world.run()
    assert [(row["v"], row["next"]) for row in world.rows("nodes")] == [(1, '{"v":2,"next":null}')]
    reasons = [row["reason"] for row in world.rows("nodes__dead_letters")]
    assert reasons == ["not Avro by its schema: records inside of records, too deep to be read"]


def test_avro_inside_of_itself_is_read_as_all_other_avro_is() -> None:
    """By another reader: of all types, the logical ones too."""
    at = datetime.datetime(2026, 11, 22, 10, 0, 0, 1000, tzinfo=datetime.UTC)
    pairs: list[tuple[Any, object]] = [
        ("boolean", True),
        ("int", -5),
        ("long", -(2**63)),
        ("float", 1.5),
        ("double", -0.1),
        ("bytes", b"\xff"),
        ("string", "ß"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
        ({"type": "fixed", "name": "F", "size": 2}, b"ab"),
        ({"type": "map", "values": "int"}, {"k": 1}),
        ({"type": "array", "items": {"type": "array", "items": "int"}}, [[1, 2], [], [3]]),
        ({"type": "int", "logicalType": "date"}, datetime.date(2026, 11, 22)),
        ({"type": "long", "logicalType": "timestamp-millis"}, at),
        ({"type": "long", "logicalType": "timestamp-micros"}, at),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, at.replace(tzinfo=None)),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, at.replace(tzinfo=None)),
        ({"type": "int", "logicalType": "time-millis"}, datetime.time(1, 2, 3, 4000)),
        ({"type": "long", "logicalType": "time-micros"}, datetime.time(1, 2, 3, 4)),
        ({"type": "string", "logicalType": "uuid"}, uuid.UUID(int=7)),
        ({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, uuid.UUID(int=7)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, decimal.Decimal("-1.23")),
    ]
    types, values = [each for each, _ in pairs], {f"f{number}": value for number, (_, value) in enumerate(pairs)}
    flat, recursive = avro(*types), avro(*types, ["null", "R"])
    assert (flat.is_recursive, recursive.is_recursive) == (False, True)
    written = io.BytesIO()
    # fastavro writes such UUIDs in text only: here as the sixteen bytes that others write.
    written_types = [
        each | {"logicalType": ""} if isinstance(each, dict) and "size" in each else each for each in types
    ]
    written_schema = fastavro.parse_schema(avro_record("R", *written_types))
    fastavro.schemaless_writer(written, written_schema, {**values, "f19": uuid.UUID(int=7).bytes})
    payload = written.getvalue()
    assert flat.decode(payload).value == values
    assert recursive.decode(payload + b"\x00").value == {**values, f"f{len(pairs)}": None}
    nested = recursive.decode(payload + b"\x02" + payload + b"\x00").value
    assert nested == {**values, f"f{len(pairs)}": {**values, f"f{len(pairs)}": None}}
    for wrong in (payload, payload + b"\x06", payload + b"\x02" + payload, payload + b"\x00\x00"):
        with pytest.raises(MisfitError):
            recursive.decode(wrong)


def test_a_whole_number_without_end_in_avro_inside_of_itself() -> None:
    with pytest.raises(MisfitError, match="a whole number of over 10 bytes"):
        AvroSchema.parse(json.dumps(NODE)).decode(b"\xff" * 100 + b"\x00\x00")


def test_avro_unions_of_whole_numbers_and_doubles_are_text_with_all_digits() -> None:
    """As doubles the whole numbers over 2^53 were other ones."""
    schema = avro(["long", "double"], ["null", "float", "int"], {"type": "array", "items": ["double", "long"]})
    assert [column.type for column in schema.columns.columns] == [Kind.STRING, Kind.STRING, ListOf(Kind.STRING)]
    maker = RowMaker(schema.columns)
    row = maker.row({"f0": 2**53 + 1, "f1": 0.5, "f2": [1.5, 2**60 + 1]})
    assert row == {"f0": str(2**53 + 1), "f1": "0.5", "f2": ["1.5", str(2**60 + 1)]}
    same = avro(["null", "int", "long"], ["float", "double"]).columns.columns
    assert [column.type for column in same] == [Kind.LONG, Kind.DOUBLE]


@pytest.mark.parametrize("depth", [400, 3000])
def test_an_avro_schema_of_records_inside_of_records_without_end(depth: int) -> None:
    """Each in one of its own, so that none is inside of itself: such a schema must not end the job either."""
    chain = [avro_record("R0", "long"), *(avro_record(f"R{number}", f"R{number - 1}") for number in range(1, depth))]
    references = [(str(record["name"]), json.dumps(record)) for record in chain]
    with pytest.raises(AvroSchemaError, match="types inside of types, too deep to be read"):
        AvroSchema.parse(references[-1][1], tuple(references[:-1]))


PROTO3 = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/struct.proto";
message M {
  google.protobuf.Timestamp at = 1;
  google.protobuf.Struct open = 2;
  google.protobuf.Value any = 3;
  map<string, google.protobuf.Value> by_name = 4;
}
"""
PROTO2 = """
syntax = "proto2";
message M {
  map<string, int32> by_name = 1;
  optional string text = 2;
  repeated string texts = 3;
  map<int32, string> by_number = 4;
  optional bytes raw = 5;
}
"""


def test_protobuf_values_that_no_calendar_and_no_json_has_are_dead_letters(tmp_path: Path) -> None:
    """Microseconds where Timestamp has seconds, numbers that JSON lacks: each ended the job."""
    path = tmp_path / "m.proto"
    path.write_text(PROTO3)
    new: Any = message_factory.GetMessageClass(ProtobufSchema.parse(PROTO3, ()).message_at((0,)))
    good, at, infinite, not_a_number, in_a_map = new(), new(), new(), new(), new()
    good.open["x"] = 1
    at.at.seconds = 1_795_000_000 * 10**6
    infinite.any.number_value = float("inf")
    not_a_number.open["x"] = float("nan")
    in_a_map.by_name["k"].number_value = float("-inf")
    messages = (good, at, infinite, not_a_number, in_a_map)
    cluster = FakeCluster()
    cluster.produce("events", 0, *((b"k", message.SerializeToString()) for message in messages))
    world = World(tmp_path / "lake", cluster, {"into": "parquet", "value": "protobuf", "schema_file": str(path)})
    world.run()
    assert [(row["_offset"], row["open"]) for row in world.rows("events")] == [(0, '{"x": 1.0}')]
    reasons = {row["offset"]: row["reason"] for row in world.rows("events__dead_letters")}
    assert reasons.pop(1) == "field at is a time that no calendar has"
    assert sorted(reasons) == [2, 3, 4]
    assert all("has no JSON form" in reason for reason in reasons.values())


@pytest.mark.parametrize(
    "payload", [b"\x0a\x05\x0a\x01\xff\x10\x01", b"\x12\x01\xff", b"\x1a\x01\xff", b"\x22\x05\x08\x01\x12\x01\xff"]
)
def test_text_of_proto2_that_is_not_utf8_is_a_dead_letter(payload: bytes) -> None:
    """As a map's key it ended the job; elsewhere its base64 was stored for it."""
    values = ProtobufSchema.parse(PROTO2, ()).values_at((0,))
    fields: Any = values.decode(b"\x2a\x01\xff\x12\x01a").value
    assert (fields["raw"], fields["text"]) == (b"\xff", "a")
    with pytest.raises(MisfitError, match=r"not UTF-8|UnicodeDecodeError"):
        values.decode(payload)


def test_avro_types_that_all_refer_to_each_other_are_refused() -> None:
    """Followed to their leaves, twelve records that have each other filled the memory."""
    names = [f"R{number}" for number in range(12)]
    records: list[Any] = [
        {"type": "record", "name": name, "fields": [{"name": other, "type": ["null", other]} for other in names]}
        for name in names
    ]
    for outer, inner in itertools.pairwise(records):  # each is written out where it is named first
        outer["fields"][names.index(inner["name"])]["type"][1] = inner
    with pytest.raises(AvroSchemaError, match="more than 20000 parts once its names are followed"):
        AvroSchema.parse(json.dumps(records[0]))


def test_protobuf_messages_that_all_refer_to_each_other_are_refused(tmp_path: Path) -> None:
    fields = " ".join(f"M{number} m{number} = {number + 1};" for number in range(12))
    text = 'syntax = "proto3"; ' + " ".join(f"message M{number} {{ {fields} }}" for number in range(12))
    schema = ProtobufSchema.parse(text, ())
    for _ in range(2):
        with pytest.raises(MisfitError, match=r"its schema: .* more than 20000 parts"):
            schema.values_at((0,))
    path = tmp_path / "m.proto"
    path.write_text(text)
    with pytest.raises(ProtobufSchemaError, match="more than 20000 parts"):
        ProtobufFileDecoder(str(path), "")


def test_protobuf_messages_in_messages_without_end_are_refused() -> None:
    chain = " ".join(f"message M{number} {{ M{number + 1} m = 1; }}" for number in range(1500))
    schema = ProtobufSchema.parse(f'syntax = "proto3"; {chain} message M1500 {{ int32 x = 1; }}', ())
    with pytest.raises(MisfitError, match="messages in messages, too deep"):
        schema.values_at((0,))
    assert schema.values_at((1500,)).decode(b"\x08\x01").value == {"x": 1}


def test_names_of_fields_that_no_column_can_have_are_reported() -> None:
    name = "x" * 256
    record = {"type": "record", "name": "R", "fields": [{"name": name, "type": "long"}]}
    reason = "no column can be called xxxxxxxxxxxxxxxxxxxx…: over 255 characters"
    with pytest.raises(AvroSchemaError, match=reason):
        AvroSchema.parse(json.dumps(record))
    with pytest.raises(MisfitError, match=reason):
        ProtobufSchema.parse(f'syntax = "proto3"; message M {{ int32 {name} = 1; }}', ()).values_at((0,))


NULLS = avro_record("Nulls", *["null"] * 100)
TREE = avro_record("Tree", NULLS, ["null", "Tree"], ["null", "Tree"])


@pytest.mark.parametrize(
    "repeated",
    [
        {"type": "array", "items": avro_record("Item", "boolean", *["null"] * 100)},
        {"type": "array", "items": ["null", NULLS]},
        {"type": "array", "items": avro_record("Item", "boolean", NULLS)},
        {"type": "map", "values": {"type": "array", "items": ["int", avro_record("Item", "int", ["null", NULLS])]}},
        {"type": "map", "values": NULLS},
        TREE,
    ],
)
def test_avro_of_many_fields_to_the_byte_is_refused(repeated: Any) -> None:
    """A megabyte of such elements came to gigabytes."""
    with pytest.raises(AvroSchemaError, match=r"fields that take no bytes, .* can't be read safely"):
        avro(repeated)


def test_avro_of_a_few_fields_for_no_bytes_is_read() -> None:
    assert avro(*["null"] * 100).decode(b"").value == dict.fromkeys(f"f{number}" for number in range(100))
    few = avro({"type": "array", "items": avro_record("Item", "boolean", "null", avro_record("Empty"))})
    assert few.decode(b"\x02\x01\x00").value == {"f0": [{"f0": True, "f1": None, "f2": {}}]}


def test_protobuf_of_more_fields_than_memory_has_room_for_is_a_dead_letter() -> None:
    """Two bytes are a message, whose hundred fields are a Python object each: 40 kB came to 200 MB."""
    fields = " ".join(f"int32 f{number} = {number + 1};" for number in range(100))
    text = f'syntax = "proto3"; message M {{ repeated Inner inner = 1; }} message Inner {{ {fields} }}'
    values = ProtobufSchema.parse(text, ()).values_at((0,))
    with pytest.raises(MisfitError, match="more than 1,000,000 fields, set or not"):
        values.decode(b"\x0a\x00" * 10_000)
    decoded: Any = values.decode(b"\x0a\x00" * 9_999).value
    assert len(decoded["inner"]) == 9_999
