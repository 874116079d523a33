"""Write the source of `barnabas.channel.generated.packing` from the fields that the data channel's messages declare.

`scripts/packing` writes the file; a unit test holds it to what this returns.
"""

from __future__ import annotations

from typing import Any, Final

from barnabas.channel import messages
from scripts.channel.packers import packer_text
from scripts.channel.scanners import enums_within, members_name, messages_within, nested_scanner_text, scanner_text

_STREAMS: Final = ("Exchange", "Read", "Replicate", "Coordinate", "Park", "Watch")
_DOCSTRING: Final = '''"""Pack and scan the messages of the data channel, byte-equal to protobuf (tests hold it).

Made by scripts/packing: do not edit. For each message M of a stream: `pack_m(message) -> bytes` and
`scan_m(data) -> M`, which raises MalformedMessage. `Buffer` fields of a scanned message are slices of `data`.
Why not protobuf: its objects copy on every read and refuse memoryview; 1 MB costs about 4.9 ms through them.
"""
'''
_PRIMITIVES: Final = (
    "SHORT_VARINTS",
    "MalformedMessage",
    "long_varint",
    "packed_ints",
    "packed_uints",
    "scan_string",
    "scan_varints",
    "signed32",
    "signed64",
    "skip_unknown",
    "truncated",
    "varint",
)


def packing_source() -> str:
    """Return the whole module."""
    roots = [getattr(messages, f"{stream}{way}") for stream in _STREAMS for way in ("Request", "Response")]
    nested = list(dict.fromkeys(each for root in roots for each in messages_within(root)))
    enums = list(dict.fromkeys(each for root in roots for each in enums_within(root)))
    functions = [nested_scanner_text(each) for each in nested]
    names: list[str] = []
    for root in roots:
        stream, way = _parts(root)
        names += [f"pack_{stream}_{way}", f"scan_{stream}_{way}"]
        functions += [packer_text(names[-2], root), scanner_text(names[-1], root)]
    body = "\n\n".join(functions)
    primitives = [name for name in _PRIMITIVES if name in body]
    lines = [_DOCSTRING, "from __future__ import annotations", "", "from typing import Any, Final", ""]
    lines += _imports({*roots, *nested, *enums})
    lines += _import("barnabas.channel.packing_primitives", primitives)
    lines += ["", "__all__ = ["]
    lines += [f'    "{name}",' for name in sorted(["MalformedMessage", *names])]
    lines += ["]", ""]
    lines += [f"{members_name(enum)}: Final = {{int(member): member for member in {enum.__name__}}}" for enum in enums]
    return "\n".join(lines) + "\n\n\n" + body


def _parts(message: type[Any]) -> tuple[str, str]:
    """Return the stream of a message and which way it goes, in lower case."""
    name = message.__name__
    way = "Request" if name.endswith("Request") else "Response"
    return name.removesuffix(way).lower(), way.lower()


def _imports(classes: set[type[Any]]) -> list[str]:
    by_module: dict[str, list[str]] = {}
    for each in classes:
        by_module.setdefault(each.__module__, []).append(each.__name__)
    return [line for module in sorted(by_module) for line in _import(module, by_module[module])]


def _import(module: str, names: list[str]) -> list[str]:
    return [f"from {module} import (", *(f"    {name}," for name in sorted(names)), ")"]


if __name__ == "__main__":
    print(packing_source(), end="")
