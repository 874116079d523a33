"""Which classes are read by their annotations, and a refusal of those of them that are compiled.

A decoder of msgspec and the conversion from protobuf take a class's fields from its annotations. mypyc keeps an
annotation only if it is a plain class: `list[Segment]` becomes `list`, `Kind | None` becomes `type`. What is decoded by
such a class has values of other types, which is a TypeError where they are used, or worse.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import typing
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

KEPT: Final = frozenset({bool, bytes, float, int, str})
"""The annotations of a compiled class that mypyc keeps and decoders understand."""

_BY_FIRST_ARGUMENT: Final = frozenset({"from_proto", "from_proto_in_steps", "Decoder", "get_type_hints"})
_BY_SECOND_ARGUMENT: Final = frozenset({"convert"})
_MODULES: Final = ("msgspec", "msgpack", "json", "typing")
GIVEN: Final[Mapping[str, str]] = {
    "barnabas_cli/commands/kubernetes.py": "barnabas_cli.kubernetes",
    "barnabas/cluster/json_values.py": "barnabas.cluster",
    "barnabas/runtime/configuration/config.py": "barnabas.runtime.configuration",
    "barnabas/runtime/membership.py": "barnabas.cluster",
    "barnabas/runtime/protobuf.py": "barnabas.cluster",
    "barnabas_controller/shell/membership.py": "barnabas.cluster",
    "barnabas_gateway/shell/logstore_calls.py": "barnabas.cluster",
    "barnabas_gateway/shell/processor_ipc.py": "barnabas.cluster",
    "barnabas_logstore/shell/administration.py": "barnabas.cluster",
}
"""Modules that read a class which they are given, and the package whose classes these are: all of them are checked."""
_NEVER: Final = frozenset({"pickle", "marshal", "shelve", "copyreg"})
"""Modules that restore objects without their constructors: nothing that is compiled or not needs them."""


class ErasedAnnotationError(Exception):
    """A compiled class is read by annotations that the binary does not have."""


@dataclasses.dataclass(slots=True, frozen=True)
class Reading:
    """A place in the sources that reads a class by its annotations; `expression` names the class there."""

    file: str
    line: int
    expression: str


def readings_of(source: str, file: str) -> Iterator[Reading]:
    """Return each call of a module that reads a class by its annotations. Raises ErasedAnnotationError for `pickle`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = {each.name for each in node.names} | ({node.module} if isinstance(node, ast.ImportFrom) else set())
            if names & _NEVER:
                imported = ", ".join(sorted(str(name) for name in names & _NEVER))
                raise ErasedAnnotationError(f"{file}:{node.lineno}: it imports {imported}")
        if isinstance(node, ast.Call):
            expression = _class_read(node)
            if expression is not None:
                yield Reading(file, node.lineno, ast.unparse(expression))


def _class_read(call: ast.Call) -> ast.expr | None:
    owner, name = _called(call.func)
    if owner is not None and owner not in _MODULES:
        return None
    for keyword in call.keywords:
        if keyword.arg == "type" and name in ("decode", "convert", "Decoder"):
            return keyword.value
    if name in _BY_FIRST_ARGUMENT and call.args:
        return call.args[0]
    if name in _BY_SECOND_ARGUMENT and owner == "msgspec" and len(call.args) > 1:
        return call.args[1]
    return None


def _called(function: ast.expr) -> tuple[str | None, str]:
    """Return the name before the last dot, if there is one, and the name behind it."""
    if isinstance(function, ast.Attribute):
        return ast.unparse(function.value).rpartition(".")[2], function.attr
    return None, function.id if isinstance(function, ast.Name) else ""


def check_annotations(files: Mapping[str, Path], compiled: Collection[str]) -> None:
    """Raise ErasedAnnotationError if a class is read by annotations that the binary would not have.

    `files` are all modules of the product by their path in a wheel, `compiled` the names of those that are compiled.
    """
    packages = set[str]()
    problems: list[str] = []
    for file, path in sorted(files.items()):
        for reading in readings_of(path.read_text(), file):
            try:
                kind = eval(reading.expression, vars(importlib.import_module(_module_of(file))).copy())
            except NameError:
                if file not in GIVEN:
                    raise ErasedAnnotationError(
                        f"{file}:{reading.line}: it is not known which class {reading.expression} is: "
                        "name the package whose classes it may be in GIVEN of scripts/compiled/annotations.py"
                    ) from None
                packages.add(GIVEN[file])
                continue
            problems += [f"{file}:{reading.line}: {problem}" for problem in refused(kind, compiled)]
    for file in sorted(files):
        module = _module_of(file)
        if any(f"{module}.".startswith(f"{package}.") for package in packages):
            problems += [problem for kind in _classes_of(module) for problem in refused(kind, compiled)]
    if problems:
        raise ErasedAnnotationError(
            "what is compiled has no such annotations; leave these modules interpreted "
            "(INTERPRETED of scripts/compiled/sources.py):\n" + "\n".join(problems)
        )


def _module_of(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _classes_of(module: str) -> Iterator[type]:
    for each in vars(importlib.import_module(module)).values():
        if isinstance(each, type) and each.__module__ == module and _has_fields(each):
            yield each


def _has_fields(kind: Any) -> bool:
    return dataclasses.is_dataclass(kind) or (isinstance(kind, type) and issubclass(kind, msgspec.Struct))


def refused(kind: Any, compiled: Collection[str]) -> Iterator[str]:
    """Return, for each compiled class that `kind` consists of, the fields whose annotations are lost."""
    seen = set[Any]()
    waiting = [kind]
    while waiting:
        each = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        waiting += [part for part in typing.get_args(each) if not isinstance(part, list)]
        if not _has_fields(each):
            continue
        hints = typing.get_type_hints(each, include_extras=True)
        waiting += hints.values()
        lost = [name for name, hint in hints.items() if hint not in KEPT] if each.__module__ in compiled else []
        if lost:
            yield f"{each.__module__}.{each.__qualname__} ({', '.join(lost)})"
