"""The pure layers stay in the dialect that mypyc compiles; each rule is something that it refuses or gets wrong.

docs/adr/0028-compiled-cores.md has the measurement. What only mypyc itself can see (an attribute that a subclass
declares with a narrower class) is an error when it compiles.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from barnabas.cores import plain_path
from scripts.compiled.sources import COMPILED_FILES
from tests.releases import ROOT

PURE = (
    *(ROOT / "barnabas" / name for name in ("wire", "channel", "cluster", "ports", "metrics")),
    *(ROOT / f"services/{role}/barnabas_{role}/core" for role in ("controller", "gateway", "logstore", "purgatory")),
    *(plain_path(name) for name in COMPILED_FILES),
)
# Layers that stay interpreted, for what they are to msgspec and protobuf; their values may be numbers or booleans.
INTERPRETED = (ROOT / "barnabas/cluster", ROOT / "barnabas/metrics")
PRODUCTION = (ROOT / "barnabas", ROOT / "cli", ROOT / "services")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def modules(*places: Path) -> list[Path]:
    """Return the modules in these folders, and those named alone."""
    return sorted({path for place in places for path in (place.rglob("*.py") if place.is_dir() else (place,))})


def classes(*folders: Path) -> Iterator[tuple[Path, ast.ClassDef]]:
    for path in modules(*folders):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                yield path, node


def base_names(node: ast.ClassDef) -> set[str]:
    """Return its bases as they are written, without their type arguments."""
    bases = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
    return {ast.unparse(base) for base in bases}


def is_enum(node: ast.ClassDef) -> bool:
    return any(name.endswith(("Enum", "Flag")) for name in base_names(node))


def place(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"


def found(source: str) -> list[str]:
    """Return the rules that a module breaks, for the tests of the rules themselves."""
    tree = ast.parse(source)
    return [rule.__name__ for rule in RULES if any(True for _ in rule(tree))]


def imports_for_types_only(tree: ast.Module) -> Iterator[ast.AST]:
    """A dataclass's field of such a type is a crash at import."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "TYPE_CHECKING")


def borrowed_methods(tree: ast.Module) -> Iterator[ast.AST]:
    """`__hash__ = object.__hash__` is ignored, so that objects are equal by value. Enums are not compiled."""
    for each in ast.walk(tree):
        if isinstance(each, ast.ClassDef) and not is_enum(each):
            for node in each.body:
                if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("object."):
                    yield node


def fields_of_memoryview(tree: ast.Module) -> Iterator[ast.AST]:
    """A KeyError at import; `Buffer` says the same."""
    for each in ast.walk(tree):
        if not isinstance(each, ast.ClassDef):
            continue
        is_dataclass = any("dataclass" in ast.unparse(decorator) for decorator in each.decorator_list)
        if is_dataclass or "NamedTuple" in base_names(each):
            for node in each.body:
                if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "memoryview":
                    yield node


def class_keywords(tree: ast.Module) -> Iterator[ast.AST]:
    """`class A(B, key=…)`: the keyword does not reach `__init_subclass__`. Structs of msgspec stay interpreted."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.keywords and "msgspec.Struct" not in base_names(node):
            yield node


def numbers_joined_with_enums(tree: ast.Module) -> Iterator[ast.AST]:
    """`int | ErrorCode`: a member of an IntEnum is an `int`, so a plain number is kept, and
    `isinstance(outcome, ErrorCode)` is false. `int | bool` loses in the same way which of the two it was.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            members = {ast.unparse(each).rpartition(".")[2] for each in _joined(node)}
            if "int" in members and members & {"bool", *int_enums()}:
                yield node


def _joined(node: ast.expr) -> Iterator[ast.expr]:
    """Return the members of a union as it is written."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        yield from _joined(node.left)
        yield from _joined(node.right)
    else:
        yield node


@cache
def int_enums() -> frozenset[str]:
    return frozenset(node.name for _, node in classes(*PURE) if base_names(node) & {"IntEnum", "IntFlag"})


def kept_generators(tree: ast.Module) -> Iterator[ast.AST]:
    """A generator expression is made a list at once, except in `any`, `all`, `sum` and `next`: kept by a name, it is no
    iterator any more, and what takes only the first few of it pays for all.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name() | ast.Attribute()], value=ast.GeneratorExp()):
                yield node
            case ast.AnnAssign(value=ast.GeneratorExp()):
                yield node
            case ast.Return(value=ast.GeneratorExp()) | ast.NamedExpr(value=ast.GeneratorExp()):
                yield node
            case ast.Call(func=ast.Name(id="islice" | "takewhile" | "iter"), args=[*_, ast.GeneratorExp()]):
                yield node
            case ast.Call(func=ast.Name(id="islice" | "takewhile" | "iter"), args=[ast.GeneratorExp(), *_]):
                yield node


def errors_with_another_name(tree: ast.Module) -> Iterator[ast.AST]:
    """`except MalformedFrame as fault` where `fault` is also assigned in this function, or is the name of another type
    of error there: a name has one type, so that to catch it is a TypeError.
    """
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        inside = list(ast.walk(function))
        types = {
            node.id: "assigned" for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        for node in inside:
            if isinstance(node, ast.ExceptHandler) and node.name is not None:
                caught = "" if node.type is None else ast.unparse(node.type)
                if types.setdefault(node.name, caught) != caught:
                    yield node


def causes_of_errors(tree: ast.Module) -> Iterator[ast.AST]:
    """`error.__cause__` is None: `raise A from b` is compiled as `raise A`. Raised in the handler of `b`, it has that
    as its `__context__`; what decides by a cause keeps it in an attribute.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "__cause__" and isinstance(node.ctx, ast.Load):
            yield node


RULES = (
    imports_for_types_only,
    borrowed_methods,
    fields_of_memoryview,
    class_keywords,
    numbers_joined_with_enums,
    kept_generators,
    errors_with_another_name,
    causes_of_errors,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_pure_layers_keep(rule: object) -> None:
    assert callable(rule)
    folders = [folder for folder in PURE if rule is not numbers_joined_with_enums or folder not in INTERPRETED]
    assert [place(path, node) for path in modules(*folders) for node in rule(tree_of(path))] == []


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import a", "imports_for_types_only"),
        ("class A:\n    __hash__ = object.__hash__", "borrowed_methods"),
        ("class A(NamedTuple):\n    body: memoryview", "fields_of_memoryview"),
        ("@dataclass(slots=True)\nclass A:\n    body: memoryview", "fields_of_memoryview"),
        ("class A(B, api_key=1): ...", "class_keywords"),
        ("def a() -> int | ErrorCode: ...", "numbers_joined_with_enums"),
        ("a: dict[str, None | ErrorCode | int]", "numbers_joined_with_enums"),
        ("def a(b: errors.ErrorCode | int) -> None: ...", "numbers_joined_with_enums"),
        ("a: int | bool", "numbers_joined_with_enums"),
        ("a = (each for each in b)", "kept_generators"),
        (
            "def a():\n    b = c()\n    try:\n        d()\n    except E as b:\n        f()",
            "errors_with_another_name",
        ),
        (
            "def a():\n    try:\n        b()\n    except C as e:\n        d(e)\n    except D as e:\n        d(e)",
            "errors_with_another_name",
        ),
        ("cause = error.__cause__", "causes_of_errors"),
        ("def a(b: list[int]) -> Iterator[int]:\n    return (each for each in b)", "kept_generators"),
        ("a = islice((each for each in count()), 3)", "kept_generators"),
    ],
)
def test_a_rule_sees_what_breaks_it(source: str, rule: str) -> None:
    assert found(source) == [rule]


@pytest.mark.parametrize(
    "source",
    [
        "class A(IntEnum):\n    __hash__ = object.__hash__",
        "def a() -> int | Refused: ...",
        "def a() -> ErrorCode | None: ...",
        "a = ErrorCode.NONE | 1",
        "error.__cause__ = another",
        "a = next((each for each in b), None)",
        "a, b = (each.c for each in d)",
        "try:\n    a()\nexcept C as e:\n    d(e)\ntry:\n    a()\nexcept C as e:\n    d(e)",
        "def a():\n    try:\n        b()\n    except C as e:\n        d(e)\n    except D as f:\n        d(f)",
    ],
)
def test_what_the_rules_allow(source: str) -> None:
    assert found(source) == []


def names_of_others(path: Path) -> set[str]:
    """Return what a module imports from elsewhere: a class of that name is not ours."""
    imports = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.ImportFrom)]
    others = [each for each in imports if not (each.module or "").startswith("barnabas")]
    return {name.asname or name.name for each in others for name in each.names}


def test_no_interpreted_class_inherits_from_a_compiled_one() -> None:
    """That is a TypeError when the first object is made."""
    pure = {node.name for _, node in classes(*PURE) if not is_enum(node) and "Protocol" not in base_names(node)}
    outside = [
        (path, node)
        for path, node in classes(*PRODUCTION)
        if not any(path.is_relative_to(folder) for folder in PURE) and (base_names(node) - names_of_others(path)) & pure
    ]
    own = {node.name for path, node in classes(*PRODUCTION) if not any(path.is_relative_to(each) for each in PURE)}
    assert [place(path, node) for path, node in outside if base_names(node) & (pure - own)] == []


def test_no_dataclass_of_the_request_path_is_generic() -> None:
    """An AttributeError at import: what `Generic` adds to the class can't be put back. The controller's core is not in
    the path of a request.
    """
    controller = ROOT / "services/controller"
    assert [
        place(path, node)
        for path, node in classes(*PURE)
        if not path.is_relative_to(controller)
        and "Generic" in base_names(node)
        and any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)
    ] == []


def test_what_is_read_through_a_class_is_declared_as_its_own() -> None:
    """mypyc takes every other name of a class's body for an attribute of its objects."""
    of_objects: dict[str, set[str]] = {}
    for _, each in classes(*PURE):
        if is_enum(each) or base_names(each) & {"NamedTuple", "Protocol"} or each.decorator_list:
            continue
        for node in each.body:
            if isinstance(node, ast.AnnAssign) and not ast.unparse(node.annotation).startswith(("ClassVar", "Final")):
                of_objects.setdefault(each.name, set()).add(ast.unparse(node.target))
    read = [
        place(path, node)
        for path in modules(*PURE)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.attr in of_objects.get(node.value.id, ())
    ]
    assert read == []
