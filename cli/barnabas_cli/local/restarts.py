"""What the supervisor has done, summed up for operators."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from barnabas.supervisor.restart_events import DIED, FAILED, RESTARTED, RestartEvent, read_restart_events
from barnabas_cli.formatting import moment
from barnabas_cli.local import processes
from barnabas_cli.local.layout import ClusterDirectory
from barnabas_cli.local.supervision import restart_events_path, supervisor_identity

RECENT_MS = 3_600_000
"""Restarts in the last hour are reported."""
REPEATED_MS = 600_000
REPEATED = 5
"""A service that is restarted so often in ten minutes does not get over what ends it: a problem, not an incident."""


class Supervised(StrEnum):
    UP = "up"
    DOWN = "down"
    """There was one, which has died."""
    OFF = "off"
    """The cluster was started without, or is stopped."""


@dataclass(slots=True, frozen=True)
class SupervisorStatus:
    state: Supervised
    pid: int | None


@dataclass(slots=True, frozen=True)
class Restarts:
    """Those of one service in the last hour."""

    count: int
    repeated: int
    """How many of them in the last ten minutes."""
    last_ms: int
    """Of the last death or attempt to start it."""
    last_why: str
    """How it ended last, or why it can't be started, with the end of its log if that may say why."""


def supervisor_status(directory: ClusterDirectory) -> SupervisorStatus:
    identity = supervisor_identity(directory)
    if identity is None:
        return SupervisorStatus(Supervised.OFF, None)
    if not processes.is_alive(identity):
        return SupervisorStatus(Supervised.DOWN, None)
    return SupervisorStatus(Supervised.UP, identity.pid)


def recent_restarts(directory: ClusterDirectory, now_ms: int) -> dict[str, Restarts]:
    """Return the restarts of the last hour by service, without services that have not died."""
    return restarts_of(read_restart_events(restart_events_path(directory)), now_ms)


def restarts_of(events: list[RestartEvent], now_ms: int) -> dict[str, Restarts]:
    recent = [event for event in events if now_ms - event.time_ms < RECENT_MS]
    found = {}
    for name in dict.fromkeys(event.service for event in recent):
        own = [event for event in recent if event.service == name]
        restarted = [event for event in own if event.what == RESTARTED]
        ended = [event for event in own if event.what in (DIED, FAILED)]
        repeated = sum(now_ms - event.time_ms < REPEATED_MS for event in restarted)
        last = ended[-1] if ended else own[-1]
        found[name] = Restarts(len(restarted), repeated, last.time_ms, reason_of(last))
    return found


def reason_of(event: RestartEvent) -> str:
    """Return what an event says for one line."""
    match event.what:
        case "died":
            return f"{event.why}; last log line: {event.last_line}" if event.last_line else event.why
        case "failed":
            return f"can't be started: {event.why}"
        case _:
            return f"started again as pid {event.pid}"


def notices_of(restarts: dict[str, Restarts]) -> list[str]:
    """Restarts that are over: the services run, and an operator should know."""
    return [
        f"{name} was restarted {_times(each.count)} in the last hour, last at {moment(each.last_ms)} UTC: "
        f"{each.last_why}"
        for name, each in restarts.items()
        if each.count and each.repeated < REPEATED
    ]


def problems_of(restarts: dict[str, Restarts]) -> list[str]:
    return [
        f"{name} keeps dying: restarted {_times(each.repeated)} in ten minutes, last at {moment(each.last_ms)} UTC: "
        f"{each.last_why}"
        for name, each in restarts.items()
        if each.repeated >= REPEATED
    ]


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
