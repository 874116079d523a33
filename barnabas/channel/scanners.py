"""The compiler of scanners: one message class of the data channel becomes one function from bytes to a message.

All known fields have one-byte tags and are varints or length-delimited, so a scanner reads the tag and one varint (a
value or a length) and then decides. Packers write fields in ascending order. The code therefore tests for the fields in
that order, each once, and reads the next tag after each field found: a field costs one comparison, wherever it stands.
A tag that is none of those left is skipped when it is unknown; otherwise the tests start again from the first field.

Nothing is checked per field: an index past the data is an IndexError, and a field that ends past its message is seen by
the one comparison at the end. A repeated scalar keeps its last value where it is not a list, messages in one field are
merged, and integers wider than their field are cut to it, as protobuf does. What a message leaves out has protobuf's
default, not the dataclass's. Objects are made without their `__init__`, every slot assigned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from barnabas.channel import packing_primitives
from barnabas.channel.packing_primitives import MalformedMessage
from barnabas.channel.proto_fields import Field, fields_of, holds_slices
from barnabas.wire.source import Source

T = TypeVar("T")

_NAMES: Final[dict[str, Any]] = {
    "MalformedMessage": MalformedMessage,
    "long_varint": packing_primitives.long_varint,
    "new": object.__new__,
    "scan_string": packing_primitives.scan_string,
    "scan_varints": packing_primitives.scan_varints,
    "signed32": packing_primitives.signed32,
    "signed64": packing_primitives.signed64,
    "skip_unknown": packing_primitives.skip_unknown,
    "truncated": packing_primitives.truncated,
}

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
"""The expression of a value of each type, from the unsigned varint that carries it."""

_nested_scanners: dict[type[Any], Callable[..., Any]] = {}


def compile_scanner(message: type[T]) -> Callable[[bytes], T]:
    """A function `data -> message` that raises nothing but MalformedMessage, whatever the bytes.

    `Buffer` fields are slices of `data`.
    """
    scanner = _Scanner(message)
    source = scanner.source
    with source.block("def scan(data):"):
        with source.block("try:"):
            if holds_slices(message):
                source.line("view = memoryview(data)")
            source.line("position = 0")
            source.line("end = len(data)")
            scanner.make_message()
            scanner.scan_fields()
        with source.block("except IndexError:"):
            source.line("raise MalformedMessage('a message is truncated') from None")
        source.line("return message")
    return source.function("scan", f"scan {message.__name__}")


def _nested_scanner(message: type[Any]) -> Callable[..., Any]:
    scanner = _nested_scanners.get(message)
    if scanner is None:
        scanner = _nested_scanners[message] = _compile_nested(message)
    return scanner


def _compile_nested(message: type[Any]) -> Callable[..., Any]:
    """A function `(data, position, end, known) -> message` for a message within another one.

    After `data` it takes a memoryview of it where the message holds slices. `known` is an earlier message in the same
    field, into which this one is merged, or None.
    """
    scanner = _Scanner(message)
    source = scanner.source
    with source.block(f"def scan({_data(message)}, position, end, known=None):"):
        with source.block("if known is None:"):
            scanner.make_message()
        with source.block("else:"):
            source.line("message = known")
        scanner.scan_fields()
        source.line("return message")
    return source.function("scan", f"scan {message.__name__}")


def _data(message: type[Any]) -> str:
    """The first arguments of the scanner of a message within another one."""
    return "data, view" if holds_slices(message) else "data"


class _Scanner:
    """Writes one scanner."""

    def __init__(self, message: type[Any]) -> None:
        assert "__slots__" in vars(message), f"{message.__name__}: a dataclass with slots"
        self.message = message
        self.fields = fields_of(message)
        self.is_frozen = vars(message)["__dataclass_params__"].frozen
        self.source = Source({**_NAMES, "message_type": message})

    def make_message(self) -> None:
        """Write the creation of a message with protobuf's defaults."""
        self.source.line("message = new(message_type)")
        for field in self.fields:
            default = _DEFAULTS.get(field.type, "0")
            if field.is_repeated or field.has_presence:
                default = "[]" if field.is_repeated else "None"
            self.store(field, default)

    def store(self, field: Field, value: str) -> None:
        """Write the assignment of an expression to a field."""
        if self.is_frozen:
            self.source.names[f"set_{field.name}"] = getattr(self.message, field.name).__set__
            self.source.line(f"set_{field.name}(message, {value})")
        else:
            self.source.line(f"message.{field.name} = {value}")

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
            source.line(f"append = message.{field.name}.append")
            with source.block("while True:"):
                source.line(f"append({self.nested(field)})")
                source.line("position += value")
                self.write_next_field()
                with source.block(f"if tag != {field.tag:#04x}:"):
                    source.line("break")
            # The loop ended without another tag: so did the message.
            with source.block(f"if tag == {field.tag:#04x}:"):
                source.line("break")

    def scan_value(self, field: Field) -> None:
        """Write the assignment of one value, and the step over its bytes."""
        if field.type in _VALUES:
            self.store(field, _VALUES[field.type].format("value"))
            return
        if field.type == "message":
            value = self.nested(field, f", message.{field.name}")
        elif field.type == "string":
            value = "scan_string(data, position, value)"
        else:
            value = f"{'view' if field.is_slice else 'data'}[position : position + value]"
        self.store(field, value)
        self.source.line("position += value")

    def nested(self, field: Field, known: str = "") -> str:
        """The expression of a message that starts at `position` and has `value` bytes."""
        name = self.source.constant(f"scan_{field.python_type.__name__}", _nested_scanner(field.python_type))
        return f"{name}({_data(field.python_type)}, position, position + value{known})"

    def scan_packed(self, field: Field) -> None:
        """Write the tests for a repeated scalar, packed or not."""
        source = self.source
        with source.block(f"if tag == {field.tag:#04x}:"):
            values = "scan_varints(data, position, position + value)"
            if field.type != "uint64":
                values = f"[{_VALUES[field.type].format('each')} for each in {values}]"
            source.line(f"message.{field.name} += {values}")
            source.line("position += value")
            self.write_next_field()
        with source.block(f"if tag == {field.element_tag:#04x}:"):
            source.line(f"message.{field.name}.append({_VALUES[field.type].format('value')})")
            self.write_next_field()

    def check_enum(self, field: Field) -> None:
        """Write the conversion of a number to its enum; one that the enum lacks is refused, as is an absent one."""
        members = self.source.constant(f"members_{field.name}", {int(member): member for member in field.python_type})
        with self.source.block(f"if message.{field.name} not in {members}:"):
            self.source.line(f"raise MalformedMessage(f'{field.name} {{message.{field.name}}} is not known')")
        self.store(field, f"{members}[message.{field.name}]")
