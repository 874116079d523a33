"""Write the codecs of frequent messages out, so that they are compiled with the cores.

A codec is otherwise made when it is first used, by executing text, and then runs interpreted. The text of both is
made by `barnabas.wire.decoding` and `barnabas.wire.encoding`; here it has types.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.decoding import DECODER_NAMES, write_decoder
from barnabas.wire.encoding import ENCODER_NAMES, write_encoder
from barnabas.wire.frequent_codecs import codec_name
from barnabas.wire.messages import MESSAGES
from barnabas.wire.primitives import ZERO_UUID
from barnabas.wire.source import Source

FREQUENT = (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_COMMIT, ApiKey.HEARTBEAT)
"""What clients send all the time. The classes of their messages are compiled, all others are not."""

FREQUENT_MODULES = {f"barnabas/wire/messages/{key.name.lower()}.py" for key in FREQUENT}


def codecs_text() -> str:
    """Return what is appended to `barnabas/wire/frequent_codecs.py`: requests are decoded, responses encoded."""
    source = Source({**DECODER_NAMES, **ENCODER_NAMES}, is_typed=True)
    tables: dict[str, list[str]] = {"DECODERS": [], "ENCODERS": []}
    for key in FREQUENT:
        request, response = MESSAGES[key]
        for version in range(key.schema_versions.first, key.schema_versions.last + 1):
            for way, message, table in (("decode", request, "DECODERS"), ("encode", response, "ENCODERS")):
                name = f"{way}_{key.name.lower()}_{version}"
                write = write_decoder if way == "decode" else write_encoder
                write(source, name, message, version, key.is_flexible(version))
                tables[table].append(f"    {codec_name(message, version)!r}: {name},")
    lines = ["", "", *_globals(source), "", source.text()]
    for table, rows in tables.items():
        lines += [f"{table}.update({{", *rows, "})"]
    return "\n".join(lines) + "\n"


def _globals(source: Source) -> Iterator[str]:
    yield "from struct import Struct, error as struct_error"
    yield f"from barnabas.wire.messages import {', '.join(key.name.lower() for key in FREQUENT)}"
    for name, value in source.names.items():
        if name == "struct_error":
            continue
        if isinstance(getattr(value, "__self__", None), Struct):
            yield f"{name}: Final = Struct({value.__self__.format!r}).{value.__name__}"
        elif value == ZERO_UUID:
            yield f"{name}: Final = {value!r}"
        elif name.startswith("default_"):
            yield f"{name}: Final = {source.message_class(type(value))}()"
        else:
            yield f"from barnabas.wire.primitives import {_defined_name(name, value)}"


def _defined_name(name: str, value: Any) -> str:
    defined = getattr(value, "__name__", name)
    return name if defined == name else f"{defined} as {name}"
