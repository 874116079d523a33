"""Thousands of connections, each of which produces a record now and then, by a process of their own for each side."""

from __future__ import annotations

import multiprocessing
import resource
import time
from functools import partial
from multiprocessing.connection import Connection as Pipe
from typing import Final, NamedTuple

from barnabas_cli.local.processes import raise_open_files_limit
from bench.accounting import CpuTime
from bench.groups.measurements import FORM_SECONDS_MAX, SETTLE_SECONDS, Beats, Meter
from bench.groups.swarm import Connection, Swarm
from bench.one_at_a_time import check_produced, connect_to_leader, produce_frame
from bench.sides import Side

EVERY_SECONDS: Final = 10.0
"""Between two requests of a connection."""
_OTHER_FILES: Final = 4_000
"""What a broker with connections may open besides: segments, indexes, sockets of its own."""
_CONNECTED_AT_ONCE: Final = 200


class Asked(NamedTuple):
    """What the connections of one side have seen in a sample."""

    answered: int
    p50_us: float
    p99_us: float


def connections_possible(wanted: int) -> int:
    """Raise the limit of open files for `wanted` connections, where that is permitted; return for how many it is."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OTHER_FILES
    if hard != resource.RLIM_INFINITY and hard < needed:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (needed, needed))
        except (ValueError, PermissionError):
            return max(0, hard - _OTHER_FILES)
    return wanted


class ManyConnections:
    """The connections of one side. Use `close` at the end."""

    def __init__(self, side: Side, count: int) -> None:
        """Return when all are connected."""
        connect_to_leader(side.bootstrap, 1).close()
        self._side = side
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_ask, args=(theirs, side.bootstrap, count), daemon=True)
        self._process.start()
        theirs.close()
        self._pipe.recv()

    def sample(self, seconds: float) -> tuple[Asked, CpuTime]:
        """What was answered, and the CPU of the side meanwhile."""
        self._pipe.send(seconds)
        self._pipe.recv()
        meter = Meter(self._side)
        self._pipe.recv()
        _, cpu, _ = meter.stop()
        asked: Asked = self._pipe.recv()
        return asked, cpu

    def close(self) -> None:
        self._pipe.send(None)
        self._process.join()


# --- in the connections' process --------------------------------------------------------------------------------------


def _ask(pipe: Pipe, bootstrap: str, count: int) -> None:
    """Connect, say so; then for each number of seconds that comes: ask so long, and say what was seen."""
    raise_open_files_limit()
    host, _, port = bootstrap.rpartition(":")
    with Swarm() as swarm:
        connections = []
        for number in range(count):
            connections.append(swarm.connect((host, int(port))))
            if number % _CONNECTED_AT_ONCE == 0:
                swarm.run_for(0.01)
        asking = _Asking(swarm, connections)
        pipe.send(None)
        while (seconds := pipe.recv()) is not None:
            pipe.send(asking.sample(seconds, pipe))


class _Asking:
    def __init__(self, swarm: Swarm, connections: list[Connection]) -> None:
        self._swarm = swarm
        self._frame = produce_frame(acks=1)
        self._took: list[float] = []
        self._unanswered = 0
        self._beats = Beats(swarm, [partial(self._produce, each) for each in connections], EVERY_SECONDS)

    def _produce(self, connection: Connection) -> None:
        asked_at = time.perf_counter()
        self._unanswered += 1

        def answered(frame: memoryview) -> None:
            self._took.append(time.perf_counter() - asked_at)
            self._unanswered -= 1
            check_produced(bytes(frame))

        connection.ask(self._frame, answered)

    def sample(self, seconds: float, pipe: Pipe) -> Asked:
        """Say when the sample begins, and when it is over."""
        self._beats.begin()
        self._swarm.run_for(1.0)
        self._took.clear()
        pipe.send(None)
        self._swarm.run_for(seconds)
        pipe.send(None)
        self._beats.end()
        self._swarm.run(lambda: not self._unanswered, FORM_SECONDS_MAX)
        self._swarm.run_for(SETTLE_SECONDS)
        took = sorted(self._took)
        return Asked(len(took), took[len(took) // 2] * 1e6, took[len(took) * 99 // 100] * 1e6)
