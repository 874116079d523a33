"""Protobuf values: by a registry's schemas, or all by one file (.proto, or a descriptor set)."""

from __future__ import annotations

import base64
import binascii
import datetime
import decimal
import importlib.util
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from barnabas_pipeline.core.columns import (
    NAME_LENGTH_MAX,
    Column,
    ColumnType,
    DecimalOf,
    Kind,
    ListOf,
    MapOf,
    Struct,
    column_name,
)
from barnabas_pipeline.core.errors import PipelineError
from barnabas_pipeline.core.rows import MisfitError, text_of
from barnabas_pipeline.schemas.decoding import PARTS_MAX, Decoded
from barnabas_pipeline.schemas.registry import CompiledSchemas, Registry
from barnabas_pipeline.schemas.wire_format import split_wire_format

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
# JSON in Protobuf's clothes: as text, like JSON.
_JSON_LIKE = frozenset(f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue"))
_MAIN_FILE = "barnabas_value.proto"
# An empty message takes two bytes, and a Python object for each field that it could have.
FIELDS_MAX = 1_000_000


class ProtobufSchemaError(PipelineError):
    """A schema that does not compile, or has no such message."""


def compile_schema(text: str, references: tuple[tuple[str, str], ...] = ()) -> descriptor_pb2.FileDescriptorSet:
    """The descriptors of a schema and of all that it imports; `references` by the path it imports them under.

    Each is a .proto's text, or a file's descriptor in base64: so the serializers of Python register them, and some
    registries give them back as they got them.
    """
    described = descriptor_pb2.FileDescriptorSet()
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve()
        for name, content in ((_MAIN_FILE, text), *references):
            path = (root / name).resolve()
            if root not in path.parents:
                raise ProtobufSchemaError(f"a schema imports {name}, which is no path inside of the registry")
            descriptor = _described(content)
            if descriptor is not None:
                descriptor.name = name
                described.file.append(descriptor)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content)
        (root / "described").write_bytes(described.SerializeToString())
        return _compile(root)


def _described(content: str) -> descriptor_pb2.FileDescriptorProto | None:
    try:
        return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(content.strip(), validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None


def _compile(root: Path) -> descriptor_pb2.FileDescriptorSet:
    out = root / "compiled"
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "grpc_tools.protoc", f"--descriptor_set_in={root / 'described'}"),
            *(f"-I{root}", *(f"-I{place}" for place in _known_places())),
            *("--include_imports", f"--descriptor_set_out={out}", _MAIN_FILE),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode != 0:
        said = next(
            (line for line in ran.stderr.splitlines() if re.match(r"\S+\.proto:", line)), "protoc does not say why"
        )
        raise ProtobufSchemaError(f"this Protobuf schema does not compile: {said.removeprefix(f'{root}/'):.200}")
    return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())


def _known_places() -> list[Path]:
    """Where the files are that schemas import and no subject has: google/protobuf, google/type, confluent."""
    places = [Path(__file__).parent / "known_protos"]
    for package, above in (("grpc_tools", "_proto"), ("google.type", "../..")):
        spec = importlib.util.find_spec(package)
        assert spec is not None  # both are of the pipeline's requirements
        places += [Path(place, above).resolve() for place in spec.submodule_search_locations or ()]
    return places


class ProtobufSchema:
    """A file of messages; the wire format counts them by their order in it."""

    def __init__(self, files: descriptor_pb2.FileDescriptorSet) -> None:
        self.pool = descriptor_pool.DescriptorPool()
        try:
            for file in files.file:  # protoc writes what is imported before what imports it
                self.pool.Add(file)
        except TypeError as error:
            raise ProtobufSchemaError(f"these descriptors do not fit together: {error!s:.200}") from None
        self._main = files.file[-1].name
        self._values: dict[tuple[int, ...], MessageValues] = {}
        self._refused: dict[tuple[int, ...], str] = {}

    @classmethod
    def parse(cls, text: str, references: tuple[tuple[str, str], ...]) -> ProtobufSchema:
        return cls(compile_schema(text, references))

    def values_at(self, indexes: tuple[int, ...]) -> MessageValues:
        """The message's by its place (`message_at`): MisfitError also if it can't be a table."""
        known = self._values.get(indexes)
        if known is not None:
            return known
        if indexes not in self._refused:
            try:
                self._values[indexes] = MessageValues(self.message_at(indexes))
                return self._values[indexes]
            except ProtobufSchemaError as error:
                self._refused[indexes] = f"its schema: {error}"
        raise MisfitError(self._refused[indexes])

    def message_at(self, indexes: tuple[int, ...]) -> Descriptor:
        """The message by its place in the file, in its outer message, …: MisfitError if there is none."""
        file = self.pool.FindFileByName(self._main)
        level = list(file.message_types_by_name.values())
        found: Descriptor | None = None
        for index in indexes:
            if not 0 <= index < len(level):
                raise MisfitError(f"its schema has no message number {index}")
            found = level[index]
            level = list(found.nested_types)
        assert found is not None  # the wire format always names one
        return found


def read_message_indexes(payload: bytes) -> tuple[tuple[int, ...], bytes]:
    """The list of message indexes that stands before a payload (zigzag varints; a single 0 is the first message)."""
    count, at = _varint(payload, 0)
    if count == 0:
        return (0,), payload[at:]
    if not 0 < count <= 32:
        raise MisfitError("the list of message indexes is not what a registry's client writes")
    indexes = []
    for _ in range(count):
        index, at = _varint(payload, at)
        indexes.append(index)
    return tuple(indexes), payload[at:]


def _varint(payload: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    for position in range(at, min(at + 5, len(payload))):
        byte = payload[position]
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position + 1
    raise MisfitError("the list of message indexes ends in the middle")


class MessageValues:
    """Reads values that are of one message."""

    def __init__(self, descriptor: Descriptor) -> None:
        self.columns = columns_of(descriptor)
        self._message_class = message_factory.GetMessageClass(descriptor)

    def decode(self, payload: bytes) -> Decoded:
        message = self._message_class()
        try:
            message.ParseFromString(payload)
        except DecodeError as error:
            raise MisfitError(f"not Protobuf by its schema: {error!s:.120}") from None
        try:
            fields = _Fields().of(message)
        except MisfitError:
            raise
        except (ValueError, OverflowError, RecursionError) as error:
            # Protobuf parses more than Python, JSON and calendars have: a map's key that is no UTF-8, say.
            raise MisfitError(f"a Protobuf value that can't be read: {type(error).__name__} {error!s:.120}") from None
        return Decoded(fields, self.columns)


class ProtobufDecoder:
    """`ValueDecoder` for Protobuf by a registry's schemas."""

    def __init__(self, registry: Registry) -> None:
        self._schemas = CompiledSchemas(registry, "PROTOBUF", ProtobufSchema.parse)

    def decode(self, value: bytes, schema_header: bytes | None) -> Decoded:
        schema_id, rest, apart = split_wire_format(value, schema_header)
        indexes, payload = read_message_indexes(rest)
        return self._schemas.of(schema_id).values_at(indexes).decode(payload if apart is None else apart)


class ProtobufFileDecoder:
    """`ValueDecoder` for Protobuf where every value is of one message (the file's first), with nothing before it."""

    def __init__(self, path: str, message: str) -> None:
        try:
            if path.endswith(".proto"):
                files = compile_schema(Path(path).read_text())
            else:
                files = descriptor_pb2.FileDescriptorSet.FromString(Path(path).read_bytes())
        except (OSError, UnicodeDecodeError) as error:
            raise ProtobufSchemaError(f"the schema file {path} can't be read: {error}") from None
        except DecodeError:
            raise ProtobufSchemaError(f"{path} is neither a .proto nor a descriptor set") from None
        # Kept: a descriptor is of its pool.
        self._schema = ProtobufSchema(files)
        try:
            named = self._schema.pool.FindMessageTypeByName(message) if message else self._schema.message_at((0,))
        except KeyError:
            raise ProtobufSchemaError(f"{path} has no message {message}") from None
        self.values = MessageValues(named)

    def decode(self, value: bytes, schema_header: bytes | None) -> Decoded:
        return self.values.decode(value)


# Protobuf's stubs leave open, per field, what its kind decides: descriptors are Any from here on.
def columns_of(descriptor: Any) -> Struct:
    """Raises ProtobufSchemaError."""
    try:
        return _Columns().of(descriptor, ())
    except RecursionError:
        raise ProtobufSchemaError(f"{descriptor.full_name} has messages in messages, too deep to be read") from None


@dataclass(slots=True)
class _Columns:
    """Walks a message's descriptor; `outer` are the messages that it is inside of, by their full names."""

    parts: int = 0

    def of(self, descriptor: Any, outer: tuple[str, ...]) -> Struct:
        columns = []
        for each in descriptor.fields:
            name = column_name(each.name)
            if name is None:
                raise ProtobufSchemaError(
                    f"no column can be called {each.name:.20}…: over {NAME_LENGTH_MAX} characters"
                )
            self.parts += 1
            if self.parts > PARTS_MAX:
                raise ProtobufSchemaError(
                    f"this Protobuf schema has more than {PARTS_MAX} parts, followed to its leaves"
                )
            columns.append(Column(name, self._type(each, (*outer, descriptor.full_name))))
        return Struct(tuple(columns))

    def _type(self, each: Any, outer: tuple[str, ...]) -> ColumnType:
        if _is_map(each):
            return MapOf(self._single(each.message_type.fields_by_name["value"], outer))
        single = self._single(each, outer)
        return ListOf(single) if each.is_repeated else single

    def _single(self, each: Any, outer: tuple[str, ...]) -> ColumnType:
        if each.cpp_type == FieldDescriptor.CPPTYPE_STRING:
            return Kind.BINARY if each.type == FieldDescriptor.TYPE_BYTES else Kind.STRING
        if each.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE:
            return _KINDS[each.cpp_type]
        name = each.message_type.full_name
        if name == _TIMESTAMP:
            return Kind.TIMESTAMP
        if name in _WRAPPERS:
            return self._single(each.message_type.fields_by_name["value"], outer)
        if name in outer or name in _JSON_LIKE:
            return Kind.STRING  # JSON text; of a message inside of itself, too: no column is of endless depth
        return self.of(each.message_type, outer)


def _is_map(each: Any) -> bool:
    return each.message_type is not None and bool(each.message_type.GetOptions().map_entry)


@dataclass(slots=True)
class _Fields:
    """Messages as dicts, and how many fields they came to."""

    made: int = 0

    def of(self, message: Message) -> dict[str, object]:
        """Fields that know whether they are set are null when they are not."""
        fields: dict[str, object] = {}
        descriptor: Any = message.DESCRIPTOR
        self._count(len(descriptor.fields))
        for each in descriptor.fields:
            content: Any = getattr(message, each.name)
            if _is_map(each):
                of = each.message_type.fields_by_name["value"]
                fields[each.name] = {text_of(key): self._single(of, content[key]) for key in content}
            elif each.is_repeated:
                fields[each.name] = [self._single(each, item) for item in content]
            elif each.has_presence and not message.HasField(each.name):
                fields[each.name] = None
            else:
                fields[each.name] = self._single(each, content)
        return fields

    def _count(self, more: int) -> None:
        self.made += more
        if self.made > FIELDS_MAX:
            raise MisfitError(f"its messages have more than {FIELDS_MAX:,} fields, set or not")

    def _single(self, each: Any, content: Any) -> object:
        if each.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
            known = each.enum_type.values_by_number.get(content)
            return str(content) if known is None else known.name
        if each.cpp_type == FieldDescriptor.CPPTYPE_UINT64:
            return decimal.Decimal(content)
        if each.type == FieldDescriptor.TYPE_STRING and isinstance(content, bytes):
            raise MisfitError(f"field {each.name} is text that is not UTF-8")  # proto2 takes it, and gives its bytes
        if each.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE:
            return content
        name = each.message_type.full_name
        if name == _TIMESTAMP:
            try:
                since = datetime.timedelta(seconds=content.seconds, microseconds=content.nanos // 1000)
                return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + since
            except OverflowError:
                raise MisfitError(f"field {each.name} is a time that no calendar has") from None
        if name in _WRAPPERS:
            return self._single(each.message_type.fields_by_name["value"], content.value)
        if name in _JSON_LIKE:
            return _json_like(each.name, content)
        return self.of(content)


def _json_like(name: str, content: Message) -> str:
    try:
        return json_format.MessageToJson(content, indent=None, ensure_ascii=False)
    except (json_format.SerializeToJsonError, ValueError) as error:
        raise MisfitError(f"field {name} is nothing that JSON has: {error!s:.80}") from None
