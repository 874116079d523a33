"""The compiler of decoders: one message class in one version becomes one straight-line function.

It is fast because adjacent fixed-size fields are read by one `Struct.unpack_from`, including the length or count that
follows them (or the first byte of its varint); nested structs are inlined; objects are created without their
`__init__`, every slot assigned. It is safe because a string, record set or array is checked against the remaining bytes
before it is sliced, and running out of bytes anywhere is a `MalformedFrame`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from barnabas.wire import primitives
from barnabas.wire.frequent_codecs import DECODERS, codec_name
from barnabas.wire.primitives import ELEMENTS_MAX, ZERO_UUID, Decoder, MalformedFrame, Steps, TooManyElements
from barnabas.wire.schema import (
    FIXED_FORMATS,
    FIXED_SIZES,
    FIXED_TYPES,
    LENGTH_FORMATS,
    Field,
    Kind,
    absent_from,
    fields_of,
    size_min,
)
from barnabas.wire.source import Source

DECODER_NAMES: Final[dict[str, Any]] = {
    "MalformedFrame": MalformedFrame,
    "ELEMENTS_MAX": ELEMENTS_MAX,
    "TooManyElements": TooManyElements,
    "bad_length": primitives.bad_length,
    "check_count": primitives.check_count,
    "check_tag_count": primitives.check_tag_count,
    "continue_uvarint": primitives.continue_uvarint,
    "fixed_array": primitives.fixed_array,
    "read_tag": primitives.read_tag,
    "skip_tags": primitives.skip_tags,
    "struct_error": struct.error,
    "tag_overrun": primitives.tag_overrun,
    "too_many_elements": primitives.too_many_elements,
}


def compile_decoder(message: type[Any], version: int, is_flexible: bool) -> Decoder:
    """Return a function `(frame, position, elements_max=ELEMENTS_MAX) -> message` that raises only MalformedFrame, for
    any bytes.

    All arrays together, and the tagged fields, may have at most `elements_max` elements; with more it raises
    TooManyElements. Bytes past the last field are ignored, as in Kafka.
    """
    ready = DECODERS.get(codec_name(message, version))
    if ready is not None:
        return ready
    made: Decoder = _Decoder(message, version, is_flexible).compile()
    return made


def compile_decoder_in_steps(message: type[Any], version: int, is_flexible: bool) -> Callable[..., Steps[Any]]:
    """Return the same function as a generator, which pauses at each element of an array."""
    return _Decoder(message, version, is_flexible, in_steps=True).compile()


def write_decoder(source: Source, name: str, message: type[Any], version: int, is_flexible: bool) -> None:
    """Append the function `name` that decodes a message to typed source."""
    _Decoder(message, version, is_flexible, source=source).write(name)


class _Decoder:
    """Writes one decoder. `run` holds the fixed-size reads that will become one unpack_from."""

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
        self.source = source or Source(DECODER_NAMES)
        self.run: list[tuple[str, str, int]] = []

    def compile(self) -> Callable[[memoryview, int], Any]:
        """Return a generator function if it works in steps."""
        self.write("decode")
        return self.source.function("decode", f"decode {self.message.__name__} v{self.version}")

    def write(self, name: str) -> None:
        label = f"{self.message.__name__} v{self.version}"
        source = self.source
        parameters = "frame, p, elements_max=ELEMENTS_MAX"
        result = ""
        if source.is_typed:
            parameters = "frame: memoryview, p: int, elements_max: int = ELEMENTS_MAX"
            result = f" -> {source.message_class(self.message)}"
        with source.block(f"def {name}({parameters}){result}:"):
            source.line("limit = len(frame)")
            source.line("left = elements_max")
            self.pause("1")
            with source.block("try:"):
                self.read_struct("message", self.message)
                self.flush()
            with source.block("except (struct_error, IndexError):"):
                source.line(f"raise MalformedFrame(f'{label}: {{limit}} bytes end before its fields do') from None")
            with source.block("except TooManyElements as excess:"):
                source.line(f"raise TooManyElements(f'{label}: {{excess}}') from None")
            with source.block("except MalformedFrame as error:"):
                source.line(f"raise MalformedFrame(f'{label}: {{error}}') from None")
            source.line("return message")

    def fixed(self, target: str, element_format: str, size: int) -> None:
        self.run.append((target, element_format, size))

    def flush(self) -> None:
        """Write the waiting run as one read."""
        if not self.run:
            return
        targets = ", ".join(target for target, _, _ in self.run)
        formats = "".join(element_format for _, element_format, _ in self.run)
        if formats == "B":
            self.source.line(f"{targets} = frame[p]")
        else:
            unpacked = f"{self.source.struct_method('unpack_from', formats)}(frame, p)"
            if self.source.is_typed:
                types = ", ".join(FIXED_TYPES.get(element_format, "int") for _, element_format, _ in self.run)
                values = self.source.fresh("v")
                self.source.line(f"{values}: tuple[{types}] = {unpacked}")
                unpacked = values
            self.source.line(f"{targets}{',' * (len(self.run) == 1)} = {unpacked}")
        self.source.line(f"p += {sum(size for _, _, size in self.run)}")
        self.run.clear()

    def read_uvarint(self) -> str:
        """Flush with an unsigned varint at the end; return the variable that holds it."""
        value = self.source.fresh("n")
        self.fixed(value, "B", 1)
        self.flush()
        with self.source.block(f"if {value} > 127:"):
            self.source.line(f"{value}, p = continue_uvarint(frame, p, {value})")
        return value

    def read_struct(self, target: str, message: type[Any]) -> None:
        """Read the fields of one struct into a new object in `target`; may leave a run waiting."""
        source = self.source
        made = source.new_object(message)
        if "." in target:
            struct_in_field, target = target, source.fresh("s")
            source.line(f"{target} = {made}")
            source.line(f"{struct_in_field} = {target}")
        else:
            source.line(f"{target} = {made}")
        fields = fields_of(message, self.version)
        tagged = [field for field in fields if field.tag is not None]
        if not source.is_typed:
            for name, default in absent_from(message, self.version):
                source.line(f"{target}.{name} = {self.default(default)}")
            for field in tagged:
                source.line(f"{target}.{field.name} = {self.default(field.default)}")
        for field in fields:
            if field.tag is None:
                self.read_field(f"{target}.{field.name}", field)
        if self.is_flexible:
            self.read_tags(target, tagged)

    def default(self, value: Any) -> str:
        """Return the expression of a field's default; an array gets a new list each time, a struct a new object."""
        if isinstance(value, type):
            return f"{self.source.message_class(value)}()"
        return self.source.constant("uuid", value) if value == ZERO_UUID else repr(value)

    def read_field(self, target: str, field: Field) -> None:
        if field.is_array:
            self.read_array(target, field)
        else:
            self.read_value(target, field.kind, field.name, field.is_nullable)

    def read_value(self, target: str, kind: Kind, name: str, is_nullable: bool) -> None:
        if not isinstance(kind, str):
            if is_nullable:
                self.read_nullable_struct(target, kind)
            else:
                self.read_struct(target, kind)
        elif kind in FIXED_FORMATS:
            self.fixed(target, FIXED_FORMATS[kind], FIXED_SIZES[kind])
        else:
            self.read_sized(target, kind, name, is_nullable)

    def read_nullable_struct(self, target: str, message: type[Any]) -> None:
        """Read a byte, where a negative value means null as in Kafka and any other (Kafka writes 1) is followed by the
        struct.
        """
        presence = self.source.fresh("n")
        self.fixed(presence, "b", 1)
        self.flush()
        with self.source.block(f"if {presence} < 0:"):
            self.source.line(f"{target} = None")
        with self.source.block("else:"):
            self.read_struct(target, message)
            self.flush()

    def read_length(self, length_format: str) -> tuple[str, str, str]:
        """Read a length or count; return its variable, the expression of its value, and the value that means null."""
        if self.is_flexible:
            length = self.read_uvarint()
            return length, f"{length} - 1", "0"
        length = self.source.fresh("n")
        self.fixed(length, length_format, 2 if length_format == "h" else 4)
        self.flush()
        return length, length, "-1"

    def read_sized(self, target: str, kind: str, name: str, is_nullable: bool) -> None:
        """Read a string, bytes or records: a length, then that many bytes."""
        source = self.source
        length, value, null = self.read_length(LENGTH_FORMATS[kind])
        end = source.fresh("e")
        source.line(f"{end} = p + {value}")
        bound = f"p <= {end} <= limit"
        if kind == "string" and self.is_flexible:
            bound += f" and {length} <= {primitives.STRING_BYTES_MAX + 1}"
        with source.block(f"if {bound}:"):
            piece = f"frame[p:{end}]"
            source.line(
                f"{target} = "
                + {"string": f"str({piece}, 'utf-8', 'replace')", "bytes": f"bytes({piece})"}.get(kind, piece)
            )
            source.line(f"p = {end}")
        if is_nullable:
            with source.block(f"elif {length} == {null}:"):
                source.line(f"{target} = None")
        with source.block("else:"):
            source.line(f"raise bad_length({name!r}, {value}, limit - p)")

    def read_array(self, target: str, field: Field) -> None:
        source = self.source
        length, value, null = self.read_length("i")
        with source.block(f"if {length} > {null}:" if self.is_flexible else f"if {length} >= 0:"):
            count = source.fresh("c")
            source.line(f"{count} = {value}")
            # Even elements without bytes use memory: each is counted as one byte.
            element_size = max(size_min(field.kind, self.version, self.is_flexible), 1)
            with source.block(f"if {count} * {element_size} > limit - p:"):
                source.line(f"check_count({field.name!r}, {count}, {element_size}, limit - p)")
            self.spend(field.name, count)
            if isinstance(field.kind, str) and field.kind in FIXED_FORMATS and field.kind != "uuid":
                source.line(f"{target} = fixed_array(frame, p, {count}, {FIXED_FORMATS[field.kind]!r})")
                source.line(f"p += {count} * {element_size}")
            else:
                self.read_elements(target, count, field)
        if field.is_nullable:
            with source.block(f"elif {length} == {null}:"):
                source.line(f"{target} = None")
        with source.block("else:"):
            source.line(f"raise bad_length({field.name!r}, {value}, limit - p)")

    def pause(self, cost: str) -> None:
        if self.in_steps:
            self.source.line(f"yield {cost}")

    def spend(self, name: str, count: str) -> None:
        """Subtract `count` elements from the message's allowance."""
        self.source.line(f"left -= {count}")
        with self.source.block("if left < 0:"):
            self.source.line(f"raise too_many_elements({name!r}, elements_max)")

    def read_elements(self, target: str, count: str, field: Field) -> None:
        source = self.source
        elements = source.fresh("a")
        element = source.fresh("o")
        if isinstance(field.kind, str):
            element_type = FIXED_TYPES.get(
                FIXED_FORMATS.get(field.kind, ""), "str" if field.kind == "string" else "bytes"
            )
        else:
            element_type = source.message_class(field.kind)
        source.line(f"{source.declared(elements, f'list[{element_type}]')} = []")
        source.line(f"{target} = {elements}")
        with source.block(f"for _ in range({count}):"):
            self.read_value(element, field.kind, field.name, is_nullable=False)
            self.flush()
            source.line(f"{elements}.append({element})")
            self.pause("1")

    def read_tags(self, target: str, tagged: list[Field]) -> None:
        source = self.source
        count = self.read_uvarint()
        with source.block(f"if {count}:"):
            source.line(f"check_tag_count({count}, limit - p)")
            self.spend("tagged fields", count)
            self.pause(count)
            if not tagged:
                source.line(f"p = skip_tags(frame, p, {count})")
                return
            tag = source.fresh("t")
            end = source.fresh("e")
            source.line(f"{tag} = -1")
            with source.block(f"for _ in range({count}):"):
                source.line(f"{tag}, p, {end} = read_tag(frame, p, {tag})")
                for number, field in enumerate(tagged):
                    with source.block(f"{'elif' if number else 'if'} {tag} == {field.tag}:"):
                        self.read_field(f"{target}.{field.name}", field)
                        self.flush()
                        with source.block(f"if p != {end}:"):
                            source.line(f"tag_overrun({field.name!r}, p, {end})")
                with source.block("else:"):
                    source.line(f"p = {end}")
