"""Expressions over what was scraped, at a time: the values of series, by their labels.

Like Prometheus', but for `rate`: the increase between the first and the last sample of the range, per second between
these two, not extrapolated to the range's ends.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from math import inf, isnan, nan
from typing import Final, assert_never

from bench.slow_hop.expressions import Aggregation, Binary, Call, Expression, Number, PromqlError, Selector
from bench.slow_hop.series import Labels, Scraped

Vector = dict[Labels, float]
Value = float | Vector

_ARITHMETIC: Final[dict[str, Callable[[float, float], float]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda left, right: left / right if right else (nan if not left or isnan(left) else inf),
    "%": lambda left, right: left % right if right else nan,
}
_COMPARISONS: Final[dict[str, Callable[[float, float], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


def evaluate(expression: Expression, scraped: Scraped, at_s: float) -> Value:
    match expression:
        case Number():
            return expression.value
        case Selector():
            return scraped.at(expression, at_s)
        case Call():
            return _call(expression, scraped, at_s)
        case Aggregation():
            return _aggregate(expression, _vector(evaluate(expression.argument, scraped, at_s)))
        case Binary():
            left, right = evaluate(expression.left, scraped, at_s), evaluate(expression.right, scraped, at_s)
            return _combine(expression, left, right)
        case _:
            assert_never(expression)


def _vector(value: Value) -> Vector:
    if not isinstance(value, dict):
        raise PromqlError("a number where series are expected")
    return value


def _call(call: Call, scraped: Scraped, at_s: float) -> Value:
    first = call.arguments[0]
    match call.function:
        case "rate" | "increase" | "changes" | "max_over_time" | "avg_over_time":
            if not isinstance(first, Selector) or not first.range_s:
                raise PromqlError(f"{call.function} takes a range")
            return _over_time(call.function, first, scraped, at_s)
        case "histogram_quantile":
            quantile = evaluate(first, scraped, at_s)
            assert not isinstance(quantile, dict)
            return _histogram_quantile(quantile, _vector(evaluate(call.arguments[1], scraped, at_s)))
        case "absent":
            return {} if _vector(evaluate(first, scraped, at_s)) else {frozenset(): 1.0}
        case "clamp_min":
            least = evaluate(call.arguments[1], scraped, at_s)
            assert not isinstance(least, dict)
            return {labels: max(least, value) for labels, value in _vector(evaluate(first, scraped, at_s)).items()}
        case unknown:
            raise PromqlError(f"{unknown} is not known here")


def _over_time(function: str, selector: Selector, scraped: Scraped, at_s: float) -> Vector:
    result: Vector = {}
    for labels, times, values in scraped.window(selector, at_s):
        if function == "max_over_time":
            result[labels] = max(values)
        elif function == "avg_over_time":
            result[labels] = sum(values) / len(values)
        elif function == "changes":
            result[labels] = float(sum(before != after for before, after in itertools.pairwise(values)))
        elif len(values) > 1:
            rate = increase_of(values) / (times[-1] - times[0])
            result[labels] = rate if function == "rate" else rate * selector.range_s
    return result


def increase_of(values: list[float]) -> float:
    """Of a counter; one that has fallen has begun from nothing."""
    return sum(after - before if after >= before else after for before, after in itertools.pairwise(values))


def _histogram_quantile(quantile: float, buckets: Vector) -> Vector:
    """By linear interpolation in the bucket that the quantile lies in, as Prometheus does it."""
    histograms: dict[Labels, list[tuple[float, float]]] = {}
    for labels, count in buckets.items():
        bound = next(text for label, text in labels if label == "le")
        rest = frozenset(each for each in labels if each[0] != "le")
        histograms.setdefault(rest, []).append((float(bound), count))
    result: Vector = {}
    for labels, counts in histograms.items():
        counts.sort()
        total = counts[-1][1]
        if not total or counts[-1][0] != inf:
            continue
        rank = quantile * total
        index = next(index for index, (_, count) in enumerate(counts) if count >= rank)
        if index == len(counts) - 1:
            result[labels] = counts[-2][0]
            continue
        low, below = counts[index - 1] if index else (0.0, 0.0)
        high, upto = counts[index]
        result[labels] = low + (high - low) * (rank - below) / (upto - below) if upto > below else high
    return result


def _aggregate(aggregation: Aggregation, vector: Vector) -> Vector:
    groups: dict[Labels, list[float]] = {}
    for labels, value in vector.items():
        kept = frozenset(each for each in labels if (each[0] in aggregation.labels) is not aggregation.is_without)
        groups.setdefault(kept, []).append(value)
    match aggregation.operation:
        case "sum":
            return {labels: sum(values) for labels, values in groups.items()}
        case "min":
            return {labels: min(values) for labels, values in groups.items()}
        case "max":
            return {labels: max(values) for labels, values in groups.items()}
        case "avg":
            return {labels: sum(values) / len(values) for labels, values in groups.items()}
        case "count":
            return {labels: float(len(values)) for labels, values in groups.items()}
        case unknown:
            raise PromqlError(f"{unknown} is not known here")


def _combine(binary: Binary, left: Value, right: Value) -> Value:
    if binary.operator in ("and", "or", "unless"):
        return _sets(binary, _vector(left), _vector(right))
    if isinstance(left, dict) and isinstance(right, dict):
        by_key = {_key(binary, labels): value for labels, value in right.items()}
        pairs = {
            labels: (value, by_key[_key(binary, labels)])
            for labels, value in left.items()
            if _key(binary, labels) in by_key
        }
        return _each(binary.operator, pairs, keeps_left=True)
    if isinstance(left, dict):
        assert not isinstance(right, dict)
        return _each(binary.operator, {labels: (value, right) for labels, value in left.items()}, keeps_left=True)
    if isinstance(right, dict):
        return _each(binary.operator, {labels: (left, value) for labels, value in right.items()}, keeps_left=False)
    if binary.operator in _COMPARISONS:
        return float(_COMPARISONS[binary.operator](left, right))
    return _ARITHMETIC[binary.operator](left, right)


def _each(sign: str, pairs: dict[Labels, tuple[float, float]], *, keeps_left: bool) -> Vector:
    """A comparison leaves out what is false of it; what it keeps is the series' own value."""
    if sign in _COMPARISONS:
        holds = _COMPARISONS[sign]
        return {labels: pair[0] if keeps_left else pair[1] for labels, pair in pairs.items() if holds(*pair)}
    return {labels: _ARITHMETIC[sign](*pair) for labels, pair in pairs.items()}


def _sets(binary: Binary, left: Vector, right: Vector) -> Vector:
    keys = {_key(binary, labels) for labels in right}
    if binary.operator == "and":
        return {labels: value for labels, value in left.items() if _key(binary, labels) in keys}
    if binary.operator == "unless":
        return {labels: value for labels, value in left.items() if _key(binary, labels) not in keys}
    own = {_key(binary, labels) for labels in left}
    return left | {labels: value for labels, value in right.items() if _key(binary, labels) not in own}


def _key(binary: Binary, labels: Labels) -> Labels:
    """What has to be the same on both sides."""
    if binary.matching is None:
        return labels
    return frozenset(each for each in labels if (each[0] in binary.matching) is not binary.is_ignoring)
