"""The part of PromQL that the dashboard and the alert rules use, as trees. What is not in it is refused.

`promql_parser` reads an expression; of what it knows, no offsets, subqueries, `bool`, `group_left` or strings besides
matchers are accepted here. Prometheus' own parser holds the same expressions in `tests/integration/test_promql.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import promql_parser as promql

AGGREGATIONS: Final = frozenset({"sum", "min", "max", "avg", "count"})
FUNCTIONS: Final = frozenset(
    {"rate", "increase", "changes", "max_over_time", "avg_over_time", "histogram_quantile", "absent", "clamp_min"}
)
_MATCH_OPERATORS: Final = {
    int(promql.MatchOp.Equal): "=",
    int(promql.MatchOp.NotEqual): "!=",
    int(promql.MatchOp.Re): "=~",
    int(promql.MatchOp.NotRe): "!~",
}


class PromqlError(ValueError):
    """An expression that is none, or none of those that are understood here."""


@dataclass(slots=True, frozen=True)
class Number:
    value: float


@dataclass(slots=True, frozen=True)
class Matcher:
    label: str
    operator: str
    value: str


@dataclass(slots=True, frozen=True)
class Selector:
    """`range_s` is 0 for an instant."""

    name: str
    matchers: tuple[Matcher, ...] = ()
    range_s: int = 0


@dataclass(slots=True, frozen=True)
class Call:
    function: str
    arguments: tuple[Expression, ...]


@dataclass(slots=True, frozen=True)
class Aggregation:
    operation: str
    labels: tuple[str, ...]
    is_without: bool
    argument: Expression


@dataclass(slots=True, frozen=True)
class Binary:
    """`matching`: of both sides the labels that have to be the same; None: all, or (`is_ignoring`) all but these."""

    operator: str
    left: Expression
    right: Expression
    matching: tuple[str, ...] | None = None
    is_ignoring: bool = False


Expression: TypeAlias = Number | Selector | Call | Aggregation | Binary


def parse(text: str) -> Expression:
    """The tree of an expression. Raises PromqlError."""
    try:
        return _tree(promql.parse(text))
    except ValueError as error:
        raise PromqlError(f"{text}: {error}") from None


def selectors(expression: Expression) -> list[Selector]:
    """All that are in it."""
    match expression:
        case Number():
            return []
        case Selector():
            return [expression]
        case Call():
            return [each for argument in expression.arguments for each in selectors(argument)]
        case Aggregation():
            return selectors(expression.argument)
        case Binary():
            return selectors(expression.left) + selectors(expression.right)


def _tree(node: Any) -> Expression:
    """Raises ValueError for what is not understood here."""
    match node:
        case promql.NumberLiteral():
            return Number(node.val)
        case promql.ParenExpr():
            return _tree(node.expr)
        case promql.VectorSelector():
            return _selector(node, 0)
        case promql.MatrixSelector():
            return _selector(node.vector_selector, int(node.range.total_seconds()))
        case promql.Call() if node.func.name in FUNCTIONS:
            return Call(node.func.name, tuple(map(_tree, node.args)))
        case promql.AggregateExpr() if str(node.op) in AGGREGATIONS:
            labels = tuple(node.modifier.labels) if node.modifier else ()
            is_without = node.modifier is not None and node.modifier.type == promql.AggModifierType.Without
            return Aggregation(str(node.op), labels, is_without, _tree(node.expr))
        case promql.BinaryExpr():
            return _binary(node)
        case _:
            raise ValueError(f"{node} is not understood here")


def _selector(node: Any, range_s: int) -> Selector:
    if node.offset is not None or node.at is not None or node.matchers.or_matchers:
        raise ValueError(f"{node} is not understood here")
    matchers = tuple(Matcher(each.name, _MATCH_OPERATORS[int(each.op)], each.value) for each in node.matchers.matchers)
    return Selector(node.name, matchers, range_s)


def _binary(node: Any) -> Binary:
    left, right, modifier = _tree(node.lhs), _tree(node.rhs), node.modifier
    if modifier is None:
        return Binary(str(node.op), left, right)
    if modifier.return_bool or modifier.group_labels is not None:
        raise ValueError(f"{node} is not understood here")
    if modifier.matching is None:
        return Binary(str(node.op), left, right)
    is_ignoring = modifier.matching.type == promql.LabelModifierType.Exclude
    return Binary(str(node.op), left, right, tuple(modifier.matching.labels), is_ignoring)
