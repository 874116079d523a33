"""Write out what mypyc leaves to Python of a dataclass: `__init__` and `__eq__` become methods that it compiles.

    @dataclass(slots=True)                      @dataclass(init=False, eq=False)
    class Range:                                class Range:
        first: int                                  first: int
        last: int = 0                               last: int = 0
                                                    def __init__(self, first: int, last: int = 0) -> None: …
                                                    def __eq__(self, other: object) -> bool: …

`dataclass` still makes `__repr__`, what `replace` and `fields` need, and for a frozen class `__eq__` and `__hash__`. A
class of mypyc has slots anyway; that a frozen one is not changed, the type checker found in the plain source. The
methods are written into the blank lines behind the class, so that every other line keeps its number.

A field that `barnabas.wire.schema.wire` declares has the default that `wire` gives it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from barnabas.wire.schema import DEFAULTS

_ALLOWED_OPTIONS = {"slots", "frozen", "eq"}
_ALLOWED_FIELD_OPTIONS = {"default", "default_factory", "init", "repr"}
_EMPTY = {"list": "[]", "dict": "{}"}


class UnknownForm(Exception):  # noqa: N818 - a message for who has written the class
    """A dataclass that this can't write out; the message says where and why."""


@dataclass(slots=True, frozen=True)
class _Field:
    name: str
    annotation: str
    default: str | None
    factory: str | None
    is_argument: bool

    @property
    def parameter(self) -> str:
        if self.factory is not None and self._is_none_given:
            return f"{self.name}: {self.annotation} | tuple[()] = ()"
        if self.factory is not None:
            return f"{self.name}: {self.annotation} | None = None"
        return f"{self.name}: {self.annotation}" + (f" = {self.default}" if self.default is not None else "")

    @property
    def value(self) -> str | None:
        """None: it has no value yet."""
        made = None if self.factory is None else _EMPTY.get(self.factory, f"({self.factory})()")
        if not self.is_argument:
            return self.default if made is None else made
        if made is None:
            return self.name
        is_missing = f"isinstance({self.name}, tuple)" if self._is_none_given else f"{self.name} is None"
        return f"{made} if {is_missing} else {self.name}"

    @property
    def _is_none_given(self) -> bool:
        """Whether None is a value, so that something else has to say that the argument is missing."""
        return self.annotation.endswith("| None")


def write_out(source: str, place: str) -> str:
    """Return the source with its dataclasses written out. `place` names it in errors."""
    lines = source.split("\n")
    shared: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            for decorator in node.decorator_list:
                if ast.unparse(decorator).startswith("dataclass"):
                    _write_out_class(lines, node, decorator, f"{place}:{node.lineno}")
                    shared += [
                        f'{node.name}.__dataclass_fields__.pop("{name}", None)' for name in _class_variables(node)
                    ]
    # Behind everything else, so that the numbers of all other lines stay.
    return "\n".join([*lines, *shared, ""] if shared else lines)


def _class_variables(node: ast.ClassDef) -> Iterator[str]:
    """Return the variables of the class itself: mypyc does not keep that they are none of its objects' fields, so that
    `dataclass` takes them for such, and `dataclasses.replace` gives them to the constructor.
    """
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and ast.unparse(each.annotation).startswith("ClassVar"):
            assert isinstance(each.target, ast.Name)
            yield each.target.id


def _write_out_class(lines: list[str], node: ast.ClassDef, decorator: ast.expr, place: str) -> None:
    options = _options(decorator, place)
    fields = list(_fields(node, place))
    own = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
    arguments = ", ".join(["self", *(each.parameter for each in fields if each.is_argument)])
    steps = [f"self.{each.name} = {each.value}" for each in fields if each.value is not None]
    steps += ["self.__post_init__()"] if "__post_init__" in own else []
    written = [f"def __init__({arguments}) -> None: {'; '.join(steps) or 'pass'}"]
    # With an `__eq__` of its own a class of mypyc has no hash, and what `dataclass` adds is taken away again.
    is_hashed = options.get("eq", True) and options.get("frozen", False)
    if options.get("eq", True) and not is_hashed and "__eq__" not in own:
        same = " and ".join([f"self.{each.name} == other.{each.name}" for each in fields]) or "True"
        written.append(f"def __eq__(self, other: object) -> bool: return isinstance(other, {node.name}) and {same}")
    made = "unsafe_hash=True" if is_hashed else "eq=False"
    _replace(lines, decorator, f"dataclass(init=False, {made})")
    assert node.end_lineno is not None
    for number, line in enumerate(written, node.end_lineno):
        # A file ends with one line break, so its last class may have less room than the others; nothing comes after it.
        if number >= len(lines):
            lines.append("")
        if lines[number].strip():
            raise UnknownForm(f"{place}: no blank line behind it")
        lines[number] = " " * (node.col_offset + 4) + line


def _options(decorator: ast.expr, place: str) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for keyword in decorator.keywords if isinstance(decorator, ast.Call) else ():
        if keyword.arg not in _ALLOWED_OPTIONS or not isinstance(keyword.value, ast.Constant):
            raise UnknownForm(f"{place}: an option of dataclass that is not known: {keyword.arg}")
        found[keyword.arg] = bool(keyword.value.value)
    return found


def _fields(node: ast.ClassDef, place: str) -> Iterator[_Field]:
    for each in node.body:
        if not isinstance(each, ast.AnnAssign) or ast.unparse(each.annotation).startswith("ClassVar"):
            continue
        assert isinstance(each.target, ast.Name)
        name, annotation, value = each.target.id, ast.unparse(each.annotation), each.value
        if isinstance(value, ast.Call) and ast.unparse(value.func) == "wire":
            yield _wire_field(name, annotation, value)
        elif isinstance(value, ast.Call) and ast.unparse(value.func) == "field":
            given = {keyword.arg: ast.unparse(keyword.value) for keyword in value.keywords}
            if not given.keys() <= _ALLOWED_FIELD_OPTIONS:
                raise UnknownForm(f"{place}: an option of field that is not known, of {name}")
            yield _Field(name, annotation, given.get("default"), given.get("default_factory"), "init" not in given)
        else:
            yield _Field(name, annotation, None if value is None else ast.unparse(value), None, True)


def _wire_field(name: str, annotation: str, call: ast.Call) -> _Field:
    """Return the field with the default that `wire` computes."""
    given = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
    kind = call.args[0]
    if "default" in given:
        return _Field(name, annotation, given["default"], None, True)
    if isinstance(kind, ast.List):
        return _Field(name, annotation, None, "list", True)
    if isinstance(kind, ast.Constant):
        return _Field(name, annotation, repr(DEFAULTS.get(str(kind.value), 0)), None, True)
    if "tag" in given or "nullable" in given:
        return _Field(name, annotation, "None", None, True)
    return _Field(name, annotation, None, ast.unparse(kind), True)


def _replace(lines: list[str], node: ast.expr, text: str) -> None:
    assert node.lineno == node.end_lineno, "a decorator in one line"
    line = lines[node.lineno - 1]
    lines[node.lineno - 1] = line[: node.col_offset] + text + line[node.end_col_offset :]


def open_to_subclasses(source: str, names: Sequence[str]) -> str:
    """Return the source with what lets interpreted classes have these as bases, in the blank lines before them."""
    lines = source.split("\n")
    imported = next(number for number, line in enumerate(lines) if line.startswith("from typing import "))
    lines[imported] = lines[imported].replace("import ", "import TYPE_CHECKING, ")
    for number, line in enumerate(lines):
        if line.startswith("class ") and line.removeprefix("class ").rstrip(":") in names:
            # mypyc reads the decorator and does not call it, so a process needs no mypy_extensions.
            lines[number - 2 : number] = [
                "if TYPE_CHECKING: from mypy_extensions import mypyc_attr",
                "@mypyc_attr(allow_interpreted_subclasses=True)",
            ]
    return "\n".join(lines)
