"""Configuration keys and the parsing of their values: Kafka's ConfigDef, types, bounds and messages.

A key is data. `ConfigKey.parse` returns a Python value or says what is wrong in Kafka's words, `to_text` formats a
value as Kafka does. Deviation: NaN is not a number, and neither are Java's hexadecimal and suffixed floats.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from typing import Final, TypeAlias

INT16_MAX: Final = 2**15 - 1
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1

# A wrong value is quoted to its sender up to this length.
_SHOWN_MAX: Final = 100
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_DECIMAL: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")

Value: TypeAlias = int | float | bool | str | tuple[str, ...]
"""The types BOOLEAN, integers, DOUBLE and LIST have other values than text."""

Validator: TypeAlias = Callable[[Value], str | None]
"""Returns what is wrong with a value of the right type; None: nothing."""


class ConfigType(IntEnum):
    """Kafka's DescribeConfigsResponse.ConfigType, with its numbers."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class InvalidValue(Exception):  # noqa: N818  (a value on its way to the client who sent it)
    """The message for the client, whole."""


_WHOLE_NUMBER_MAX: Final = {ConfigType.SHORT: INT16_MAX, ConfigType.INT: INT32_MAX, ConfigType.LONG: INT64_MAX}


@dataclass(slots=True, frozen=True)
class ConfigKey:
    """One key. `default` is text; None: unset by default. A LIST with `choices` is a set of them."""

    name: str
    config_type: ConfigType
    default: str | None
    documentation: str
    validator: Validator | None = None
    choices: tuple[str, ...] = ()

    @property
    def is_sensitive(self) -> bool:
        return self.config_type is ConfigType.PASSWORD

    def parse(self, text: str) -> Value:
        """Raises InvalidValue with Kafka's message."""
        try:
            value = _parse(self.config_type, text)
        except ValueError as problem:
            raise InvalidValue(self._refusal(text, str(problem))) from None
        if isinstance(value, tuple) and "" in value:
            raise InvalidValue(f"Configuration '{self.name}' values must not be empty.")
        if self.choices:
            for each in value if isinstance(value, tuple) else (value,):
                if each not in self.choices:
                    raise InvalidValue(self._refusal(str(each), f"String must be one of: {', '.join(self.choices)}"))
            value = tuple(dict.fromkeys(value)) if isinstance(value, tuple) else value
        problem_found = self.validator(value) if self.validator is not None else None
        if problem_found is not None:
            raise InvalidValue(self._refusal(_java_text(value), problem_found))
        return value

    def problem(self, text: str) -> str | None:
        """Return what is wrong with a text, in Kafka's words; None if nothing is."""
        try:
            self.parse(text)
        except InvalidValue as problem:
            return str(problem)
        return None

    def normalized(self, text: str) -> str:
        """Return a valid text as Kafka shows it: trimmed, lists without blanks."""
        return to_text(self.parse(text))

    def _refusal(self, shown: str, problem: str) -> str:
        shown = "[hidden]" if self.is_sensitive else shown[:_SHOWN_MAX]
        return f"Invalid value {shown} for configuration {self.name}: {problem}"


def _parse(config_type: ConfigType, text: str) -> Value:
    trimmed = text.strip()
    match config_type:
        case ConfigType.BOOLEAN:
            if trimmed.lower() not in ("true", "false"):
                raise ValueError("Expected value to be either true or false")
            return trimmed.lower() == "true"
        case ConfigType.SHORT | ConfigType.INT | ConfigType.LONG:
            # Longer than any number in range: int() of a malicious string of digits takes quadratic time.
            limit = _WHOLE_NUMBER_MAX[config_type]
            if len(trimmed) > 64 or not _WHOLE.fullmatch(trimmed) or not -limit - 1 <= int(trimmed) <= limit:
                raise ValueError(f"Not a number of type {config_type.name}")
            return int(trimmed)
        case ConfigType.DOUBLE:
            if len(trimmed) > 400 or not _DECIMAL.fullmatch(trimmed):
                raise ValueError("Not a number of type DOUBLE")
            return float(trimmed)
        case ConfigType.LIST:
            return tuple(item.strip() for item in trimmed.split(",")) if trimmed else ()
        case ConfigType.STRING | ConfigType.CLASS | ConfigType.PASSWORD:
            return trimmed


def to_text(value: Value) -> str:
    """Format a value as Kafka's ConfigDef.convertToString does."""
    match value:
        case bool():
            return str(value).lower()
        case tuple():
            return ",".join(value)
        case float():
            return _double_text(value)
        case _:
            return str(value)


def _double_text(value: float) -> str:
    """Format as Java's Double.toString."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int), "neither infinite nor NaN"
    mantissa = f"{digits[0]}.{''.join(map(str, digits[1:])) or '0'}"
    return f"{'-' if sign else ''}{mantissa}E{exponent + len(digits) - 1}"


def _java_text(value: Value) -> str:
    """Format a value as Java prints it in a message."""
    return f"[{', '.join(value)}]" if isinstance(value, tuple) else to_text(value)


@dataclass(slots=True, frozen=True)
class Range:
    """A validator: Kafka's Range, and optionally one number outside of it that means a default."""

    low: float | None
    high: float | None = None
    exception: int | None = None

    def __call__(self, value: Value) -> str | None:
        assert isinstance(value, (int, float))
        if self.exception is not None:
            assert self.low is not None
            assert self.high is not None
            if self.low <= value <= self.high or value == self.exception:
                return None
            return f"Value must be between {self.low} and {self.high} or equal to {self.exception}"
        if self.low is not None and value < self.low:
            return f"Value must be at least {self.low}"
        if self.high is not None and value > self.high:
            return f"Value must be no more than {self.high}"
        return None
