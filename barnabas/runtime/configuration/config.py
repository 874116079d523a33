"""Kafka-style configuration: properties file, then environment, then `--set`, validated against a service's struct.

A service declares a `msgspec.Struct`; its field `num_network_threads` is the key `num.network.threads` (another key by
`msgspec.field(name="…")`), its annotation gives type and bounds (`Annotated[int, msgspec.Meta(ge=1)]`, or those of the
table of keys: `Annotated[int, bounds("num.network.threads")]`), its default the default. Lists are separated by commas,
as in Kafka.

- A file has Java's properties syntax, in UTF-8 (a cut: Kafka's are Latin-1 with escapes, which are read too). It may be
  one of Kafka's, with keys of all services in it: each key without effect in this one is logged in a line.
- `BARNABAS_NUM_NETWORK_THREADS` in the environment sets a key. Names that are not keys are ignored there, as Kubernetes
  puts its own into every pod (`BARNABAS_GATEWAY_SERVICE_HOST`).
- A field whose key ends with "." holds all keys that begin so, by the rest of their names.
- An unknown key is an error that names the nearest known one: a typo must not become a default.
"""

from __future__ import annotations

import argparse
import difflib
import os
import platform
import re
import sys
import typing
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, NoReturn, TypeVar

import msgspec

from barnabas import __version__
from barnabas.cluster.broker_config_keys import BROKER_KEYS
from barnabas.cluster.config_description import Setting
from barnabas.cluster.config_values import Range
from barnabas.cores import running
from barnabas.runtime.configuration.kafka_properties import Notice, prefix_of, sort_out, why_not_here
from barnabas.runtime.configuration.properties import parse_properties
from barnabas.runtime.logs import get_logger

S = TypeVar("S", bound=msgspec.Struct)

_ENVIRONMENT_PREFIX: Final = "BARNABAS_"

_log = get_logger("config")


class ConfigError(ValueError):
    """One line that names the key, the value and what is allowed."""


@dataclass(slots=True, frozen=True)
class Loaded(Generic[S]):
    """A service's configuration, each key as it started, and keys of its files without effect, for the log."""

    config: S
    settings: dict[str, Setting]
    notices: list[Notice]

    def log_start(self) -> None:
        """Log what runs, and a warning for each key without effect: call it when logging is configured."""
        _log.info("starting", version=__version__, cores=running(), python=platform.python_version())
        for notice in self.notices:
            _log.warning("a key has no effect", key=notice.key, reason=notice.reason, limit_key=notice.key)


def load_config(struct_type: type[S], argv: Sequence[str], *, program: str) -> Loaded[S]:
    """Load the configuration of `program` from its arguments (`--config FILE`, `--set KEY=VALUE`) and environment.

    On an error, print one line to standard error and exit with 2.
    """
    try:
        arguments = _parser(struct_type, program).parse_args(argv)
        values: dict[str, tuple[str, str]] = {}
        notices: list[Notice] = []
        for path in arguments.config:
            useful, without_effect = sort_out(_read_file(path), _fields_by_key(struct_type))
            values |= {key: (value, path) for key, value in useful.items()}
            notices += without_effect
        values |= _from_environment(struct_type, os.environ)
        values |= dict(_assignment(text) for text in arguments.set)
        config = build_config(struct_type, values)
        return Loaded(config, settings_of(config, values.keys()), notices)
    except ConfigError as error:
        print(f"{program}: {error}", file=sys.stderr)
        sys.exit(2)


def build_config(struct_type: type[S], values: Mapping[str, tuple[str, str]]) -> S:
    """Build the struct from `values`: by key the text and where it was set. Raises ConfigError."""
    fields = _fields_by_key(struct_type)
    converted: dict[str, Any] = {}
    for key, (text, origin) in values.items():
        field = fields.get(key)
        prefix = prefix_of(key, fields)
        if prefix is not None:
            converted.setdefault(fields[prefix].name, {})[key.removeprefix(prefix)] = text
            continue
        if field is None:
            raise ConfigError(f"unknown key {key} ({origin}){_hint(key, fields)}")
        converted[field.name] = _convert(key, text, field.type, origin)
    for key, field in fields.items():
        if field.required and field.name not in converted:
            raise ConfigError(f"{key} is not set and has no default")
    try:
        return struct_type(**converted)
    except (ValueError, TypeError) as error:
        # From __post_init__, in which a service checks keys against each other.
        raise ConfigError(str(error)) from error


def bounds(key: str) -> msgspec.Meta:
    """Return the bounds of a broker key as `BROKER_KEYS` declares them, for the annotation of a service's field."""
    declared = BROKER_KEYS[key].validator
    assert isinstance(declared, Range), f"{key}: no bounds"
    low = declared.low if declared.exception is None else min(declared.low or 0, declared.exception)
    return msgspec.Meta(ge=low, le=declared.high)


def settings_of(config: msgspec.Struct, given: Collection[str]) -> dict[str, Setting]:
    """Return each key as text; what is empty by default is unset. A value derived from another key counts as given."""
    settings: dict[str, Setting] = {}
    for key, field in _fields_by_key(type(config)).items():
        if key.endswith("."):
            continue
        value = _text(getattr(config, field.name))
        default = None if field.required else _text(_default(field)) or None
        is_given = key in given or (value or None) != default
        settings[key] = Setting(value if key in given else value or None, default, is_given)
    return settings


def _hint(key: str, fields: Collection[str]) -> str:
    reason = why_not_here(key)
    if reason is not None:
        return f": {reason}"
    nearest = difflib.get_close_matches(key, fields, n=1)
    return f"; did you mean {nearest[0]}?" if nearest else ""


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
        if name in environment and not key.endswith("."):
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
    """Describe what the field accepts; msgspec reports types and bounds, but not the choices."""
    bare_type = _without_annotation(field_type)
    if typing.get_origin(bare_type) is typing.Literal:
        return f"expected one of {', '.join(map(str, typing.get_args(bare_type)))}"
    reason = str(error).removesuffix(", got `str`").replace(" | null`", "`")
    return reason[:1].lower() + reason[1:]


def _without_annotation(field_type: Any) -> Any:
    return typing.get_args(field_type)[0] if typing.get_origin(field_type) is typing.Annotated else field_type


class _OneLineParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)


def _parser(struct_type: type[msgspec.Struct], program: str) -> argparse.ArgumentParser:
    keys = [
        f"  {key}" + ("…" if key.endswith(".") else "  (required)" if field.required else f" = {_shown(field)}")
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
    return _text(_default(field)) or ""


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default_factory() if field.default is msgspec.NODEFAULT else field.default


def _text(value: Any) -> str | None:
    """Return the text as it would be in a file; None is unset."""
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case list() | tuple():
            return ",".join(map(str, value))
        case _:
            return str(value)
