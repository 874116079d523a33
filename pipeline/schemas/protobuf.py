"""Protobuf values: by a registry's schemas, or all by one file (.proto, or a descriptor set)."""

from __future__ import annotations

import datetime
import decimal
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from pipeline.core.columns import Column, ColumnType, DecimalOf, Kind, ListOf, MapOf, Struct, column_name
from pipeline.core.errors import PipelineError
from pipeline.core.rows import MisfitError, text_of
from pipeline.schemas.decoding import Decoded
from pipeline.schemas.registry import Registry, split_wire_format

_UNSIGNED_64 = DecimalOf(20, 0)
_KINDS: dict[int, ColumnType] = {
    FieldDescriptor.CPPTYPE_INT32: Kind.LONG,
    FieldDescriptor.CPPTYPE_INT64: Kind.LONG,
    FieldDescriptor.CPPTYPE_UINT32: Kind.LONG,
    FieldDescriptor.CPPTYPE_UINT64: _UNSIGNED_64,
    FieldDescriptor.CPPTYPE_DOUBLE: Kind.DOUBLE,
    FieldDescriptor.CPPTYPE_FLOAT: Kind.DOUBLE,
    FieldDescriptor.CPPTYPE_BOOL: Kind.BOOLEAN,
    FieldDescriptor.CPPTYPE_ENUM: Kind.STRING,
}
_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_MAIN_FILE = "barnabas_value.proto"


class ProtobufSchemaError(PipelineError):
    """A schema that does not compile, or has no such message."""


def compile_schema(text: str, references: tuple[tuple[str, str], ...] = ()) -> descriptor_pb2.FileDescriptorSet:
    """The descriptors of a .proto's text and of all that it imports; `references` by the path it imports them under."""
    import grpc_tools
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        for name, content in ((_MAIN_FILE, text), *references):
            path = (root / name).resolve()
            if root.resolve() not in path.parents:
                raise ProtobufSchemaError(f"a schema imports {name}, which is no path inside of the registry")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        well_known = Path(grpc_tools.__file__).parent / "_proto"
        out = root / "descriptors"
        arguments = ["protoc", f"-I{root}", f"-I{well_known}", "--include_imports", f"--descriptor_set_out={out}"]
        if protoc.main([*arguments, str(root / _MAIN_FILE)]) != 0:
            raise ProtobufSchemaError("this Protobuf schema does not compile; protoc says above why")
        return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())


@dataclass(frozen=True, slots=True)
class ProtobufSchema:
    """`messages`: the schema's own file, by whose order the wire format counts."""

    pool: descriptor_pool.DescriptorPool
    main: str

    @classmethod
    def of(cls, files: descriptor_pb2.FileDescriptorSet) -> ProtobufSchema:
        pool = descriptor_pool.DescriptorPool()
        for file in files.file:  # protoc writes what is imported before what imports it
            pool.Add(file)
        return cls(pool, files.file[-1].name)

    def message_at(self, indexes: list[int]) -> Descriptor:
        """The message by its place in the file, in its outer message, …: MisfitError if there is none."""
        file = self.pool.FindFileByName(self.main)
        level = list(file.message_types_by_name.values())
        found: Descriptor | None = None
        for index in indexes:
            if not 0 <= index < len(level):
                raise MisfitError(f"its schema has no message number {index}")
            found = level[index]
            level = list(found.nested_types)
        assert found is not None  # the wire format always names one
        return found


def read_message_indexes(payload: bytes) -> tuple[list[int], bytes]:
    """The list of message indexes that stands before a payload (zigzag varints; a single 0 is the first message)."""
    count, at = _varint(payload, 0)
    if count == 0:
        return [0], payload[at:]
    if not 0 < count <= 32:
        raise MisfitError("the list of message indexes is not what a registry's client writes")
    indexes = []
    for _ in range(count):
        index, at = _varint(payload, at)
        indexes.append(index)
    return indexes, payload[at:]


def _varint(payload: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    for position in range(at, min(at + 5, len(payload))):
        byte = payload[position]
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position + 1
    raise MisfitError("the list of message indexes ends in the middle")


@dataclass(slots=True)
class ProtobufDecoder:
    """`ValueDecoder` for Protobuf. Without a registry every value is of one message, with no wire format before it."""

    registry: Registry | None
    fixed: Descriptor | None
    _by_id: dict[int, ProtobufSchema] = field(default_factory=dict)
    _columns: dict[str, tuple[Descriptor, Struct]] = field(default_factory=dict)

    @classmethod
    def of_file(cls, path: str, message: str) -> ProtobufDecoder:
        if path.endswith(".proto"):
            files = compile_schema(Path(path).read_text())
        else:
            try:
                files = descriptor_pb2.FileDescriptorSet.FromString(Path(path).read_bytes())
            except DecodeError:
                raise ProtobufSchemaError(f"{path} is neither a .proto nor a descriptor set") from None
        schema = ProtobufSchema.of(files)
        if not message:
            return cls(None, schema.message_at([0]))
        try:
            return cls(None, schema.pool.FindMessageTypeByName(message))
        except KeyError:
            raise ProtobufSchemaError(f"{path} has no message {message}") from None

    def decode(self, value: bytes) -> Decoded:
        if self.fixed is not None:
            descriptor, payload = self.fixed, value
        else:
            assert self.registry is not None
            schema_id, rest = split_wire_format(value)
            indexes, payload = read_message_indexes(rest)
            descriptor = self._schema(schema_id, self.registry).message_at(indexes)
        message = message_factory.GetMessageClass(descriptor)()
        try:
            message.ParseFromString(payload)
        except DecodeError as error:
            raise MisfitError(f"not Protobuf by its schema: {error!s:.120}") from None
        known = self._columns.get(descriptor.full_name)
        if known is None or known[0] is not descriptor:
            known = self._columns[descriptor.full_name] = (descriptor, columns_of(descriptor))
        return Decoded(fields_of(message), known[1])

    def _schema(self, schema_id: int, registry: Registry) -> ProtobufSchema:
        known = self._by_id.get(schema_id)
        if known is None:
            registered = registry.schema(schema_id)
            if registered.kind != "PROTOBUF":
                raise MisfitError(f"schema {schema_id} is {registered.kind}, not Protobuf")
            known = ProtobufSchema.of(compile_schema(registered.text, registered.references))
            self._by_id[schema_id] = known
        return known


# Protobuf's stubs leave open, per field, what its kind decides: descriptors are Any from here on.
def columns_of(descriptor: Any, outer: tuple[str, ...] = ()) -> Struct:
    columns = []
    for each in descriptor.fields:
        name = column_name(each.name)
        assert name is not None  # Protobuf's names are never empty
        columns.append(Column(name, _type_of(each, (*outer, descriptor.full_name))))
    return Struct(tuple(columns))


def _type_of(each: Any, outer: tuple[str, ...]) -> ColumnType:
    if _is_map(each):
        return MapOf(_single_type(each.message_type.fields_by_name["value"], outer))
    single = _single_type(each, outer)
    return ListOf(single) if each.is_repeated else single


def _single_type(each: Any, outer: tuple[str, ...]) -> ColumnType:
    if each.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return Kind.BINARY if each.type == FieldDescriptor.TYPE_BYTES else Kind.STRING
    if each.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE:
        return _KINDS[each.cpp_type]
    name = each.message_type.full_name
    if name == _TIMESTAMP:
        return Kind.TIMESTAMP
    if name in _WRAPPERS:
        return _single_type(each.message_type.fields_by_name["value"], outer)
    if name in outer:
        return Kind.STRING  # inside of itself: as JSON text, for no column is of endless depth
    return columns_of(each.message_type, outer)


def _is_map(each: Any) -> bool:
    return each.message_type is not None and bool(each.message_type.GetOptions().map_entry)


def fields_of(message: Message) -> dict[str, object]:
    """A message as a dict; fields that know whether they are set are null when they are not."""
    fields: dict[str, object] = {}
    descriptor: Any = message.DESCRIPTOR
    for each in descriptor.fields:
        content: Any = getattr(message, each.name)
        if _is_map(each):
            of = each.message_type.fields_by_name["value"]
            fields[each.name] = {text_of(key): _single(of, content[key]) for key in content}
        elif each.is_repeated:
            fields[each.name] = [_single(each, item) for item in content]
        elif each.has_presence and not message.HasField(each.name):
            fields[each.name] = None
        else:
            fields[each.name] = _single(each, content)
    return fields


def _single(each: Any, content: Any) -> object:
    if each.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        known = each.enum_type.values_by_number.get(content)
        return str(content) if known is None else known.name
    if each.cpp_type == FieldDescriptor.CPPTYPE_UINT64:
        return decimal.Decimal(content)
    if each.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE:
        return content
    name = each.message_type.full_name
    if name == _TIMESTAMP:
        since = datetime.timedelta(seconds=content.seconds, microseconds=content.nanos // 1000)
        try:
            return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + since
        except OverflowError:
            raise MisfitError(f"field {each.name} is a time that no calendar has") from None
    if name in _WRAPPERS:
        return _single(each.message_type.fields_by_name["value"], content.value)
    return fields_of(content)
