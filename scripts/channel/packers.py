"""The generator of packers: one message class of the data channel becomes one function from a message to its bytes.

Fields are written in ascending order and proto3's defaults are left out, so the bytes equal protobuf's deterministic
serialization. Nested messages are inlined, and so are varints of up to two bytes. Fields that are slices are copied
once: they join the small parts when the whole message is joined.

Integers must fit their field: of those that do not, only negative values of unsigned fields are seen (an assertion).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from barnabas.channel.packing_primitives import SHORT_VARINTS_END
from barnabas.wire.source import Source
from scripts.channel.proto_fields import SIGNED_TYPES, UNSIGNED_TYPES, ZIGZAG_TYPES, Field, fields_of, holds_slices

_Put = Callable[[str], None]
"""Writes the line that adds the bytes of an expression to what is packed."""


def packer_text(name: str, message: type[Any]) -> str:
    """Return the source of a function `name(message) -> bytes`."""
    return _Packer(message).text(name)


def _tag(field: Field) -> str:
    return repr(bytes((field.tag,)))


def _length(expression: str) -> str:
    """Return the expression of the varint of a length."""
    return f"(SHORT_VARINTS[n] if (n := {expression}) < {SHORT_VARINTS_END} else varint(n))"


def _holds_slices(field: Field) -> bool:
    return field.is_slice or (field.type == "message" and holds_slices(field.python_type))


def _is_simple(field: Field) -> bool:
    """Whether one expression packs the field, and is empty for its default."""
    if field.is_repeated or field.has_presence:
        return False
    is_integer = field.type in UNSIGNED_TYPES | ZIGZAG_TYPES | SIGNED_TYPES
    return is_integer or (field.type == "bytes" and not field.is_slice)


def _simple(value: str, field: Field) -> str:
    """Return the expression of the bytes of a simple field; its cases are ordered by cost."""
    tag = _tag(field)
    if field.type == "bytes":
        return f"({tag} + varint(len(d)) + d if (d := {value}) else b'')"
    if field.type in ZIGZAG_TYPES:
        minus_one = repr(bytes((field.tag, 1)))
        return (
            f"({tag} + SHORT_VARINTS[n + n] if 0 < (n := {value}) < {SHORT_VARINTS_END // 2}"
            f" else {tag} + varint(n + n) if n > 0"
            f" else b'' if not n"
            f" else {minus_one} if n == -1"
            f" else {tag} + varint(-n - n - 1))"
        )
    rest = "varint(n)" if field.type in UNSIGNED_TYPES else "varint(n & 0xFFFF_FFFF_FFFF_FFFF)"
    return (
        f"({tag} + SHORT_VARINTS[n] if 0 < (n := {value}) < {SHORT_VARINTS_END} else b'' if not n else {tag} + {rest})"
    )


class _Packer:
    """Writes one packer. In the generated code `parts` become the message when they are joined."""

    def __init__(self, message: type[Any]) -> None:
        self.message = message
        self.source = Source({})

    def text(self, name: str) -> str:
        source = self.source
        with source.block(f"def {name}(message: {self.message.__name__}) -> bytes:"):
            source.line("n: int")
            source.line("d: bytes")
            source.line("parts: list[Any] = []")
            for field in fields_of(self.message):
                self.pack_field("message", field, self.write_append)
            source.line('return b"".join(parts)')
        return source.text()

    def write_append(self, expression: str) -> None:
        self.source.line(f"parts.append({expression})")

    def pack_field(self, message: str, field: Field, put: _Put) -> None:
        """Write what adds one field of the variable `message`, if it has more than its default."""
        source = self.source
        tag = _tag(field)
        value = f"{message}.{field.name}"
        if field.type == "message" and field.is_repeated:
            element = source.fresh("m")
            with source.block(f"for {element} in {value}:"):
                self.pack_message(element, field, put)
        elif field.has_presence:
            with source.block(f"if {value} is not None:"):
                present = source.fresh("m")
                source.line(f"{present} = {value}")
                if field.type == "message":
                    self.pack_message(present, field, put)
                else:
                    assert field.type in UNSIGNED_TYPES, f"{field.name}: optional {field.type} is not served"
                    put(f"{tag} + varint({present})")
        else:
            with source.block(f"if {value}:"):
                if field.is_packed:
                    packed = "packed_uints" if field.type in UNSIGNED_TYPES else "packed_ints"
                    put(f"{packed}({tag}, {value})")
                elif field.type == "bool":
                    put(repr(bytes((field.tag, 1))))
                elif field.type == "string":
                    source.line(f"d = {value}.encode()")
                    put(f"{tag} + varint(len(d)) + d")
                else:
                    put(_simple(value, field))

    def pack_message(self, message: str, field: Field, put: _Put) -> None:
        """Write what adds the message in the variable `message`, even when it is empty."""
        if holds_slices(field.python_type):
            self.pack_slices(message, field, None)
        else:
            body = self.source.fresh("b")
            self.pack_body(body, message, fields_of(field.python_type))
            put(f"{_tag(field)} + {_length(f'len({body})')} + {body}")

    def pack_body(self, body: str, message: str, fields: Sequence[Field]) -> None:
        """Write what makes the variable `body` the bytes of `fields`, none of which holds slices."""
        source = self.source
        assign = "="
        for is_simple, group in groupby(fields, _is_simple):
            if is_simple:
                terms = " + ".join(_simple(f"{message}.{field.name}", field) for field in group)
                source.line(f"{body} {assign} {terms}")
                assign = "+="
                continue
            if assign == "=":
                source.line(f"{body} = b''")
                assign = "+="
            for field in group:
                if field.is_repeated and field.type == "message":
                    self.pack_elements(body, message, field)
                else:
                    self.pack_field(message, field, lambda expression: source.line(f"{body} += {expression}"))

    def pack_elements(self, body: str, message: str, field: Field) -> None:
        """Write what adds messages to the variable `body`; joined once, since they may be many."""
        source = self.source
        pieces = source.fresh("p")
        with source.block(f"if {message}.{field.name}:"):
            source.line(f"{pieces} = [{body}]")
            self.pack_field(message, field, lambda expression: source.line(f"{pieces}.append({expression})"))
            source.line(f"{body} = b''.join({pieces})")

    def pack_slices(self, message: str, field: Field, total: str | None) -> None:
        """Write what adds a message that holds slices, and adds its length to the variable `total`."""
        fields = fields_of(field.python_type)
        (place,) = (number for number, each in enumerate(fields) if _holds_slices(each))
        if fields[place].is_slice:
            self.pack_slice(message, field, total, place)
            return
        assert total is None, f"{field.name}: slices on a third level are not served"
        assert place == len(fields) - 1, f"{field.name}: fields after messages with slices are not served"
        self.pack_holders(message, field)

    def pack_slice(self, message: str, field: Field, total: str | None, place: int) -> None:
        """Write what adds a message that has one slice."""
        source = self.source
        fields = fields_of(field.python_type)
        head, content, tail = source.fresh("b"), source.fresh("s"), source.fresh("b")
        self.pack_body(head, message, fields[:place])
        if fields[place + 1 :]:
            self.pack_body(tail, message, fields[place + 1 :])
        else:
            tail = ""
        source.line(f"{content} = {message}.{fields[place].name}")
        with source.block(f"if {content}:"):
            size = source.fresh("l")
            source.line(f"{size} = len({content})")
            source.line(f"{head} += {_tag(fields[place])} + varint({size})")
            rest = f"{size} + len({tail})" if tail else size
            source.line(f"{head} = {_tag(field)} + varint(len({head}) + {rest}) + {head}")
            if total:
                source.line(f"{total} += len({head}) + {rest}")
            source.line(f"parts += ({head}, {content}{', ' + tail if tail else ''})")
        with source.block("else:"):
            if tail:
                source.line(f"{head} += {tail}")
            source.line(f"{head} = {_tag(field)} + {_length(f'len({head})')} + {head}")
            if total:
                source.line(f"{total} += len({head})")
            self.write_append(head)

    def pack_holders(self, message: str, field: Field) -> None:
        """Write what adds a message whose last field is a list of messages that have a slice.

        Its length is known after them, so a place is reserved for its head.
        """
        source = self.source
        *before, last = fields_of(field.python_type)
        assert last.is_repeated, f"{last.name}: only a list is served here"
        head, total, place, element = source.fresh("b"), source.fresh("t"), source.fresh("i"), source.fresh("m")
        self.pack_body(head, message, before)
        source.line(f"{total} = len({head})")
        source.line(f"{place} = len(parts)")
        self.write_append(head)
        with source.block(f"for {element} in {message}.{last.name}:"):
            self.pack_slices(element, last, total)
        source.line(f"parts[{place}] = {_tag(field)} + varint({total}) + {head}")
