"""What a coordinator's log says is changed by the replay of its stores alone, live and at load (ADR 0042).

Other modules of the coordinators read it. Named here is where it is kept; a module that assigns to such an attribute,
or calls a method of its that changes it, would be a second mutator.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
COORDINATOR = ROOT / "services/logstore/barnabas_logstore/core/coordinator"
STORED = {
    "groups": frozenset(("stored", "offsets", "partitions", "_by_producer", "_by_group")),
    "transactions": frozenset(("transactions",)),
}
"""By kind, the attributes that have it: of `Group`, `TopicOffsets`, `PendingOffsets`, `TransactionStore`."""
ELSEWHERE = {"delayed_group_responses.py": "_by_group is what it holds back"}
CHANGING = frozenset(
    ("append", "clear", "pop", "popitem", "setdefault", "update", "add", "remove", "discard", "extend")
)


def changes_in(source: str, attributes: frozenset[str]) -> list[int]:
    """Return the lines that change an attribute of one of these names, unless it is made there: `__init__`."""
    return sorted(_changes(ast.parse(source), attributes, in_init=False))


def _changes(node: ast.AST, attributes: frozenset[str], *, in_init: bool) -> Iterator[int]:
    for child in ast.iter_child_nodes(node):
        is_init = child.name == "__init__" if isinstance(child, ast.FunctionDef) else in_init
        targets: list[ast.expr] = []
        if isinstance(child, ast.Assign | ast.Delete):
            targets = child.targets
        elif isinstance(child, ast.AugAssign | ast.AnnAssign):
            targets = [child.target]
        elif isinstance(child, ast.Call) and _is_changing(child.func, attributes):
            yield child.lineno
        for target in targets:
            if _is_of(target, attributes) and not (is_init and isinstance(target, ast.Attribute)):
                yield child.lineno
        yield from _changes(child, attributes, in_init=is_init)


def _is_changing(function: ast.expr, attributes: frozenset[str]) -> bool:
    """Whether it is a method that changes what such an attribute has."""
    return isinstance(function, ast.Attribute) and function.attr in CHANGING and _is_of(function.value, attributes)


def _is_of(expression: ast.expr, attributes: frozenset[str]) -> bool:
    """Whether it is such an attribute, or an element of one."""
    while isinstance(expression, ast.Subscript):
        expression = expression.value
    return isinstance(expression, ast.Attribute) and expression.attr in attributes


@pytest.mark.parametrize("kind", STORED)
def test_only_a_store_changes_what_is_stored(kind: str) -> None:
    found = {
        f"{path.name}:{line}"
        for path in (COORDINATOR / kind).glob("*.py")
        for line in changes_in(path.read_text(), STORED[kind])
        if path.name != "store.py" and path.name not in ELSEWHERE
    }
    assert not found


@pytest.mark.parametrize("kind", STORED)
def test_its_store_changes_all_of_it(kind: str) -> None:
    """Or the name of an attribute above is not that of the code any more."""
    source = (COORDINATOR / kind / "store.py").read_text()
    for name in STORED[kind]:
        assert changes_in(source, frozenset((name,))), name


@pytest.mark.parametrize(
    "change",
    [
        "group.stored = value",
        "group.offsets[topic] = offsets",
        "del group.offsets[topic]",
        "group.offsets.pop(topic)",
        "group.offsets[topic].partitions[3] = value",
        "group.offsets[topic].partitions.update(values)",
        "group.stored: object = value",
    ],
)
def test_a_change_is_seen(change: str) -> None:
    assert changes_in(f"def commit(group):\n    {change}\n", STORED["groups"]) == [2]


def test_what_is_made_is_no_change() -> None:
    source = "class Group:\n    def __init__(self):\n        self.offsets = {}\n"
    assert changes_in(source, STORED["groups"]) == []
