"""Logs: JSON or console lines with the service's name, and a bound on what repeats."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from barnabas.runtime.logs import RateLimit, configure_logging, get_logger


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def json_lines(output: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.getvalue().splitlines()]


def test_a_json_line_has_time_level_service_logger_and_values() -> None:
    output = io.StringIO()
    logger = get_logger("acceptor")
    configure_logging("gateway", "info", "json", stream=output)
    logger.info("connection accepted", listener="PLAINTEXT", connections=3, raw=b"\xff", peer=("::1", 5))
    (line,) = json_lines(output)
    assert list(line)[:5] == ["time", "level", "service", "logger", "event"]
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "service": "gateway",
        "logger": "acceptor",
        "event": "connection accepted",
        "listener": "PLAINTEXT",
        "connections": 3,
        "raw": "b'\\xff'",
        "peer": ["::1", 5],
    }


def test_a_console_line_is_for_people() -> None:
    output = io.StringIO()
    configure_logging("gateway", "info", "console", stream=output)
    get_logger("acceptor").warning("connection refused", connections=3)
    (line,) = output.getvalue().splitlines()
    assert "connection refused" in line
    assert "connections=3" in line


def test_lines_below_the_level_are_not_written() -> None:
    output = io.StringIO()
    configure_logging("gateway", "warning", "json", stream=output)
    logger = get_logger("acceptor")
    logger.debug("no")
    logger.info("no")
    logger.warning("yes")
    assert [line["event"] for line in json_lines(output)] == ["yes"]


def test_an_exception_is_written_in_one_line_with_its_traceback() -> None:
    output = io.StringIO()
    configure_logging("gateway", "info", "json", stream=output)
    try:
        raise RuntimeError("a bug")
    except RuntimeError:
        get_logger("acceptor").exception("it failed")
    (line,) = json_lines(output)
    assert "RuntimeError: a bug" in line["exception"]


def test_newlines_of_a_client_cannot_forge_a_line() -> None:
    output = io.StringIO()
    configure_logging("gateway", "info", "json", stream=output)
    get_logger("session").info("client", client_id='x"}\n{"event":"forged"}')
    assert len(json_lines(output)) == 1


def test_libraries_log_the_same_way() -> None:
    output = io.StringIO()
    configure_logging("gateway", "info", "json", stream=output)
    logging.getLogger("asyncio").error("Task exception %s", "x")
    logging.getLogger("asyncio").info("chatter")
    (line,) = json_lines(output)
    assert (line["logger"], line["level"], line["event"]) == ("asyncio", "error", "Task exception x")


class Limited:
    """A rate limit with a clock of its own."""

    def __init__(self, **bounds: int) -> None:
        self.now_ms = 0
        self.limit = RateLimit(now_ms=lambda: self.now_ms, **bounds)

    def passes(self, event: str, method: str = "warning", **values: Any) -> dict[str, Any] | None:
        try:
            return dict(self.limit(None, method, {"event": event, **values}))
        except structlog.DropEvent:
            return None


def test_a_repeated_warning_is_written_a_few_times_and_then_counted() -> None:
    limited = Limited(burst=3, window_ms=1000)
    assert sum(limited.passes("bad frame") is not None for _ in range(100)) == 3
    limited.now_ms = 1000
    assert limited.passes("bad frame") == {"event": "bad frame", "suppressed": 97}
    assert limited.passes("bad frame") == {"event": "bad frame"}


def test_each_key_has_a_limit_of_its_own() -> None:
    limited = Limited(burst=1)
    assert limited.passes("bad frame")
    assert limited.passes("bad batch")
    assert not limited.passes("bad frame")
    assert limited.passes("1.2.3.4 sent nonsense", limit_key="nonsense") == {"event": "1.2.3.4 sent nonsense"}
    assert not limited.passes("1.2.3.5 sent nonsense", limit_key="nonsense")


def test_what_is_not_a_warning_is_limited_only_when_asked() -> None:
    limited = Limited(burst=1)
    assert all(limited.passes("topic created", "info") for _ in range(10))
    assert [bool(limited.passes("closed", "info", limit_key="closed")) for _ in range(3)] == [True, False, False]


def test_a_client_that_makes_up_keys_is_limited_too() -> None:
    limited = Limited(burst=2, window_ms=1000, keys_max=10)
    assert sum(limited.passes(f"event {number}") is not None for number in range(500)) == 12
    limited.now_ms = 5000
    assert limited.passes("event 499")
