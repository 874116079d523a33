"""Tables by a schema registry that is not ours: serializers as users' producers have them, a real cluster, Spark."""

from __future__ import annotations

import datetime
import decimal
import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the pipeline's environment (make pipeline)")
pytest.importorskip("httpx2", reason="needs the pipeline's environment (make pipeline)")

import confluent_kafka.schema_registry as confluent
import google.type.date_pb2
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from deltalake import DeltaTable
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc

from barnabas_pipeline.core.rows import MisfitError
from barnabas_pipeline.schemas import registry as registry_module
from barnabas_pipeline.schemas.decoders import decoder_of
from barnabas_pipeline.schemas.decoding import Decoding, ValueFormat
from barnabas_pipeline.schemas.registry import RegistryError
from tests.integration.running_cluster import ROOT, RunningCluster
from tests.pipeline.registry_process import RegistryProcess, guarded

pytestmark = pytest.mark.timeout(600)
UTC = datetime.UTC


@dataclass
class Surroundings:
    cluster: RunningCluster
    registry: RegistryProcess
    client: SchemaRegistryClient
    root: Path

    def produce(self, topic: str, *values: bytes | None, schema_header: bytes | None = None) -> None:
        headers = {} if schema_header is None else {"__value_schema_id": schema_header}
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap})
        if topic not in admin.list_topics(timeout=60).topics:
            admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap})
        for value in values:
            producer.produce(topic, value, headers=headers)
        assert producer.flush(60) == 0

    def register(self, subject: str, text: str, kind: str, *references: SchemaReference) -> int:
        return int(self.client.register_schema(subject, Schema(text, kind, list(references))))

    def job(self, value: str, *topics: str) -> subprocess.CompletedProcess[str]:
        """`barnabas-pipeline tables` until all that is there is in the tables."""
        fixed = ("--bootstrap-servers", self.cluster.bootstrap, "--to", str(self.root), "--into", "delta")
        by = ("--topics", ",".join(topics), "--name", "-".join(topics)[:60], "--registry", self.registry.url)
        return subprocess.run(
            [
                *(
                    sys.executable,
                    "-m",
                    "barnabas_pipeline.cli",
                    "tables",
                    *fixed,
                    *by,
                    "--value",
                    value,
                    "--until",
                    "now",
                ),
                *("--spark", "spark.master=local[2]"),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The fields' columns, in the order of the records, by a reader that is not ours."""
        found = DeltaTable(str(self.root / table)).to_pyarrow_table().sort_by("_offset").to_pylist()
        return [{name: value for name, value in row.items() if name[0] != "_"} for row in found]

    def reasons(self, table: str) -> list[str]:
        found = DeltaTable(str(self.root / f"{table}__dead_letters")).to_pyarrow_table().sort_by("offset")
        return list(found["reason"].to_pylist())


@pytest.fixture(scope="module")
def around(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Surroundings]:
    directory = tmp_path_factory.mktemp("registry")
    with (
        RegistryProcess(directory) as registry,
        RunningCluster(tmp_path_factory.mktemp("cluster"), 1) as cluster,
        SchemaRegistryClient({"url": registry.url}) as client,
    ):
        yield Surroundings(cluster, registry, client, tmp_path_factory.mktemp("lake"))


def as_value_of(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def avro(around: Surroundings, topic: str, schema: Schema | dict[str, Any], value: Any, **conf: Any) -> bytes:
    text = schema if isinstance(schema, Schema) else json.dumps(schema)
    written = AvroSerializer(around.client, text, conf={name.replace("_", "."): each for name, each in conf.items()})(
        value, as_value_of(topic)
    )
    assert isinstance(written, bytes)
    return written


def record(name: str, /, **fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "namespace": "shop",
        "fields": [
            {"name": field, "type": each, **({"default": None} if isinstance(each, list) and each[0] == "null" else {})}
            for field, each in fields.items()
        ],
    }


def logical(base: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": base, "logicalType": name, **more}


def avro_of_every_type(around: Surroundings) -> list[dict[str, Any]]:
    """Produces; what is to be in the table."""
    schema = record(
        "All",
        whole="int",
        either=["null", "string"],
        price=logical("bytes", "decimal", precision=12, scale=2),
        wide=logical("bytes", "decimal", precision=50, scale=1),
        at=logical("long", "timestamp-millis"),
        exact=logical("long", "timestamp-micros"),
        day=logical("int", "date"),
        of_day=logical("int", "time-millis"),
        identity=logical("string", "uuid"),
        where=record("Where", street="string", parts={"type": "array", "items": record("Part", number="long")}),
        tags={"type": "map", "values": "double"},
        state={"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]},
        mark={"type": "fixed", "name": "Mark", "size": 4},
        many=["null", "long", "string"],
        inside=["null", "All"],
    )
    at = datetime.datetime(2026, 11, 22, 1, 2, 3, 456000, UTC)
    exact, identity = at.replace(microsecond=456789), uuid.uuid4()
    value: dict[str, Any] = {
        "whole": -7,
        "either": None,
        "price": decimal.Decimal("-12.34"),
        "wide": decimal.Decimal("1234567890123456789012345678901234567890.5"),
        "at": at,
        "exact": exact,
        "day": datetime.date(1969, 7, 20),
        "of_day": datetime.time(23, 59, 58),
        "identity": identity,
        "where": {"street": "Main", "parts": [{"number": 1}, {"number": 2}]},
        "tags": {"a": 0.5},
        "state": "PAID",
        "mark": b"\x00\x01\x02\xff",
        "many": "text",
        "inside": None,
    }
    nested = {**value, "either": "x", "many": 5, "inside": {**value, "whole": 8}}
    around.produce("avro-all", *(avro(around, "avro-all", schema, each) for each in (value, nested)), None)
    expected = {
        **value,
        "wide": "1234567890123456789012345678901234567890.5",
        "of_day": "23:59:58",
        "identity": str(identity),
        "tags": [("a", 0.5)],
    }
    return [expected, {**expected, "either": "x", "many": "5", "inside": 8}, dict.fromkeys(expected)]


def avro_that_changes(around: Surroundings) -> None:
    """Produces records of two versions of a schema, in turn, and some that no table can have."""
    topic = "avro-changes"
    v1 = record("Order", id="int", item="string", old="string")
    v2 = {**record("Order", id="long", item="string"), "doc": "old is gone, price is new"}
    v2["fields"].append({"name": "price", "type": "double", "default": 0.0})
    first = avro(around, topic, v1, {"id": 1, "item": "tea", "old": "x"})
    second = avro(around, topic, v2, {"id": 2**40, "item": "cup", "price": 1.5})
    assert first[:5] != second[:5]
    no_record = b"\0" + around.register("of-texts", '"string"', "AVRO").to_bytes(4, "big")
    of_json = around.register("of-json", '{"type": "object", "properties": {"a": {"type": "number"}}}', "JSON")
    no_avro = b"\0" + of_json.to_bytes(4, "big")
    unknown = b"\0\x7f\xff\xff\xff" + first[5:]
    around.produce(topic, first, second, unknown, no_record + b"\x02a", no_avro + b"{}", b"{}", second[:-1])
    # As newer serializers write it: the id in a header, nothing before the value.
    around.produce(topic, first[5:], schema_header=first[:5])


def avro_by_references(around: Surroundings) -> dict[str, list[dict[str, Any]]]:
    """Produces; what is to be in which table."""
    around.register("shop.Street", json.dumps(record("Street", name="string")), "AVRO")
    street = SchemaReference("shop.Street", "shop.Street", 1)
    around.register("shop.Address", json.dumps(record("Address", street="shop.Street")), "AVRO", street)
    address = SchemaReference("shop.Address", "shop.Address", 1)
    customer = Schema(
        json.dumps(record("Customer", home="shop.Address", work=["null", "shop.Street"])), "AVRO", [address, street]
    )
    opened, closed = record("Opened", id="long"), record("Closed", id="long", why="string")
    # Several kinds of events in one topic: the subject is by the record, or the schema a union of references.
    by_record = {"subject_name_strategy": confluent.record_subject_name_strategy}
    by_both = {"subject_name_strategy": confluent.topic_record_subject_name_strategy}
    around.produce(
        "avro-subjects",
        avro(around, "avro-subjects", customer, {"home": {"street": {"name": "A"}}, "work": {"name": "B"}}),
        avro(around, "avro-subjects", opened, {"id": 1}, **by_record),
        avro(around, "avro-subjects", closed, {"id": 2, "why": "rain"}, **by_both),
    )
    references = [SchemaReference(f"shop.{name}", f"shop.{name}", 1) for name in ("Opened", "Closed")]
    around.register("shop.Closed", json.dumps(closed), "AVRO")
    around.register("avro-union-value", '["shop.Opened", "shop.Closed"]', "AVRO", *references)
    latest = {"auto_register_schemas": False, "use_latest_version": True}
    union = Schema('["shop.Opened", "shop.Closed"]', "AVRO", references)
    around.produce(
        "avro-union",
        avro(around, "avro-union", union, ("shop.Opened", {"id": 3}), **latest),
        avro(around, "avro-union", union, ("shop.Closed", {"id": 4, "why": "snow"}), **latest),
    )
    nothing = dict.fromkeys(("home", "work", "id", "why"))
    return {
        "avro-subjects": [
            {**nothing, "home": {"street": {"name": "A"}}, "work": {"name": "B"}},
            {**nothing, "id": 1},
            {**nothing, "id": 2, "why": "rain"},
        ],
        "avro-union": [{"id": 3, "why": None}, {"id": 4, "why": "snow"}],
    }


def test_avro_of_every_type_changing_and_by_references(around: Surroundings) -> None:
    all_types, unions = avro_of_every_type(around), avro_by_references(around)
    avro_that_changes(around)
    ran = around.job("avro", "avro-all", "avro-changes", *unions)
    assert ran.returncode == 0, ran.stderr[-3000:]
    rows = around.rows("avro-all")
    rows[1]["inside"] = json.loads(rows[1]["inside"])["whole"]
    assert rows == all_types
    assert {topic: around.rows(topic) for topic in unions} == unions
    assert around.rows("avro-changes") == [
        {"id": 1, "item": "tea", "old": "x", "price": None},
        {"id": 2**40, "item": "cup", "old": None, "price": 1.5},
        {"id": 1, "item": "tea", "old": "x", "price": None},
    ]
    reasons = around.reasons("avro-changes")
    assert reasons[0] == f"the registry has no schema with id {0x7FFFFFFF}"
    assert "a table needs an Avro record" in reasons[1]
    assert reasons[2].endswith("is JSON, not AVRO")
    assert [reason[:23] for reason in reasons[3:]] == ["the value does not begi", "not Avro by its schema:"]


ORDER_PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
import "google/type/date.proto";
import "shop/money.proto";
message Other { int32 x = 1; }
message Order {
  message Line {
    string item = 1;
    money.Money price = 2;
  }
  enum State { NEW = 0; PAID = 1; }
  int64 id = 1;
  repeated Line lines = 2;
  map<string, sint32> tags = 3;
  google.protobuf.Timestamp at = 4;
  google.protobuf.Int64Value maybe = 5;
  oneof by { string card = 6; uint32 cash = 7; }
  State state = 8;
  uint64 big = 9;
  fixed32 unsigned = 10;
  bytes mark = 11;
  google.type.Date day = 12;
  google.protobuf.Struct open = 13;
  optional string note = 14;
  repeated double numbers = 15;
}
"""
MONEY_PROTO = 'syntax = "proto3"; package money; message Money { int64 cents = 1; }'


def protobuf_classes(root: Path) -> dict[str, Any]:
    """As protoc makes them for a producer."""
    (root / "shop").mkdir(parents=True)
    (root / "shop/order.proto").write_text(ORDER_PROTO)
    (root / "shop/money.proto").write_text(MONEY_PROTO)
    places = [Path(protoc.__file__).parent / "_proto", Path(google.type.date_pb2.__file__).parents[2]]
    arguments = ["protoc", f"-I{root}", *(f"-I{place}" for place in places), "--include_imports"]
    assert protoc.main([*arguments, f"--descriptor_set_out={root}/all", f"{root}/shop/order.proto"]) == 0
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString((root / "all").read_bytes()).file:
        pool.Add(file)
    names = ("shop.Other", "shop.Order", "shop.Order.Line", "money.Money")
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in names}


def test_protobuf_of_every_type_and_a_registry_that_is_away(around: Surroundings, tmp_path: Path) -> None:
    topic, classes = "protobuf-all", protobuf_classes(tmp_path)
    order = classes["shop.Order"](
        id=-5, tags={"a": -1}, maybe={"value": 7}, cash=2**32 - 1, state=1, big=2**64 - 1, unsigned=2**32 - 1,
        mark=b"\0\xff",
        day={"year": 2026, "month": 11, "day": 22}, numbers=[0.5, -0.0], note="",
    )  # fmt: skip
    order.lines.add(item="tea").price.cents = 150
    order.at.FromDatetime(datetime.datetime(2026, 11, 22, 1, 2, 3, 456789, UTC))
    order.open.update({"a": [1, None, {"b": True}]})
    nothing = classes["shop.Order"](card="x")
    written = [
        ProtobufSerializer(each.__class__, around.client, {"use.deprecated.format": False})(each, as_value_of(topic))
        for each in (order, nothing, classes["shop.Order.Line"](item="cup"), classes["shop.Other"](x=3))
    ]
    # As the serializers of Java register it: the .proto's text.
    money = SchemaReference("shop/money.proto", "money-by-text", 1)
    around.register("money-by-text", MONEY_PROTO, "PROTOBUF")
    by_text = around.register(f"{topic}-by-text", ORDER_PROTO, "PROTOBUF", money)
    written.append(b"\0" + by_text.to_bytes(4, "big") + b"\x02\x02" + order.SerializeToString())
    no_such_message = written[0][:5] + b"\x02\x0e" + order.SerializeToString()
    around.produce(topic, *written, no_such_message)

    around.registry.stop()
    try:
        ran = around.job("protobuf", topic)
    finally:
        around.registry.start()
    assert ran.returncode == 1
    (line,) = [each for each in ran.stderr.splitlines() if each.startswith("barnabas-pipeline: ")]
    assert f"the schema registry {around.registry.url} does not answer: " in line
    assert "Connection refused" in line

    ran = around.job("protobuf", topic)
    assert ran.returncode == 0, ran.stderr[-3000:]
    first, second, line_alone, other, of_text = around.rows(topic)
    expected = {
        "id": -5,
        "lines": [{"item": "tea", "price": {"cents": 150}}],
        "tags": [("a", -1)],
        "at": datetime.datetime(2026, 11, 22, 1, 2, 3, 456789, UTC),
        "maybe": 7,
        "card": None,
        "cash": 2**32 - 1,
        "state": "PAID",
        "big": decimal.Decimal(2**64 - 1),
        "unsigned": 2**32 - 1,
        "mark": b"\0\xff",
        "day": {"year": 2026, "month": 11, "day": 22},
        "open": '{"a": [1.0, null, {"b": true}]}',
        "note": "",
        "numbers": [0.5, -0.0],
        "item": None,
        "price": None,
        "x": None,
    }
    assert first == expected
    assert of_text == expected
    unset = {"lines": [], "tags": [], "numbers": [], "id": 0, "state": "NEW", "big": 0, "unsigned": 0, "mark": b""}
    assert second == {**dict.fromkeys(expected), **unset, "card": "x"}
    assert line_alone == {**dict.fromkeys(expected), "item": "cup"}
    assert other == {**dict.fromkeys(expected), "x": 3}
    assert around.reasons(topic) == ["its schema has no message number 7"]


def test_json_by_its_schema_and_without_a_registry(around: Surroundings) -> None:
    item = {"$id": "https://shop/item.json", "type": "object", "properties": {"price": {"type": "number"}}}
    around.register("item", json.dumps(item), "JSON")
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "https://shop/order.json",
        "title": "Order",
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "total": {"type": "number"},
            "note": {"oneOf": [{"type": "null"}, {"type": "string"}]},
            "items": {"type": "array", "items": {"$ref": "item.json"}},
            "tags": {"type": "object", "additionalProperties": {"type": "integer"}},
            "parent": {"anyOf": [{"type": "null"}, {"$ref": "#"}]},
        },
    }
    referring = Schema(json.dumps(schema), "JSON", [SchemaReference("https://shop/item.json", "item", 1)])
    serializer = JSONSerializer(referring, around.client)
    # Whole numbers where the schema has numbers: a column of long would refuse the second value.
    values = [
        {"id": 1, "total": 10, "note": None, "items": [{"price": 5}], "tags": {"a": 1}, "parent": {"id": 0}, "more": 1},
        {"id": 2, "total": 10.5, "note": "x", "items": [{"price": 5.5}], "tags": {"b": 2}, "parent": None, "more": 2},
    ]
    written = [serializer(each, as_value_of("json-schema")) for each in values]
    around.produce("json-schema", written[0])
    around.produce("json-schema", written[1], b"{}", written[0][:5] + b"{")
    ran = around.job("json", "json-schema")
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert around.rows("json-schema") == [
        {**values[0], "tags": [("a", 1)], "parent": '{"id":0}'},
        {**values[1], "tags": [("b", 2)]},
    ]
    assert [reason[:12] for reason in around.reasons("json-schema")] == ["the value do", "not JSON: un"]
    # Without a registry the prefix is passed over, and values say what columns hold.
    decoder = decoder_of(Decoding(ValueFormat.JSON))
    assert decoder.decode(written[0], None).value == values[0]
    assert decoder.decode(b'{"a":1}', None).value == {"a": 1}


def test_who_may_read_and_where_a_registry_is(around: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module.time, "sleep", lambda _: None)
    schema = record("Guarded", id="long")
    value = avro(around, "guarded", schema, {"id": 1})
    unknown = b"\0\x7f\0\0\0"

    def decoded(url: str, user: str = "", value: bytes = value, header: bytes | None = None) -> object:
        return decoder_of(Decoding(ValueFormat.AVRO, url, user)).decode(value, header).value

    with guarded(around.registry.url, "key:se/cr+et:x") as url:
        assert decoded(url, "key:se/cr+et:x") == {"id": 1}
        inside = url.replace("http://", "http://key:se%2Fcr%2Bet%3Ax@")
        assert decoded(inside) == {"id": 1}
        for wrong in ((url, ""), (url, "key:other"), (url.replace("//", "//key:hidden@"), "")):
            with pytest.raises(RegistryError, match=r"refuses: 401 .* --registry-user NAME:SECRET") as refused:
                decoded(*wrong)
            assert "hidden" not in str(refused.value)
    # One of several that is down is passed over.
    assert decoded(f"http://127.0.0.1:1,{around.registry.url}") == {"id": 1}
    with pytest.raises(MisfitError, match="the registry has no schema with id 2130706432"):
        decoded(around.registry.url, value=unknown)
    # The host without the path is no registry: good records must not become dead letters.
    with pytest.raises(
        RegistryError, match="is no schema registry of Confluent's kind: it does not know /schemas/types"
    ):
        decoded(around.registry.url.removesuffix("/apis/ccompat/v7"))
    # This registry has ids and no GUIDs; a header may have either.
    with pytest.raises(MisfitError, match="the registry has no schema with GUID 01010101-"):
        decoded(around.registry.url, value=value[5:], header=b"\x01" * 17)
    assert decoded(around.registry.url, value=value[5:], header=value[:5]) == {"id": 1}
