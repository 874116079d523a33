"""The generator of scanners: one message class of the data channel becomes one function from bytes to a message.

All known fields have one-byte tags and are varints or length-delimited, so a scanner reads the tag and one varint (a
value or a length) and then decides. Packers write fields in ascending order. The code therefore tests for the fields in
that order, each once, and reads the next tag after each field found: a field costs one comparison, wherever it stands.
A tag that is none of those left is skipped when it is unknown; otherwise the tests start again from the first field.

Nothing is checked per field: an index past the data is an IndexError, and a field that ends past its message is found
by the one comparison at the end. A repeated scalar keeps its last value if it is not a list, messages in one field are
merged, and integers wider than their field are truncated to it, as in protobuf. A missing field has protobuf's default,
not the dataclass's. Fields are local variables until the message is complete.
"""

from __future__ import annotations

from typing import Any, Final

from barnabas.wire.source import Source
from scripts.channel.proto_fields import Field, fields_of, holds_slices

_DEFAULTS: Final = {"bool": "False", "bytes": "b''", "string": "''"}

_VALUES: Final = {
    "uint32": "{0} & 0xFFFF_FFFF",
    "uint64": "{0}",
    "sint32": "({0} & 0xFFFF_FFFF) >> 1 ^ -({0} & 1)",
    "sint64": "{0} >> 1 ^ -({0} & 1)",
    "int32": "{0} if {0} < 0x8000_0000 else signed32({0})",
    "int64": "signed64({0})",
    "enum": "signed32({0})",
    "bool": "{0} != 0",
}
"""The expression of a value of each type, from its unsigned varint."""

_PYTHON_TYPES: Final = {"bool": "bool", "bytes": "bytes", "string": "str"}


def scanner_text(name: str, message: type[Any]) -> str:
    """Return the source of a function `name(data) -> message` that raises only MalformedMessage, for any bytes.

    `Buffer` fields are slices of `data`. It calls those of `nested_scanner_text`.
    """
    scanner = _Scanner(message)
    source = scanner.source
    with source.block(f"def {name}(data: bytes) -> {message.__name__}:"):
        with source.block("try:"):
            if holds_slices(message):
                source.line("view = memoryview(data)")
            source.line("position = 0")
            source.line("end = len(data)")
            scanner.begin_message("")
            scanner.scan_fields()
            source.line(f"return {scanner.made()}")
        with source.block("except IndexError:"):
            source.line("raise MalformedMessage('a message is truncated') from None")
    return source.text()


def nested_scanner_text(message: type[Any]) -> str:
    """Return the source of a function `(data, position, end, known) -> message` for a message within another one.

    After `data` it takes a memoryview of it if the message contains slices. `known` is an earlier message in the same
    field, into which this one is merged, or None.
    """
    scanner = _Scanner(message)
    source = scanner.source
    view = ", view: memoryview" if holds_slices(message) else ""
    arguments = f"data: bytes{view}, position: int, end: int, known: {message.__name__} | None = None"
    with source.block(f"def {_nested_name(message)}({arguments}) -> {message.__name__}:"):
        scanner.begin_message("known")
        scanner.scan_fields()
        source.line(f"return {scanner.made()}")
    return source.text()


def messages_within(message: type[Any]) -> list[type[Any]]:
    """Return the message classes that nested scanners are needed for, each after those within it."""
    found: list[type[Any]] = []
    for field in fields_of(message):
        if field.type == "message":
            found += [*messages_within(field.python_type), field.python_type]
    return list(dict.fromkeys(found))


def enums_within(message: type[Any]) -> list[type[Any]]:
    """Return the enums of its fields and of those within it."""
    messages = [*messages_within(message), message]
    return list(dict.fromkeys(f.python_type for each in messages for f in fields_of(each) if f.type == "enum"))


def members_name(enum: type[Any]) -> str:
    """Return the name of the dictionary of an enum's members by their numbers."""
    return f"_MEMBERS_OF_{enum.__name__.upper()}"


def _nested_name(message: type[Any]) -> str:
    return f"_scan_{message.__name__}"


def _data(message: type[Any]) -> str:
    """Return the first arguments of the scanner of a nested message."""
    return "data, view" if holds_slices(message) else "data"


class _Scanner:
    """Writes one scanner."""

    def __init__(self, message: type[Any]) -> None:
        self.message = message
        self.fields = fields_of(message)
        self.source = Source({})

    def begin_message(self, known: str) -> None:
        """Write a variable for each field: protobuf's default, or the field of the message in the variable `known`."""
        for field in self.fields:
            default = _DEFAULTS.get(field.type, "0")
            if field.is_repeated or field.has_presence:
                default = "[]" if field.is_repeated else "None"
            self.source.line(f"f_{field.name}: {self.variable_type(field)} = {default}")
        if known:
            with self.source.block(f"if {known} is not None:"):
                for field in self.fields:
                    self.source.line(f"f_{field.name} = {known}.{field.name}")

    def variable_type(self, field: Field) -> str:
        """Return the annotation of a field's variable; that of an enum holds its number."""
        name = _PYTHON_TYPES.get(field.type, "int")
        if field.type == "message":
            name = field.python_type.__name__
        elif field.is_slice:
            name = "Any"
        if field.is_repeated:
            return f"list[{name}]"
        return f"{name} | None" if field.has_presence else name

    def made(self) -> str:
        """Return the expression of the message of all variables."""
        values = [
            f"{members_name(field.python_type)}[f_{field.name}]" if field.type == "enum" else f"f_{field.name}"
            for field in self.fields
        ]
        return f"{self.message.__name__}({', '.join(values)})"

    def store(self, field: Field, value: str) -> None:
        """Write the assignment of an expression to a field."""
        self.source.line(f"f_{field.name} = {value}")

    def scan_fields(self) -> None:
        """Write the loop over `data[position:end]`."""
        source = self.source
        tags = {field.tag for field in self.fields} | {field.element_tag for field in self.fields if field.is_packed}
        with source.block("if position < end:"):
            self.read_tag()
            with source.block("while True:"):
                for field in self.fields:
                    self.scan_field(field)
                with source.block(f"if tag not in {tags}:"):
                    source.line("position = skip_unknown(data, position, tag, value)")
                    self.write_next_field()
        with source.block("if position != end:"):
            source.line(f"raise truncated({self.message.__name__!r})")
        for field in self.fields:
            if field.type == "enum":
                self.check_enum(field)

    def read_tag(self) -> None:
        """Write the read of a tag and of the varint after it."""
        source = self.source
        source.line("tag = data[position]")
        source.line("value = data[position + 1]")
        source.line("position += 2")
        with source.block("if value > 0x7F:"):
            source.line("value, position = long_varint(data, position, value, tag)")

    def write_next_field(self) -> None:
        """Write the step to the next field, which leaves the innermost loop at the end of the message."""
        with self.source.block("if position >= end:"):
            self.source.line("break")
        self.read_tag()

    def scan_field(self, field: Field) -> None:
        """Write the test for one field, and what is done with its value."""
        source = self.source
        if field.is_packed:
            self.scan_packed(field)
            return
        with source.block(f"if tag == {field.tag:#04x}:"):
            if not field.is_repeated:
                self.scan_value(field)
                self.write_next_field()
                return
            assert field.type == "message", f"{field.name}: repeated {field.type} is not served"
            with source.block("while True:"):
                source.line(f"f_{field.name}.append({self.nested(field)})")
                source.line("position += value")
                self.write_next_field()
                with source.block(f"if tag != {field.tag:#04x}:"):
                    source.line("break")
            # The loop ended without another tag, and so did the message.
            with source.block(f"if tag == {field.tag:#04x}:"):
                source.line("break")

    def scan_value(self, field: Field) -> None:
        """Write the assignment of one value, and the step over its bytes."""
        if field.type in _VALUES:
            self.store(field, _VALUES[field.type].format("value"))
            return
        if field.type == "message":
            value = self.nested(field, f", f_{field.name}")
        elif field.type == "string":
            value = "scan_string(data, position, value)"
        else:
            value = f"{'view' if field.is_slice else 'data'}[position : position + value]"
        self.store(field, value)
        self.source.line("position += value")

    def nested(self, field: Field, known: str = "") -> str:
        """Return the expression of a message that starts at `position` and has `value` bytes."""
        return f"{_nested_name(field.python_type)}({_data(field.python_type)}, position, position + value{known})"

    def scan_packed(self, field: Field) -> None:
        """Write the tests for a repeated scalar, packed or not."""
        source = self.source
        with source.block(f"if tag == {field.tag:#04x}:"):
            values = "scan_varints(data, position, position + value)"
            if field.type != "uint64":
                values = f"[{_VALUES[field.type].format('each')} for each in {values}]"
            source.line(f"f_{field.name} += {values}")
            source.line("position += value")
            self.write_next_field()
        with source.block(f"if tag == {field.element_tag:#04x}:"):
            source.line(f"f_{field.name}.append({_VALUES[field.type].format('value')})")
            self.write_next_field()

    def check_enum(self, field: Field) -> None:
        """Write the conversion of a number to its enum; one that the enum lacks is refused, as is an absent one."""
        with self.source.block(f"if f_{field.name} not in {members_name(field.python_type)}:"):
            self.source.line(f"raise MalformedMessage(f'{field.name} {{f_{field.name}}} is not known')")
