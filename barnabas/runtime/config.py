"""Kafka-style configuration: properties file, then environment, then `--set`, checked against a struct of the service.

A service declares a `msgspec.Struct`; its field `num_network_threads` is the key `num.network.threads` (another key by
`msgspec.field(name="…")`), its annotation says type and bounds (`Annotated[int, msgspec.Meta(ge=1)]`), its default the
default. Lists are separated by commas, as Kafka's are.

- A file has Java's properties syntax, in UTF-8 (a cut: Kafka's are Latin-1 with escapes, which are read too).
- `BARNABAS_NUM_NETWORK_THREADS` in the environment sets a key. Names that are no key are ignored there, as Kubernetes
  puts its own into every pod (`BARNABAS_GATEWAY_SERVICE_HOST`).
- Anywhere else an unknown key is an error that names the nearest known one: a typo must not become a default.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import msgspec

S = TypeVar("S", bound=msgspec.Struct)

_ENVIRONMENT_PREFIX: Final = "BARNABAS_"
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class ConfigError(ValueError):
    """One line that names the key, the value and what is allowed."""


def load_config(struct_type: type[S], argv: Sequence[str], *, program: str) -> S:
    """The configuration of `program` by its arguments (`--config FILE`, `--set KEY=VALUE`) and environment.

    On an error one line goes to standard error and the process exits with 2.
    """
    try:
        arguments = _parser(struct_type, program).parse_args(argv)
        values: dict[str, tuple[str, str]] = {}
        for path in arguments.config:
            values |= {key: (value, path) for key, value in _read_file(path).items()}
        values |= _from_environment(struct_type, os.environ)
        values |= dict(_assignment(text) for text in arguments.set)
        return build_config(struct_type, values)
    except ConfigError as error:
        print(f"{program}: {error}", file=sys.stderr)
        sys.exit(2)


def build_config(struct_type: type[S], values: Mapping[str, tuple[str, str]]) -> S:
    """The struct of `values`: by key the text and where it was set. Raises ConfigError."""
    fields = _fields_by_key(struct_type)
    converted: dict[str, Any] = {}
    for key, (text, origin) in values.items():
        field = fields.get(key)
        if field is None:
            nearest = difflib.get_close_matches(key, fields, n=1)
            hint = f"; did you mean {nearest[0]}?" if nearest else ""
            raise ConfigError(f"unknown key {key} ({origin}){hint}")
        converted[field.name] = _convert(key, text, field.type, origin)
    for key, field in fields.items():
        if field.required and field.name not in converted:
            raise ConfigError(f"{key} is not set and has no default")
    try:
        return struct_type(**converted)
    except (ValueError, TypeError) as error:
        # From __post_init__, where a service checks keys against each other.
        raise ConfigError(str(error)) from error


def parse_properties(text: str) -> dict[str, str]:
    """Java's properties syntax: comments by `#` or `!`; `=`, `:` or blanks after the key; a last `\\` goes on below."""
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
    """Lines without comments and blanks, joined where they go on."""
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


def _read_file(path: str) -> dict[str, str]:
    try:
        return parse_properties(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"cannot read {path}: byte {error.start} is not UTF-8") from error


def _assignment(text: str) -> tuple[str, tuple[str, str]]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise ConfigError(f"--set takes KEY=VALUE, not {text!r}")
    return key.strip(), (value.strip(), "--set")


def _from_environment(struct_type: type[msgspec.Struct], environment: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    values: dict[str, tuple[str, str]] = {}
    for key in _fields_by_key(struct_type):
        name = _environment_name(key)
        if name in environment:
            values[key] = (environment[name], name)
    return values


def _environment_name(key: str) -> str:
    return _ENVIRONMENT_PREFIX + re.sub(r"[^A-Za-z0-9]", "_", key).upper()


def _fields_by_key(struct_type: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    return {
        field.encode_name if field.encode_name != field.name else field.name.replace("_", "."): field
        for field in msgspec.structs.fields(struct_type)
    }


def _convert(key: str, text: str, field_type: Any, origin: str) -> Any:
    value: Any = text
    if typing.get_origin(_without_annotation(field_type)) in (list, tuple):
        value = [item.strip() for item in text.split(",")] if text.strip() else []
    try:
        return msgspec.convert(value, field_type, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{key}={text} ({origin}): {_allowed(field_type, error)}") from None


def _allowed(field_type: Any, error: msgspec.ValidationError) -> str:
    """What the field takes; msgspec tells types and bounds, but not the choices."""
    bare_type = _without_annotation(field_type)
    if typing.get_origin(bare_type) is typing.Literal:
        return f"expected one of {', '.join(map(str, typing.get_args(bare_type)))}"
    reason = str(error).removesuffix(", got `str`")
    return reason[:1].lower() + reason[1:]


def _without_annotation(field_type: Any) -> Any:
    return typing.get_args(field_type)[0] if typing.get_origin(field_type) is typing.Annotated else field_type


class _OneLineParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)


def _parser(struct_type: type[msgspec.Struct], program: str) -> argparse.ArgumentParser:
    keys = [
        f"  {key}" + ("  (required)" if field.required else f" = {_shown(field)}")
        for key, field in sorted(_fields_by_key(struct_type).items())
    ]
    parser = _OneLineParser(
        prog=program,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="keys and defaults:\n" + "\n".join(keys),
        allow_abbrev=False,
    )
    parser.add_argument("--config", metavar="FILE", action="append", default=[], help="a properties file")
    parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="set one key")
    return parser


def _shown(field: msgspec.structs.FieldInfo) -> str:
    default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    match default:
        case bool():
            return str(default).lower()
        case list() | tuple():
            return ",".join(map(str, default))
        case _:
            return str(default)
