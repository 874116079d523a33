"""Avro and Protobuf, by file and by a registry; each wrong value a dead letter with its reason."""

from __future__ import annotations

import base64
import io
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastavro", reason="needs the pipeline's environment (make pipeline)")
pytest.importorskip("pyiceberg", reason="needs the pipeline's environment (make pipeline)")

import fastavro
from google.protobuf import message_factory

from barnabas_pipeline.core.columns import Column, DecimalOf, Kind, ListOf, MapOf, Struct
from barnabas_pipeline.core.rows import MisfitError
from barnabas_pipeline.schemas import protobuf as protobuf_module
from barnabas_pipeline.schemas import registry as registry_module
from barnabas_pipeline.schemas.avro import AvroDecoder, AvroFileDecoder, AvroSchema, AvroSchemaError
from barnabas_pipeline.schemas.decoders import decoder_of
from barnabas_pipeline.schemas.decoding import Decoding, ValueFormat
from barnabas_pipeline.schemas.json_schema import JsonSchema, JsonSchemaError
from barnabas_pipeline.schemas.protobuf import (
    ProtobufDecoder,
    ProtobufFileDecoder,
    ProtobufSchema,
    ProtobufSchemaError,
    compile_schema,
    read_message_indexes,
)
from barnabas_pipeline.schemas.registry import Registry, RegistryError
from tests.pipeline.fake_registry import FakeRegistry, fake_registry
from tests.pipeline.tables_world import FakeCluster, World

ORDER_1 = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "item", "type": ["null", "string"]}],
}
ORDER_2 = {**ORDER_1, "fields": [*ORDER_1["fields"], {"name": "price", "type": "double", "default": 0.0}]}
PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "money.proto";
message Other { int32 x = 1; }
message Order {
  int64 id = 1;
  repeated Line lines = 2;
  map<string, int32> tags = 3;
  google.protobuf.Timestamp at = 4;
  optional string note = 5;
  Kind kind = 6;
  uint64 big = 7;
  money.Money price = 8;
  Order parent = 9;
  message Line { string item = 1; }
  enum Kind { NEW = 0; PAID = 1; }
}
"""
MONEY = 'syntax = "proto3"; package money; message Money { int64 cents = 1; }'


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRegistry]:
    with fake_registry(monkeypatch) as known:
        yield known


def avro(schema_id: int, schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return b"\0" + schema_id.to_bytes(4, "big") + out.getvalue()


def test_avro_by_registry_into_a_table(fake: FakeRegistry, tmp_path: Path) -> None:
    fake.schemas = {1: {"schema": json.dumps(ORDER_1)}, 2: {"schema": json.dumps(ORDER_2)}}
    cluster = FakeCluster()
    cluster.produce("orders", 0, (b"k", avro(1, ORDER_1, {"id": 1, "item": "tea"})), (b"k", None))
    world = World(tmp_path, cluster, {"into": "parquet", "value": "avro", "registry": fake.url})
    run = world.start()
    run.batch()
    later = avro(2, ORDER_2, {"id": 2, "item": None, "price": 1.5})
    cluster.produce("orders", 0, (b"k", later), (b"k", b"hello"), (b"k", later[:-1]), (b"k", later + b"x"))
    cluster.produce("orders", 0, (b"k", avro(9, ORDER_1, {"id": 1, "item": None})))
    run.batch()
    rows = [(row["id"], row["item"], row.get("price")) for row in world.rows("orders")]
    assert sorted(rows, key=str) == [(1, "tea", None), (2, None, 1.5), (None, None, None)]
    reasons = sorted(row["reason"] for row in world.rows("orders__dead_letters"))
    assert [reason.partition(":")[0] for reason in reasons] == [
        "not Avro by its schema",
        "not Avro by its schema",
        "the registry has no schema with id 9",
        "the value does not begin with a zero byte and a schema's id",
    ]
    assert fake.asked.count("/schemas/ids/1") == 1


def test_types_of_avro() -> None:
    schema = {
        "type": "record",
        "name": "All",
        "fields": [
            {"name": "n", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "tags", "type": {"type": "map", "values": "int"}},
            {"name": "next", "type": ["null", "All"]},
            {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A"]}},
            {"name": "lines", "type": {"type": "array", "items": "float"}},
            {"name": "either", "type": ["int", "string"]},
        ],
    }
    columns = AvroSchema.parse(json.dumps(schema)).columns
    assert [column.type for column in columns.columns] == [
        DecimalOf(9, 2),
        Kind.TIMESTAMP,
        MapOf(Kind.LONG),
        Kind.STRING,
        Kind.STRING,
        ListOf(Kind.DOUBLE),
        Kind.STRING,
    ]


@pytest.mark.parametrize("text", ["", "{}", '"string"', '{"type": "enum", "name": "e"}'])
def test_what_is_no_avro_schema(text: str) -> None:
    with pytest.raises(AvroSchemaError):
        AvroSchema.parse(text)


def test_an_array_of_nothing_can_claim_any_length() -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "array", "items": "null"}}]}
    with pytest.raises(AvroSchemaError, match="take no bytes"):
        AvroSchema.parse(json.dumps(schema))


def test_a_registry_that_is_away_for_a_moment_and_one_that_is_gone(fake: FakeRegistry) -> None:
    fake.schemas = {1: {"schema": json.dumps(ORDER_1)}}
    fake.failures = 2
    assert Registry(fake.url).schema(1).kind == "AVRO"
    fake.failures = 100
    with pytest.raises(RegistryError, match=r"the schema registry .* does not answer: HTTP Error 503"):
        Registry(fake.url).schema(1)
    with pytest.raises(RegistryError, match="at http:// or https://"):
        Registry("file:///etc/passwd").schema(1)


def test_protobuf_by_registry_with_an_import(fake: FakeRegistry) -> None:
    reference = {"name": "money.proto", "subject": "money", "version": 3}
    fake.schemas = {5: {"schemaType": "PROTOBUF", "schema": PROTO, "references": [reference]}}
    fake.subjects = {"/subjects/money/versions/3?deleted=true": {"schema": MONEY, "schemaType": "PROTOBUF"}}
    schema = ProtobufSchema.parse(PROTO, (("money.proto", MONEY),))
    order: Any = message_factory.GetMessageClass(schema.message_at((1,)))
    message = order(id=-1, tags={"a": 1}, kind=1, big=2**64 - 1, price={"cents": 5}, parent={"id": 2})
    message.lines.add(item="tea")
    message.at.FromMilliseconds(1500)
    decoder = ProtobufDecoder(Registry(fake.url))
    decoded = decoder.decode(b"\0\0\0\0\x05\x02\x02" + message.SerializeToString(), None)
    fields: Any = decoded.value
    assert (fields["id"], fields["lines"], fields["tags"]) == (-1, [{"item": "tea"}], {"a": 1})
    assert (fields["note"], fields["kind"], fields["big"]) == (None, "PAID", 2**64 - 1)
    assert fields["at"].timestamp() == 1.5
    assert (fields["price"], fields["parent"]["id"]) == ({"cents": 5}, 2)
    declared = decoded.declared
    assert declared is not None
    assert declared.column("big").type == DecimalOf(20, 0)  # type: ignore[union-attr]
    assert declared.column("parent").type is Kind.STRING  # type: ignore[union-attr]
    assert isinstance(declared.column("price").type, Struct)  # type: ignore[union-attr]
    for wrong in (b"\0\0\0\0\x05\x02\x08", b"\0\0\0\0\x05\x02\x02\x08", b"\0\0\0\0\x05\xff", b"\0\0\0\0\x05\x7f"):
        with pytest.raises(MisfitError):
            decoder.decode(wrong, None)


def test_protobuf_by_file(tmp_path: Path) -> None:
    proto, descriptors = tmp_path / "money.proto", tmp_path / "money.desc"
    proto.write_text(MONEY)
    descriptors.write_bytes(compile_schema(MONEY).SerializeToString())
    for path in (proto, descriptors):
        decoder = ProtobufFileDecoder(str(path), "money.Money")
        assert decoder.decode(b"\x08\x05", None).value == {"cents": 5}
    assert ProtobufFileDecoder(str(proto), "").values.columns.names == ("cents",)
    with pytest.raises(ProtobufSchemaError, match="has no message Nothing"):
        ProtobufFileDecoder(str(proto), "Nothing")
    with pytest.raises(ProtobufSchemaError, match=r"does not compile: barnabas_value.proto:1:9: "):
        compile_schema("message {")
    with pytest.raises(ProtobufSchemaError, match="not a path inside"):
        compile_schema(MONEY, (("../../etc/passwd", ""),))


def by_id(schema_id: int, rest: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + rest


def test_protobuf_registered_as_descriptors(fake: FakeRegistry) -> None:
    """As Python's serializers register it: what a registry gives back is base64, for imports as well."""
    files = compile_schema(PROTO, (("money.proto", MONEY),)).file
    texts = {file.name: base64.b64encode(file.SerializeToString()).decode() for file in files}
    reference = {"name": "money.proto", "subject": "money", "version": 1}
    known = "/subjects/money/versions/1?deleted=true"
    main, money = texts["barnabas_value.proto"], texts["money.proto"]
    fake.schemas = {
        1: {"schemaType": "PROTOBUF", "schema": main, "references": [reference]},
        2: {"schemaType": "PROTOBUF", "schema": MONEY},
        3: {"schemaType": "PROTOBUF", "schema": money},
    }
    order = b"\x02\x02\x08\x07\x42\x02\x08\x05"
    decoder = ProtobufDecoder(Registry(fake.url))
    for text in (money, MONEY):  # text and descriptors may be mixed
        fake.subjects = {known: {"schema": text}}
        fields: Any = ProtobufDecoder(Registry(fake.url)).decode(by_id(1, order), None).value
        assert (fields["id"], fields["price"]) == (7, {"cents": 5})
    assert decoder.decode(by_id(3, b"\0\x08\x05"), None).value == {"cents": 5}
    # Records of several schemas take turns: each schema's columns are made once and stay the same object.
    declared = [decoder.decode(by_id(each, b"\0\x08\x05"), None).declared for each in (2, 3, 2, 3)]
    assert declared[0] is declared[2] is not declared[1]
    assert declared[1] is declared[3]


def test_protobuf_that_imports_what_no_subject_has(fake: FakeRegistry) -> None:
    text = """
    syntax = "proto3";
    import "google/type/date.proto";
    import "confluent/meta.proto";
    import "confluent/type/decimal.proto";
    message Q {
      google.type.Date day = 1 [(confluent.field_meta).doc = "of delivery"];
      confluent.type.Decimal price = 2;
      google.protobuf.Struct open = 3;
    }
    import "google/protobuf/struct.proto";
    """
    fake.schemas = {1: {"schemaType": "PROTOBUF", "schema": text}}
    decoded = ProtobufDecoder(Registry(fake.url)).decode(by_id(1, b"\0\x0a\x03\x08\xea\x0f\x1a\x00"), None)
    assert decoded.value == {"day": {"year": 2026, "month": 0, "day": 0}, "price": None, "open": "{}"}
    assert decoded.declared is not None
    assert decoded.declared.column("open").type is Kind.STRING  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("value", "kind", "text", "reason"),
    [
        ("avro", "AVRO", '"string"', "schema 1: a table needs an Avro record with fields"),
        ("avro", "AVRO", "{", "schema 1: this is not an Avro schema: "),
        ("avro", "JSON", "{}", "schema 1 is JSON, not AVRO"),
        (
            "protobuf",
            "PROTOBUF",
            "message {",
            "schema 1: this Protobuf schema does not compile: barnabas_value.proto:1:",
        ),
        ("protobuf", "PROTOBUF", 'import "no.proto";', "schema 1: this Protobuf schema does not compile: no.proto: "),
        ("json", "JSON", "{", "schema 1: this is not a JSON Schema: "),
    ],
)
def test_a_schema_that_no_table_can_be_made_of_is_reported_and_read_once(
    fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch, value: str, kind: str, text: str, reason: str
) -> None:
    """It is the fault of those records: it must not stop the job, nor be looked into for each of them."""
    fake.schemas = {1: {"schema": text, "schemaType": kind}}
    decoder = decoder_of(Decoding(ValueFormat(value), fake.url))
    reasons = []
    for _ in range(2):
        with pytest.raises(MisfitError) as refused:
            decoder.decode(by_id(1, b"\0"), None)
        reasons.append(str(refused.value))
        monkeypatch.setattr(protobuf_module, "compile_schema", None)
    assert reasons[0].startswith(reason)
    assert reasons[0] == reasons[1]
    assert fake.asked == ["/schemas/ids/1"]


def test_an_unknown_id_is_asked_for_now_and_then(fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry(fake.url)
    for _ in range(3):
        with pytest.raises(MisfitError, match="no schema with id 7"):
            registry.schema(7)
    assert fake.asked == ["/schemas/ids/7"]
    monkeypatch.setattr(registry_module, "UNKNOWN_FOR_S", 0.0)
    with pytest.raises(MisfitError):
        registry.schema(8)
    fake.schemas = {8: {"schema": json.dumps(ORDER_1)}}
    assert registry.schema(8).kind == "AVRO"


def test_no_registry_is_distinguished_from_one_without_the_schema(fake: FakeRegistry) -> None:
    fake.codes = False
    with pytest.raises(RegistryError, match=r"not a Confluent-compatible schema registry: .* is a path missing"):
        Registry(fake.url).schema(1)
    fake.types = ["AVRO"]
    with pytest.raises(MisfitError, match="the registry has no schema with id 1"):
        Registry(fake.url).schema(1)
    fake.codes = True
    reference = {"name": "a.B", "subject": "a/B", "version": 2}
    fake.schemas = {1: {"nothing": 1}, 2: {"schema": "{}", "references": [reference]}}
    with pytest.raises(RegistryError, match="an answer has no schema in it"):
        Registry(fake.url).schema(1)
    with pytest.raises(MisfitError, match=r"refers to a\.B, which the registry does not have"):
        Registry(fake.url).schema(2)
    assert fake.asked[-1] == "/subjects/a%2FB/versions/2?deleted=true"


def test_a_proxys_404_says_nothing_of_a_schema(fake: FakeRegistry) -> None:
    """While what is behind it starts again: good records became dead letters, and jobs that began then ended."""
    fake.schemas = {1: {"schema": json.dumps(ORDER_1)}, 2: {"schema": json.dumps(ORDER_2)}}
    fake.codes, fake.types = False, ["AVRO"]
    for absences in (1, 2, 5):
        registry = Registry(fake.url)
        with pytest.raises(MisfitError, match="the registry has no schema with id 7"):
            registry.schema(7)  # it is known as a registry from then on
        fake.absences = absences
        assert registry.schema(2).text == json.dumps(ORDER_2)
        fake.absences = absences
        assert Registry(fake.url).schema(1).text == json.dumps(ORDER_1)
    fake.absences = 1000
    with pytest.raises(RegistryError, match="it does not know /schemas/types"):
        registry.schema(3)


def test_a_schemas_guid_before_a_value_or_in_its_header(fake: FakeRegistry) -> None:
    guid = uuid.UUID("89791762-2336-4186-9674-299b90a802e2")
    fake.subjects = {f"/schemas/guids/{guid}": {"schema": json.dumps(ORDER_1)}}
    decoder = AvroDecoder(Registry(fake.url))
    payload = avro(1, ORDER_1, {"id": 0, "item": None})[5:]
    assert payload[0] == 0  # nothing by which a value alone could be recognized
    header = b"\1" + guid.bytes
    assert decoder.decode(payload, header).value == {"id": 0, "item": None}
    assert decoder.decode(header + payload, None).value == {"id": 0, "item": None}
    assert len(fake.asked) == 1
    with pytest.raises(MisfitError, match="the schema's header does not begin with"):
        decoder.decode(payload, b"\2")


def test_a_topic_of_several_avro_records_by_a_union_of_references() -> None:
    opened = {"type": "record", "name": "shop.Opened", "fields": [{"name": "id", "type": "long"}]}
    closed = {**ORDER_2, "name": "shop.Closed"}
    references = (("shop.Opened", json.dumps(opened)), ("shop.Closed", json.dumps(closed)))
    schema = AvroSchema.parse('["shop.Opened", "shop.Closed"]', references)
    assert schema.columns.names == ("id", "item", "price")
    assert schema.decode(b"\x00\x06").value == {"id": 3}


def test_logical_types_that_say_nothing_where_they_stand() -> None:
    def of(written: Any) -> Any:
        text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "f", "type": written}]})
        return AvroSchema.parse(text)

    decimals = {"type": "bytes", "logicalType": "decimal"}
    assert of({**decimals, "precision": 50, "scale": 2}).columns.columns[0].type is Kind.STRING
    for wrong in (decimals, {**decimals, "precision": 0}, {**decimals, "precision": 2, "scale": 3}):
        assert of(wrong).columns.columns[0].type is Kind.BINARY
        assert of(wrong).decode(b"\x02a").value == {"f": b"a"}
    assert of({"type": "string", "logicalType": "date"}).columns.columns[0].type is Kind.STRING
    fixed = of({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"})
    assert fixed.columns.columns[0].type is Kind.STRING
    assert fixed.decode(b"\x01" * 16).value == {"f": uuid.UUID(int=int.from_bytes(b"\x01" * 16, "big"))}


def test_columns_of_json_schemas() -> None:
    schema = {
        "$id": "http://shop/order",
        "definitions": {"Money": {"type": "object", "properties": {"amount": {"type": "number"}}}},
        "properties": {
            "id": {"type": ["integer", "null"]},
            "price": {"$ref": "#/definitions/Money"},
            "where": {"$ref": "address"},
            "lines": {
                "items": {"allOf": [{"$ref": "#/definitions/Money"}, {"properties": {"n": {"type": "integer"}}}]}
            },
            "tags": {"type": "object", "additionalProperties": {"type": "boolean"}},
            "parent": {"anyOf": [{"type": "null"}, {"$ref": "#"}]},
            "either": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
            "open": {},
            "absent": {"$ref": "#/definitions/Absent"},
        },
    }
    address = {"type": "object", "properties": {"street": {"type": "string", "format": "date-time"}}}
    columns = JsonSchema.parse(json.dumps(schema), (("http://shop/address", json.dumps(address)),)).columns
    assert columns is not None
    money = Column("amount", Kind.DOUBLE)
    assert {column.name: column.type for column in columns.columns} == {
        "id": Kind.LONG,
        "price": Struct((money,)),
        "where": Struct((Column("street", Kind.STRING),)),
        "lines": ListOf(Struct((money, Column("n", Kind.LONG)))),
        "tags": MapOf(Kind.BOOLEAN),
        "parent": Kind.STRING,
        "either": Kind.STRING,
        "open": Kind.UNKNOWN,
        "absent": Kind.UNKNOWN,
    }
    assert JsonSchema.parse('{"type": "array"}').columns is None
    doubling = {f"d{n}": {"allOf": [{"$ref": f"#/d{n + 1}"}] * 3} for n in range(20)}
    with pytest.raises(JsonSchemaError, match="more than 20000 parts"):
        JsonSchema.parse(json.dumps({**doubling, "$ref": "#/d0"}))


def test_message_indexes() -> None:
    assert read_message_indexes(b"\x00rest") == ((0,), b"rest")
    assert read_message_indexes(b"\x04\x02\x00rest") == ((1, 0), b"rest")


def test_avro_by_file(tmp_path: Path) -> None:
    path = tmp_path / "order.avsc"
    path.write_text(json.dumps(ORDER_1))
    assert AvroFileDecoder(str(path)).decode(b"\x02\x02\x06tea", None).value == {"id": 1, "item": "tea"}
