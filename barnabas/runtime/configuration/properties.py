"""Java's properties syntax, which Kafka's `server.properties` is written in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Java's properties syntax: comments by `#` or `!`; `=`, `:` or blanks after the key; a last `\\` continues on the
    next line.
    """
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        position = 0
        while position < len(line) and line[position] not in "=: \t\f":
            position += 2 if line[position] == "\\" else 1
        key, rest = line[:position], line[position:].lstrip(" \t\f")
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(" \t\f")
        properties[_unescape(key)] = _unescape(rest)
    return properties


def _logical_lines(text: str) -> Iterator[str]:
    """Yield lines without comments and blanks, with continuations joined."""
    joined = ""
    for line in re.split(r"\r\n|\n|\r", text):
        natural = line.lstrip(" \t\f")
        if not joined and (not natural or natural[0] in "#!"):
            continue
        joined += natural
        if (len(joined) - len(joined.rstrip("\\"))) % 2:
            joined = joined[:-1]
            continue
        yield joined
        joined = ""
    if joined:
        yield joined


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        escape = match[1]
        return chr(int(escape[1:], 16)) if len(escape) == 5 else _ESCAPED.get(escape, escape)

    return _ESCAPE.sub(replace, text)
