"""A change of levels reaches the logstore's other processes, those that are restarted included."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.runtime.logs import LoggerLevels, get_logger
from barnabas.runtime.metrics.security import MetricsSecurity
from barnabas_logstore import control
from barnabas_logstore.cleaner import CleanerHost
from barnabas_logstore.control import ControlListener
from barnabas_logstore.shell import cleaner_messages, cleaner_process, control_process
from barnabas_logstore.shell.cleaner_messages import CleanerSettings
from barnabas_logstore.shell.cleaner_process import CleanerProcess
from barnabas_logstore.shell.control_messages import Scraped
from barnabas_logstore.shell.control_process import ControlProcess

SETTINGS = CleanerSettings(1 << 20, 1 << 16, 1e9, "info", "json")
OWN = {"root": "WARN", "logstore": "DEBUG"}

get_logger("logstore")


class Child:
    """Stands in for a process: keeps what it is sent."""

    def __init__(self) -> None:
        self.messages = self
        self.sent: list[tuple[bytes, bytes]] = []

    def send(self, kind: bytes, payload: bytes = b"", fds: Any = ()) -> None:
        self.sent.append((kind, payload))


class Children:
    def __init__(self) -> None:
        self.started: list[Child] = []
        self.end_last: Callable[[int], None] = lambda _: None

    def spawn(self, _: str, __: Any, *, on_message: Any, on_exit: Callable[[int], None]) -> Child:
        self.end_last = on_exit
        self.started.append(Child())
        return self.started[-1]

    def levels_sent(self, kind: bytes) -> list[list[bytes]]:
        return [[payload for each, payload in child.sent if each == kind] for child in self.started]


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> Children:
    children = Children()
    for module in (control_process, cleaner_process):
        monkeypatch.setattr(module, "spawn", children.spawn)
    return children


def applied(take: Callable[[bytes, bytes, list[int]], None], kind: bytes, payload: bytes, levels: LoggerLevels) -> None:
    assert levels.levels()["logstore"] == "INFO"
    take(kind, payload, [])
    assert (levels.levels()["root"], levels.levels()["logstore"]) == ("WARN", "DEBUG")


async def test_the_control_process_has_the_levels_also_after_a_restart(
    children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_process, "RESTART_MS_MIN", 1)
    scraped = Scraped("1", MetricsSecurity())
    process = ControlProcess("127.0.0.1:0", (), lambda *_: None, scraped, None, lambda: None)
    process.listening.set_result(1)
    process.spawn()
    process.set_logger_levels(OWN)
    children.end_last(1)
    while len(children.started) < 2:
        await asyncio.sleep(0.001)
    first, second = children.levels_sent(control.LOGGER_LEVELS)
    assert first == second
    (payload,) = first
    levels = LoggerLevels()
    applied(ControlListener(levels)._on_parent_message, control.LOGGER_LEVELS, payload, levels)


async def test_the_cleaner_has_the_levels_also_when_it_is_started_later(children: Children) -> None:
    process = CleanerProcess(SETTINGS, lambda _: None, lambda: None)
    process.set_logger_levels({"root": "INFO"})
    process._spawn()
    process.set_logger_levels(OWN)
    children.end_last(1)
    process._spawn()
    first, second = children.levels_sent(cleaner_messages.LOGGER_LEVELS)
    assert len(first) == 2
    assert first[-1:] == second
    levels = LoggerLevels()
    applied(CleanerHost(SETTINGS, levels)._on_message, cleaner_messages.LOGGER_LEVELS, second[0], levels)
