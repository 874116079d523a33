"""The levels of single loggers: inherited from the names above, changed while the process runs, at no cost."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import orjson
import pytest
import structlog

from barnabas.runtime.logs import LoggerLevels, configure_logging, get_logger

_STANDARD = "a library's"


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture
def output() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def levels(output: io.StringIO) -> LoggerLevels:
    return configure_logging("test", "info", stream=output)


above, below, other = get_logger("levels"), get_logger("levels.below"), get_logger("levelled")


def events(output: io.StringIO) -> list[str]:
    return [orjson.loads(line)["event"] for line in output.getvalue().splitlines()]


def ours(levels: LoggerLevels) -> dict[str, str]:
    names = ("root", "levels", "levels.below", "levelled")
    return {name: level for name, level in levels.levels().items() if name in names}


def test_a_level_applies_to_a_logger_and_those_below_it_from_now_on(levels: LoggerLevels, output: io.StringIO) -> None:
    below.debug("before")
    levels.change({"levels": "DEBUG"})
    for log in (above, below, other):
        log.debug("debug")
    assert ours(levels) == {"root": "INFO", "levelled": "INFO", "levels": "DEBUG", "levels.below": "DEBUG"}
    levels.change({"levels.below": "ERROR"})
    above.debug("above")
    below.warning("below")
    levels.change({"levels": None})
    above.debug("after")
    assert ours(levels) == {"root": "INFO", "levelled": "INFO", "levels": "INFO", "levels.below": "ERROR"}
    levels.change({"levels.below": None})
    below.info("info")
    assert events(output) == ["debug", "debug", "above", "info"]


def test_the_roots_level_is_that_of_all_without_one(levels: LoggerLevels, output: io.StringIO) -> None:
    levels.change({"root": "ERROR", "levels": "INFO"})
    other.warning("other")
    above.info("above")
    levels.change({"root": "TRACE"})
    other.debug("debug")
    assert ours(levels) == {"root": "TRACE", "levelled": "TRACE", "levels": "INFO", "levels.below": "INFO"}
    levels.change({"root": "FATAL"})
    other.error("nothing is fatal")
    assert events(output) == ["above", "debug"]


def test_a_logger_that_is_new_has_the_level_of_the_name_above(levels: LoggerLevels, output: io.StringIO) -> None:
    levels.change({"levels": "DEBUG"})
    get_logger("levels.late").debug("late")
    assert events(output) == ["late"]
    assert levels.levels()["levels.late"] == "DEBUG"


def test_libraries_have_the_roots_level_and_are_not_listed(levels: LoggerLevels, output: io.StringIO) -> None:
    logging.getLogger(_STANDARD).warning("one")
    assert _STANDARD not in levels.levels()
    levels.change({"root": "ERROR"})
    logging.getLogger(_STANDARD).warning("two")
    levels.change({"root": "DEBUG"})
    logging.getLogger(_STANDARD).info("chatter")
    assert events(output) == ["one"]


@pytest.mark.parametrize(("configured", "level"), [("debug", "DEBUG"), ("warning", "WARN"), ("error", "ERROR")])
def test_the_roots_level_is_at_first_the_configured_one(configured: Any, level: str, output: io.StringIO) -> None:
    assert configure_logging("test", configured, stream=output).levels()["root"] == level


def test_followers_get_all_levels_that_loggers_have_of_their_own(levels: LoggerLevels) -> None:
    followed: list[dict[str, str]] = []
    levels.follow(lambda own: followed.append(dict(own)))
    levels.change({"levels": "DEBUG"})
    levels.change({"levels": None, "root": "WARN"})
    assert followed == [{"root": "INFO", "levels": "DEBUG"}, {"root": "WARN"}]
    other_process = LoggerLevels()
    other_process.replace(followed[0])
    assert ours(other_process)["levels.below"] == "DEBUG"


def instructions_of(write: Callable[[], None]) -> int:
    counted = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal counted
        frame.f_trace_opcodes = True
        counted += event == "opcode"
        return trace

    traced_before = sys.gettrace()
    sys.settrace(trace)
    try:
        write()
    finally:
        sys.settrace(traced_before)
    return counted


@pytest.mark.parametrize("level", ["INFO", "WARN"], ids=["the root's level", "a level of its own"])
def test_a_line_that_is_not_written_costs_no_more_than_with_one_level_for_all(levels: LoggerLevels, level: str) -> None:
    """In instructions of the interpreter: a count, which no other load disturbs."""
    levels.change({"levels.below": level})
    write = lambda: below.debug("no", number=1)  # noqa: E731
    write()
    chosen = instructions_of(write)
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(io.StringIO()),
    )
    write()
    assert 0 < chosen <= instructions_of(write)
