"""Patterns of transactional ids (KIP-1152): RE2/J, with which Kafka matches them, and Barnabas say the same of each."""

from __future__ import annotations

import base64
import random
from typing import Final

import pytest

from barnabas.runtime.patterns import compile_pattern
from tests.compat.pattern_cases import CASES, INVALID
from tests.integration.kafka_tools import KafkaTools

pytestmark = [pytest.mark.integration, pytest.mark.java, pytest.mark.deep]

RANDOM_PATTERNS: Final = 5_000
PATTERNS_PER_RUN: Final = 500
_ATOMS: Final = (
    *("a", "b", "A", "é", "ſ", "K", ".", "-", "_", "0", " ", "#", "|", "^", "$", r"\A", r"\z", r"\b", r"\B"),
    *(r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", r"\pL", r"\p{Greek}", r"\PL", r"\p{^L}", r"\p{Lu}", r"\pN", r"\p{Any}"),
    *("[a-c]", "[^a]", "[[:alpha:]]", "[[:^digit:]]", r"[\d-]", r"[a\]]", "[]a]", "[^]a]", "[a-]", r"[\pL]", "[a&&b]"),
    *(r"\.", r"\Q.*\E", r"\n", r"\x41", r"\x{263a}", r"\012", r"\a", r"\-", r"\Q\E", r"\E", "\n", "\U0001f600", "\0"),
    *("(?i)", "(?s)", "(?m)", "(?U)", "(?-s)", "(", ")", "[", "(?=a)", r"\1", r"\Z", r"\p{Foo}"),
)
_REPETITIONS: Final = (
    "",
    "",
    "",
    "",
    "",
    "",
    "*",
    "+",
    "?",
    "*?",
    "+?",
    "??",
    "{2}",
    "{0}",
    "{1,2}",
    "{2,}",
    "**",
    "+?+",
)
_CHARACTERS: Final = "abAéſsSKk\u212a.-_07 \nα\U0001f600#{}[]\\EQ☺\0B"


def of_re2j(tools: KafkaTools, cases: list[tuple[str, list[str]]]) -> list[str]:
    """Return for each pattern "invalid", or for each of its texts + where it matches and - where it does not."""
    found: list[str] = []
    for first in range(0, len(cases), PATTERNS_PER_RUN):
        arguments = [
            ",".join(base64.b64encode(each.encode()).decode() for each in (pattern, *texts))
            for pattern, texts in cases[first : first + PATTERNS_PER_RUN]
        ]
        found += tools.output("Patterns", *arguments).splitlines()
    return found


def of_barnabas(pattern: str, texts: list[str]) -> str:
    matches = compile_pattern(pattern)
    return "invalid" if matches is None else "".join("+" if matches(text) else "-" for text in texts)


def random_pattern(source: random.Random, depth: int = 0) -> str:
    parts = []
    for _ in range(source.randint(1, 4)):
        if depth < 3 and source.random() < 0.25:
            # RE2 does not mind two groups of one name.
            group = source.choice(["(", "(?:", "(?i:", f"(?P<x{source.randrange(10**9)}>"])
            atom = f"{group}{random_pattern(source, depth + 1)})"
        else:
            atom = source.choice(_ATOMS)
        parts.append(atom + source.choice(_REPETITIONS))
    return "".join(parts)


def test_the_cases_are_what_re2j_makes_of_them(kafka_tools: KafkaTools) -> None:
    cases = [(pattern, [*matching, *others]) for pattern, matching, others in CASES]
    expected = ["+" * len(matching) + "-" * len(others) for _, matching, others in CASES]
    assert of_re2j(kafka_tools, cases) == expected
    assert of_re2j(kafka_tools, [(pattern, []) for pattern in INVALID]) == ["invalid"] * len(INVALID)


def test_random_patterns_are_what_re2j_makes_of_them(kafka_tools: KafkaTools) -> None:
    source = random.Random(1152)
    cases = [
        (
            random_pattern(source),
            ["".join(source.choices(_CHARACTERS, k=source.choice((0, 1, 1, 2, 2, 3, 4)))) for _ in range(10)],
        )
        for _ in range(RANDOM_PATTERNS)
    ]
    theirs = of_re2j(kafka_tools, cases)
    differing = [
        (pattern, texts, found)
        for (pattern, texts), found in zip(cases, theirs, strict=True)
        if of_barnabas(pattern, texts) != found
    ]
    assert differing[:5] == []
    assert sum(found != "invalid" for found in theirs) > RANDOM_PATTERNS // 4
    assert sum("+" in found for found in theirs) > RANDOM_PATTERNS // 10
