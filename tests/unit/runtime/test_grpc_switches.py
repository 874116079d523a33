"""gRPC between hosts, without its event engine: how often threads wait for a message, which no other load adds to."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc.aio

import barnabas.runtime
from barnabas.runtime.loop.event_loop import EventLoop
from barnabas.runtime.rpc import create_channel
from tests.unit.runtime.grpc_echo import METHOD, SERVICE

MESSAGES = 300
SWITCHES_MAX = 5.5
"""Of one end, for a message sent and one received: 4.3 without the event engine, 7.0 with it."""


def switches_of(pid: int) -> int:
    """How often its threads have given up the processor to wait."""
    lines = [line for status in Path(f"/proc/{pid}/task").glob("*/status") for line in status.read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


@contextmanager
def echo_server(**environment: str) -> Iterator[tuple[int, int]]:
    """Its pid and its port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.unit.runtime.grpc_echo"],
        stdout=subprocess.PIPE,
        env=os.environ | {"BARNABAS_LANE": "off"} | environment,
    )
    try:
        assert process.stdout is not None
        yield process.pid, int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


async def switches_per_message(port: int, pid: int) -> float:
    async with create_channel(f"127.0.0.1:{port}", None) as channel:
        call = channel.stream_stream(f"/{SERVICE}/{METHOD}", None, None)(None)

        async def converse() -> None:
            for _ in range(MESSAGES):
                await call.write(bytes(200))
                assert await call.read() is not grpc.aio.EOF  # type: ignore[attr-defined] # the stubs are older

        await converse()
        before = switches_of(pid)
        await converse()
        switches = switches_of(pid) - before
        call.cancel()
    return switches / MESSAGES


def test_a_message_costs_few_switches_between_threads() -> None:
    with echo_server() as (pid, port), asyncio.Runner(loop_factory=EventLoop) as runner:
        assert runner.run(switches_per_message(port, pid)) <= SWITCHES_MAX


def test_grpc_knows_the_experiments_that_are_switched_off() -> None:
    """A release that has renamed or removed one ignores it, and says so in a line that its verbosity hides."""
    said = subprocess.run(
        [sys.executable, "-c", "import barnabas.runtime.rpc as rpc; rpc.create_server('127.0.0.1:0')"],
        env=os.environ | {"GRPC_VERBOSITY": "ERROR", "GRPC_EXPERIMENTS": barnabas.runtime.WITHOUT_EVENT_ENGINE},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "experiment" not in said.stderr
