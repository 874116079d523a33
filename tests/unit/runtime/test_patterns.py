"""Patterns of clients: what RE2/J makes of them, and hostile ones, which cost a bounded time and memory."""

from __future__ import annotations

import pytest

from barnabas.ports.patterns import PATTERN_CHARACTERS_MAX
from barnabas.runtime.patterns import compile_pattern
from tests.compat.pattern_cases import CASES, INVALID


@pytest.mark.parametrize(("pattern", "matching", "others"), CASES, ids=[repr(case[0]) for case in CASES])
def test_the_whole_text_has_to_match(pattern: str, matching: tuple[str, ...], others: tuple[str, ...]) -> None:
    matches = compile_pattern(pattern)
    assert matches is not None
    assert [text for text in matching if not matches(text)] == []
    assert [text for text in others if matches(text)] == []


@pytest.mark.parametrize("pattern", INVALID, ids=repr)
def test_what_is_no_pattern_of_re2_is_refused(pattern: str) -> None:
    assert compile_pattern(pattern) is None


@pytest.mark.parametrize(
    "pattern",
    [
        "a" * (PATTERN_CHARACTERS_MAX + 1),
        "(.{1,100}){1,100}",
        "((a{100}){10}){10}",
        r"(\pL{30}){30}",
        "|".join(f"(?i)[^{chr(code)}]{{9}}" for code in range(0x400, 0x500)),
    ],
    ids=["long", "copies", "nested copies", "copies of large classes", "alternatives"],
)
def test_a_pattern_that_is_too_large_is_refused(pattern: str) -> None:
    assert compile_pattern(pattern) is None


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|aa)+c", "(.*)*(.*)*(.*)*x", "(a?){100}a{100}b", ".*a.{60}c"])
def test_no_pattern_takes_exponential_time(pattern: str) -> None:
    """With backtracking each of them would run for years."""
    matches = compile_pattern(pattern)
    assert matches is not None
    assert not matches("a" * 2_000)


def test_a_pattern_of_the_greatest_length_is_compiled() -> None:
    half = PATTERN_CHARACTERS_MAX // 2
    for pattern, text in (("|".join(["x" * 15] * (half // 8)), "x" * 15), ("(" * half + ")" * half, "")):
        matches = compile_pattern(pattern)
        assert matches is not None
        assert matches(text)
