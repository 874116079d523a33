"""Each transcript in `testdata` leads to the output that it records.

One states one rule of Kafka's, for readers who know Kafka and not this code. Its first folder says what is driven.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.transcripts.controller.interpreter import ControllerInterpreter
from tests.transcripts.logstore.interpreter import LogstoreInterpreter
from tests.transcripts.script import Interpreter, difference, run, transcripts

TESTDATA = Path(__file__).with_name("testdata")
INTERPRETERS: dict[str, Callable[[], Interpreter]] = {
    "controller": ControllerInterpreter,
    "groups": LogstoreInterpreter,
    "replica": LogstoreInterpreter,
    "transactions": LogstoreInterpreter,
}
ALL = transcripts(TESTDATA)


def area_of(path: Path) -> str:
    return path.relative_to(TESTDATA).parts[0]


@pytest.mark.parametrize("path", ALL, ids=lambda path: f"{area_of(path)}/{path.stem}")
def test_a_transcript_leads_to_what_it_records(path: Path, pytestconfig: pytest.Config) -> None:
    expected = path.read_text()
    actual = run(expected, INTERPRETERS[area_of(path)]())
    if pytestconfig.getoption("--rewrite", default=False):
        path.write_text(actual)
    elif actual != expected:
        pytest.fail(difference(path, expected, actual), pytrace=False)


def test_each_area_has_transcripts() -> None:
    assert {area_of(path) for path in ALL} == set(INTERPRETERS)


@pytest.mark.parametrize("path", ALL, ids=lambda path: f"{area_of(path)}/{path.stem}")
def test_a_transcript_begins_with_its_rule(path: Path) -> None:
    """And has no byte that an editor would show as another one."""
    text = path.read_text()
    assert text.startswith("# ")
    assert text.isascii()
