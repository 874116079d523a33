"""Prometheus' own parser takes every expression of the dashboard and the alert rules (and refuses what is none)."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.observability.test_observability import panel_expressions, rules

PROGRAM = Path(__file__).parent / "promql"
BUILD_S_MAX = 600

pytestmark = [
    pytest.mark.timeout(BUILD_S_MAX + 60),
    pytest.mark.deep,
    pytest.mark.minutes(
        "Prometheus is compiled where it never was; tests/unit/observability asks the parser of promql-parser"
    ),
]

Refused = Callable[[list[str]], str]


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Refused:
    """What the parser says of the expressions that it refuses. Skips where it can't be built."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("there is no Go")
    binary = tmp_path_factory.mktemp("promql") / "promql"
    built = subprocess.run(
        [go, "build", "-o", str(binary), "."], cwd=PROGRAM, capture_output=True, text=True, timeout=BUILD_S_MAX
    )
    if built.returncode:
        pytest.skip(f"the parser can't be built: {built.stderr.strip().splitlines()[-1:]}")

    def ask(expressions: list[str]) -> str:
        asked = subprocess.run([str(binary)], input="\n".join(expressions), capture_output=True, text=True, timeout=60)
        return asked.stdout

    return ask


def test_every_expression_is_prometheus_own(refused: Refused) -> None:
    assert refused([*panel_expressions(), *(rule["expr"] for rule in rules())]) == ""


def test_the_parser_can_refuse(refused: Refused) -> None:
    assert "parse error" in refused(["sum("])
