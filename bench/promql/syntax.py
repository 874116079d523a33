"""The part of PromQL that the dashboard and the alert rules use, as trees. What is not in it is refused.

Selectors with matchers and ranges; calls; aggregations with `by` or `without`; arithmetic, comparison and set operators
with `on` or `ignoring`. No offsets, subqueries, `group_left`, or strings besides matchers. Source: Prometheus' manual,
"Querying", whose own parser holds the same expressions in `tests/integration/test_promql.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

AGGREGATIONS: Final = frozenset({"sum", "min", "max", "avg", "count"})
FUNCTIONS: Final = {
    "rate": 1,
    "increase": 1,
    "max_over_time": 1,
    "avg_over_time": 1,
    "histogram_quantile": 2,
    "absent": 1,
    "clamp_min": 2,
}
"""With the number of their arguments."""
_LEVELS: Final = (("or",), ("and", "unless"), ("==", "!=", "<=", ">=", "<", ">"), ("+", "-"), ("*", "/", "%"))
"""Operators, those that bind least first."""
_TOKENS: Final = re.compile(
    r"""\s*(?:(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![a-z]))|(?P<range>\[\d+[smhd]\])
    |(?P<word>[A-Za-z_:][A-Za-z0-9_:]*)|(?P<string>"(?:[^"\\]|\\.)*")|(?P<sign>=~|!~|!=|==|<=|>=|[-+*/%<>=(){},]))""",
    re.VERBOSE,
)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


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
    """Raises PromqlError."""
    parser = _Parser(text)
    expression = parser.expression(0)
    if parser.kind:
        raise PromqlError(f"{text}: {parser.text!r} is too much")
    return expression


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


class _Parser:
    """By recursive descent. `kind` and `text` are the next token's, empty at the end."""

    def __init__(self, text: str) -> None:
        self._whole = text
        self._position = 0
        self.kind = self.text = ""
        self._advance()

    def _advance(self) -> str:
        taken = self.text
        rest = self._whole[self._position :]
        if not rest.strip():
            self.kind = self.text = ""
            return taken
        found = _TOKENS.match(rest)
        if found is None or found.lastgroup is None:
            raise PromqlError(f"{self._whole}: what is {rest.strip()!r}?")
        self.kind, self.text = found.lastgroup, found[found.lastgroup]
        self._position += found.end()
        return taken

    def _expect(self, text: str) -> None:
        if self.text != text:
            raise PromqlError(f"{self._whole}: {text!r} is expected, not {self.text!r}")
        self._advance()

    def expression(self, level: int) -> Expression:
        if level == len(_LEVELS):
            return self._operand()
        left = self.expression(level + 1)
        while self.text in _LEVELS[level] and self.kind != "string":
            operator = self._advance()
            matching: tuple[str, ...] | None = None
            is_ignoring = self.text == "ignoring"
            if self.text in ("on", "ignoring"):
                self._advance()
                matching = self._labels()
            left = Binary(operator, left, self.expression(level + 1), matching, is_ignoring)
        return left

    def _operand(self) -> Expression:
        if self.kind == "number":
            return Number(float(self._advance()))
        if self.text == "(":
            self._advance()
            inner = self.expression(0)
            self._expect(")")
            return inner
        if self.kind != "word":
            raise PromqlError(f"{self._whole}: {self.text!r} begins nothing")
        word = self._advance()
        if word in AGGREGATIONS:
            return self._aggregation(word)
        if self.text == "(":
            return self._call(word)
        return self._selector(word)

    def _aggregation(self, operation: str) -> Aggregation:
        labels: tuple[str, ...] = ()
        is_without = False
        is_grouped = self.text in ("by", "without")
        if is_grouped:
            is_without = self._advance() == "without"
            labels = self._labels()
        self._expect("(")
        argument = self.expression(0)
        self._expect(")")
        if not is_grouped and self.text in ("by", "without"):
            is_without = self._advance() == "without"
            labels = self._labels()
        return Aggregation(operation, labels, is_without, argument)

    def _call(self, function: str) -> Call:
        if function not in FUNCTIONS:
            raise PromqlError(f"{self._whole}: {function} is not known here")
        self._expect("(")
        arguments = [self.expression(0)]
        while self.text == ",":
            self._advance()
            arguments.append(self.expression(0))
        self._expect(")")
        if len(arguments) != FUNCTIONS[function]:
            raise PromqlError(f"{self._whole}: {function} takes {FUNCTIONS[function]}")
        return Call(function, tuple(arguments))

    def _selector(self, name: str) -> Selector:
        matchers: list[Matcher] = []
        if self.text == "{":
            self._advance()
            while self.text != "}":
                label, operator, value = self._advance(), self._advance(), self._advance()
                if operator not in ("=", "!=", "=~", "!~") or value[:1] != '"':
                    raise PromqlError(f"{self._whole}: {label}{operator}{value} is no matcher")
                matchers.append(Matcher(label, operator, value[1:-1].replace("\\\\", "\\")))
                if self.text == ",":
                    self._advance()
            self._advance()
        range_s = 0
        if self.kind == "range":
            text = self._advance()[1:-1]
            range_s = int(text[:-1]) * _SECONDS[text[-1]]
        return Selector(name, tuple(matchers), range_s)

    def _labels(self) -> tuple[str, ...]:
        self._expect("(")
        labels: list[str] = []
        while self.text != ")":
            labels.append(self._advance())
            if self.text == ",":
                self._advance()
        self._advance()
        return tuple(labels)
