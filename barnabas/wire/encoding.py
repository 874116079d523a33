"""The compiler of encoders: one message class in one version becomes one straight-line function.

Adjacent fixed-size fields are packed by one `Struct.pack`, including the following length or count if that takes one
byte. Records are never copied: an encoder returns a list of buffers in which each non-empty record set is the very
object in the message.

A value that its field can't hold (an int16 of 70,000, a None that is not nullable) is a bug of the caller and raises
whatever Python raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from barnabas.wire import primitives
from barnabas.wire.frequent_codecs import ENCODERS, codec_name
from barnabas.wire.primitives import Buffer, Steps
from barnabas.wire.schema import FIXED_FORMATS, LENGTH_FORMATS, Field, Kind, fields_of
from barnabas.wire.source import Source

ENCODER_NAMES: Final[dict[str, Any]] = {
    "UVARINT_BYTES": primitives.UVARINT_BYTES,
    "uvarint": primitives.uvarint,
}

_PARTS_MAX: Final = 1_024
"""The number of parts after which an encoder in steps begins the next buffer: joining and freeing them takes time,
too.
"""


def compile_encoder(message: type[Any], version: int, is_flexible: bool) -> Callable[[Any], list[Buffer]]:
    """Return a function `message -> buffers` for the body alone; the first buffer is always `bytes`."""
    return ENCODERS.get(codec_name(message, version)) or _Encoder(message, version, is_flexible).compile()


def compile_encoder_in_steps(
    message: type[Any], version: int, is_flexible: bool
) -> Callable[[Any], Steps[list[Buffer]]]:
    """Return the same function as a generator, which pauses at each struct, string or bytes in an array."""
    return _Encoder(message, version, is_flexible, in_steps=True).compile()


def write_encoder(source: Source, name: str, message: type[Any], version: int, is_flexible: bool) -> None:
    """Append the function `name` that encodes a message to typed source."""
    _Encoder(message, version, is_flexible, source=source).write(name)


def _has_records(message: type[Any], version: int) -> bool:
    return any(
        field.kind == "records" or (not isinstance(field.kind, str) and _has_records(field.kind, version))
        for field in fields_of(message, version)
    )


class _Encoder:
    """Writes one encoder. `run` holds the fixed-size values that will become one pack.

    In the generated code `parts` are the small parts of the present buffer, and `out` is the list of buffers.
    """

    def __init__(
        self,
        message: type[Any],
        version: int,
        is_flexible: bool,
        *,
        in_steps: bool = False,
        source: Source | None = None,
    ) -> None:
        self.in_steps = in_steps
        self.message = message
        self.version = version
        self.is_flexible = is_flexible
        self.source = source or Source(ENCODER_NAMES)
        self.parts = "parts"
        """The list that the next part is appended to."""
        self.run: list[tuple[str, str]] = []
        """(expression, struct format); a zero byte is format `x` and has no expression."""

    def compile(self) -> Callable[[Any], Any]:
        """Return a generator function if it works in steps."""
        self.write("encode")
        return self.source.function("encode", f"encode {self.message.__name__} v{self.version}")

    def write(self, name: str) -> None:
        source = self.source
        has_records = _has_records(self.message, self.version)
        result = " -> list[Any]" if source.is_typed else ""
        with source.block(f"def {name}({source.declared('message', source.message_class(self.message))}){result}:"):
            source.line(f"{source.declared('parts', 'list[bytes]')} = []")
            if has_records or self.in_steps:
                source.line(f"{source.declared('out', 'list[Any]')} = []")
            if self.in_steps:
                source.line("yield 1")
            self.write_struct("message", self.message)
            self.flush()
            if has_records or self.in_steps:
                with source.block("if parts or not out:"):
                    source.line("out.append(b''.join(parts))")
                source.line("return out")
            else:
                source.line("return [b''.join(parts)]")

    def append(self, part: str) -> None:
        self.source.line(f"{self.parts}.append({part})")

    def fixed(self, value: str, element_format: str) -> None:
        self.run.append((value, element_format))

    def pack_run(self) -> str:
        """Return the expression that packs the waiting run, which stays."""
        if not any(value for value, _ in self.run):
            return repr(bytes(len(self.run)))
        pack = self.source.struct_method("pack", "".join(element_format for _, element_format in self.run))
        return f"{pack}({', '.join(value for value, _ in self.run if value)})"

    def flush(self) -> None:
        if self.run:
            self.append(self.pack_run())
            self.run.clear()

    def write_uvarint(self, value: str) -> None:
        """Flush with an unsigned varint, held by the variable `value`, at the end."""
        if not self.run:
            self.append(f"UVARINT_BYTES[{value}] if {value} < 128 else uvarint({value})")
            return
        without_length = self.pack_run()
        self.fixed(value, "B")
        with_length = self.pack_run()
        self.run.clear()
        with self.source.block(f"if {value} < 128:"):
            self.append(with_length)
        with self.source.block("else:"):
            self.append(without_length)
            self.append(f"uvarint({value})")

    def write_struct(self, value: str, message: type[Any]) -> None:
        """May leave a run waiting."""
        fields = fields_of(message, self.version)
        for field in fields:
            if field.tag is None:
                self.write_field(f"{value}.{field.name}", field)
        if self.is_flexible:
            self.write_tags(value, [field for field in fields if field.tag is not None])

    def write_field(self, value: str, field: Field) -> None:
        if field.is_array:
            self.write_array(value, field)
        else:
            self.write_value(value, field.kind, field.is_nullable)

    def write_value(self, value: str, kind: Kind, is_nullable: bool) -> None:
        if not isinstance(kind, str):
            self.write_nested_struct(value, kind, is_nullable)
        elif kind in FIXED_FORMATS:
            self.fixed(value, FIXED_FORMATS[kind])
        else:
            self.write_sized(value, kind, is_nullable)

    def write_nested_struct(self, value: str, message: type[Any], is_nullable: bool) -> None:
        source = self.source
        if "." in value:
            field, value = value, source.fresh("s")
            source.line(f"{value} = {field}")
        if not is_nullable:
            self.write_struct(value, message)
            return
        self.flush()
        with source.block(f"if {value} is None:"):
            self.append("b'\\xff'")
        with source.block("else:"):
            self.fixed("1", "b")
            self.write_struct(value, message)
            self.flush()

    def write_length(self, length: str, length_format: str) -> None:
        """Flush with a length or count; the variable holds it as returned by `length_of`."""
        if self.is_flexible:
            self.write_uvarint(length)
        else:
            self.fixed(length, length_format)
            self.flush()

    def length_of(self, value: str) -> str:
        return f"len({value}) + 1" if self.is_flexible else f"len({value})"

    def write_sized(self, value: str, kind: str, is_nullable: bool) -> None:
        """Write a string, bytes or records: a length, then the bytes."""
        source = self.source
        content = value
        if "." in value:
            content = source.fresh("f")
            source.line(f"{content} = {value}")
        encoded = source.fresh("b") if kind == "string" else content
        length = source.fresh("n")
        if is_nullable:
            with source.block(f"if {content} is None:"):
                source.line(f"{length} = {0 if self.is_flexible else -1}")
                if encoded != content:
                    source.line(f"{encoded} = b''")
            with source.block("else:"):
                self.measure(content, encoded, length)
        else:
            self.measure(content, encoded, length)
        self.write_length(length, LENGTH_FORMATS[kind])
        with source.block(f"if {encoded}:"):
            if kind == "records":
                source.line("out.append(b''.join(parts))")
                source.line("parts.clear()")
                source.line(f"out.append({encoded})")
            else:
                self.append(encoded)

    def measure(self, content: str, encoded: str, length: str) -> None:
        if encoded != content:
            self.source.line(f"{encoded} = {content}.encode()")
        self.source.line(f"{length} = {self.length_of(encoded)}")

    def write_array(self, value: str, field: Field) -> None:
        source = self.source
        elements = source.fresh("a")
        length = source.fresh("n")
        source.line(f"{elements} = {value}")
        if field.is_nullable:
            null = 0 if self.is_flexible else -1
            source.line(f"{length} = {null} if {elements} is None else {self.length_of(elements)}")
        else:
            source.line(f"{length} = {self.length_of(elements)}")
        self.write_length(length, "i")
        element = source.fresh("o")
        with source.block(f"if {elements}:"), source.block(f"for {element} in {elements}:"):
            self.write_value(element, field.kind, is_nullable=False)
            self.flush()
            if self.in_steps and field.kind not in FIXED_FORMATS:
                with source.block(f"if len(parts) >= {_PARTS_MAX}:"):
                    source.line("out.append(b''.join(parts))")
                    source.line("parts.clear()")
                source.line("yield 1")

    def write_tags(self, value: str, tagged: list[Field]) -> None:
        """Write the tagged fields that differ from their defaults, as Kafka's own encoder leaves the others out."""
        source = self.source
        if not tagged:
            self.fixed("", "x")
            return
        self.flush()
        present = [self.is_present(f"{value}.{field.name}", field) for field in tagged]
        with source.block(f"if {' or '.join(present)}:"):
            pieces, count = source.fresh("pieces"), source.fresh("n")
            source.line(f"{source.declared(pieces, 'list[bytes]')} = []")
            source.line(f"{count} = 0")
            outer = self.parts
            for field, condition in zip(tagged, present, strict=True):
                assert field.kind != "records", "records in a tagged field would be copied"
                content, self.parts = source.fresh("b"), source.fresh("parts")
                with source.block(f"if {condition}:"):
                    source.line(f"{source.declared(self.parts, 'list[bytes]')} = []")
                    self.write_field(f"{value}.{field.name}", field)
                    self.flush()
                    source.line(f"{content} = b''.join({self.parts})")
                    source.line(f"{pieces}.append(uvarint({field.tag}) + uvarint(len({content})))")
                    source.line(f"{pieces}.append({content})")
                    source.line(f"{count} += 1")
            self.parts = outer
            self.append(f"uvarint({count}) + b''.join({pieces})")
        with source.block("else:"):
            self.append("b'\\0'")

    def is_present(self, value: str, field: Field) -> str:
        if field.is_array:
            return value
        if isinstance(field.kind, str):
            return f"{value} is not None" if field.default is None else f"{value} != {field.default!r}"
        nothing = self.source.constant(f"default_{field.kind.__name__}", field.kind())
        return f"({value} is not None and {value} != {nothing})"
