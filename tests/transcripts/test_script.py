"""What transcripts are held to, each broken once: a check that never fails would make all of them worthless."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.transcripts.controller.interpreter import ControllerInterpreter
from tests.transcripts.logstore.interpreter import LogstoreInterpreter
from tests.transcripts.script import Command, Interpreter, ScriptError, difference, milliseconds, run, transcripts

LED = "lead orders-0 leader=1 epoch=0\n----\nok\n"


class Echo:
    """Says its arguments, a line each."""

    def run(self, command: Command) -> list[str]:
        return [*command.arguments, *command.texts("words")]


def test_the_output_of_a_run_takes_the_place_of_what_was_recorded() -> None:
    text = "# A rule.\n\necho one two\necho words=[three]\n----\nfour\n\n# An end.\n"
    actual = run(text, Echo())
    assert actual == "# A rule.\n\necho one two\necho words=[three]\n----\none\ntwo\nthree\n\n# An end.\n"
    assert run(actual, Echo()) == actual, "what was rewritten passes"


def test_a_difference_shows_both_sides() -> None:
    shown = difference(Path("rule.txt"), "echo one\n----\ntwo\n", "echo one\n----\none\n")
    assert "rule.txt differs" in shown
    assert shown.splitlines()[-2:] == ["-two", "+one"]


@pytest.mark.parametrize("interpreter", [LogstoreInterpreter, ControllerInterpreter])
def test_an_unknown_verb_is_an_error(interpreter: type[Interpreter]) -> None:
    with pytest.raises(ScriptError, match="line 3: there is no command 'juggle'"):
        run("# A rule.\n\njuggle orders-0\n----\nok\n", interpreter())


def test_an_unknown_option_is_an_error() -> None:
    with pytest.raises(ScriptError, match="line 1: echo has no option loud"):
        run("echo one loud=true\n----\none\n", Echo())


def test_a_block_without_its_separator_is_an_error() -> None:
    with pytest.raises(ScriptError, match="line 1: ---- is missing"):
        run("echo one\n\necho two\n----\ntwo\n", Echo())
    with pytest.raises(ScriptError, match="---- without a command"):
        run("----\ntwo\n", Echo())


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match="there are no transcripts"):
        transcripts(tmp_path)


@pytest.mark.parametrize("value", ["epoch=new", "replicas=1", "isr=[1"])
def test_a_value_of_another_kind_is_an_error(value: str) -> None:
    with pytest.raises(ScriptError, match="line 1: "):
        run(f"lead orders-0 leader=1 {value}\n----\nok\n", LogstoreInterpreter())


def test_durations() -> None:
    parsed = [milliseconds(each) for each in ("5ms", "10s", "2m", "1h", "7d")]
    assert parsed == [5, 10_000, 120_000, 3_600_000, 604_800_000]
    with pytest.raises(ScriptError, match="10 is no duration"):
        milliseconds("10")


def test_what_the_log_has_is_output() -> None:
    text = run(f"{LED}\nproduce shop orders-0 values=[a,b] acks=1\n----\n", LogstoreInterpreter())
    assert text.splitlines()[-2:] == ["  orders-0 @0..1 [a,b] leader-epoch=0", "shop Produce -> NONE offset=0"]
