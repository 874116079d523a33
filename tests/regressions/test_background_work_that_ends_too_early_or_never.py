"""Work of the background that ended without its end, or went on after it.

A kept task ended for good when a call or a task that it waited for was cancelled, and went on after its own
cancellation when something was raised on the way out: who waited for its end waited for ever. A child process that was
started with the last descriptors lived on, unknown to its parent. A transaction that changes of etcd's users have
overtaken was sent again at once, without an end.
"""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
from itertools import count
from typing import Any

import grpc.aio
import pytest

from barnabas.containment import Place, Scope
from barnabas.ports.etcd import EtcdRefused
from barnabas.runtime.etcd.client import EtcdClient
from barnabas.runtime.loop import background
from barnabas.runtime.loop.background import BackgroundTasks
from barnabas.runtime.processes.spawning import spawn
from tests.regressions.test_users_of_etcd import TXN, Etcd
from tests.unit.runtime.containment_counts import Counted
from tests.unit.runtime.test_processes import CHILD

LOOP = Place("test.kept", Scope.DUTY, "a loop")


async def test_a_loop_goes_on_when_what_it_waits_for_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "PAUSE_S_MIN", 0.001)
    counted, passes = Counted(), 0

    async def work() -> None:
        nonlocal passes
        passes += 1
        if passes <= 3:
            other = asyncio.ensure_future(asyncio.sleep(3600))
            other.cancel()
            await other

    kept = BackgroundTasks(LOOP).keep(work)
    await asyncio.wait([kept])
    assert (passes, kept.cancelled(), counted.at(LOOP)) == (4, False, 3)


async def test_a_loop_that_is_cancelled_ends_whatever_it_raises_on_its_way_out() -> None:
    counted, passes = Counted(), 0

    async def work() -> None:
        nonlocal passes
        passes += 1
        try:
            await asyncio.sleep(3600)
        finally:
            raise RuntimeError("a bug")

    tasks = BackgroundTasks(LOOP)
    kept = tasks.keep(work)
    await asyncio.sleep(0)
    await tasks.stop()
    assert (passes, kept.done(), counted.at(LOOP)) == (1, True, 1)


async def test_a_child_that_can_not_be_watched_does_not_live_on(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Popen(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            started.append(self)

    def out_of_descriptors(_pid: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(subprocess, "Popen", Popen)
    monkeypatch.setattr(os, "pidfd_open", out_of_descriptors)
    with pytest.raises(OSError, match="Too many open files"):
        spawn(CHILD, on_message=lambda *_: None, on_exit=lambda _: None)
    (child,) = started
    try:
        assert child.returncode is not None, "it is reaped"
    finally:
        child.kill()


async def test_a_transaction_that_is_overtaken_for_ever_is_refused() -> None:
    etcd = Etcd(overtaken=1_000_000)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((etcd,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    seconds = count(step=1000)
    client = EtcdClient((f"127.0.0.1:{port}",), lambda: next(seconds), request_timeout_ms=3000)
    try:
        with pytest.raises(EtcdRefused, match="revision of auth store is old"):
            await client.txn(TXN)
    finally:
        await client.close()
        await server.stop(None)
    assert etcd.came == 3
