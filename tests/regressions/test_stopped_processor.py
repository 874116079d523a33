"""A processor that is alive but does not run: it is not waited for, and gets nothing until it runs again."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator

import pytest

from barnabas.cluster.image import ClusterImage
from barnabas.cluster.messages import CreateTopicsRequest, UpdateMetadata
from barnabas.runtime.configuration.config import build_config
from barnabas.runtime.metrics.pod_metrics import PodMetrics
from barnabas.runtime.processes import spawning
from barnabas_gateway.core.model.outputs import ControllerAnswer, ControllerRequest
from barnabas_gateway.shell import processor_ipc, processors
from barnabas_gateway.shell.config import GatewayProperties
from barnabas_gateway.shell.processors import Processors
from tests.unit.runtime.test_processes import until

LOOPBACK = "127.0.0.1"


def update(revision: int, *, full: bool = False) -> UpdateMetadata:
    return UpdateMetadata(revision, full, "MkU3OEVBNTcwNTJENDM2Qg", 1, [], [], [])


class Gateway:
    """Two processors with an acceptor around them that only counts."""

    def __init__(self) -> None:
        keys = {"gateway.id": "gateway-0", "etcd.endpoints": "127.0.0.1:1"}
        properties = build_config(GatewayProperties, {key: (value, "test") for key, value in keys.items()})
        self.image = ClusterImage()
        self.image.apply(update(1, full=True))
        self.applied: list[int] = []
        self.closed: list[str] = []
        self.processors = Processors(
            properties,
            {},
            {"PLAINTEXT": 9092},
            self.image,
            self._ask,
            self.applied.append,
            lambda _listener, address: self.closed.append(address),
            PodMetrics("gateway", "gateway-0", []),
        )
        self._listening = socket.create_server((LOOPBACK, 0))

    async def _ask(self, request: ControllerRequest) -> ControllerAnswer | None:
        await asyncio.sleep(3600)
        return None

    @property
    def children(self) -> list[spawning.ChildProcess]:
        return [self.processors._by_index[index].child for index in sorted(self.processors._by_index)]

    def connect(self) -> socket.socket:
        """A client whose connection is handed over."""
        client = socket.create_connection(self._listening.getsockname())
        accepted, address = self._listening.accept()
        self.processors.hand_over(accepted, "PLAINTEXT", LOOPBACK, f"{LOOPBACK}:{address[1]}")
        return client

    def connections(self) -> list[int]:
        """How many each processor was given and has not closed."""
        return [len(self.processors._by_index[index].connections) for index in sorted(self.processors._by_index)]

    async def stop(self) -> None:
        for child in self.children:
            os.kill(child.pid, signal.SIGCONT)
        await self.processors.stop()
        self._listening.close()


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    gateway = Gateway()
    gateway.processors.resize(2)
    # Those that are still being started delay no other, and are not counted.
    await until(lambda: all(each.applied_revision == 1 for each in gateway.processors._by_index.values()))
    yield gateway
    await gateway.stop()


async def test_a_stopped_processor_gets_no_connections_and_delays_no_acknowledgement(gateway: Gateway) -> None:
    """It kept getting its share, and CreateTopics waited for its acknowledgement until the deadline."""
    stopped, other = gateway.children
    os.kill(stopped.pid, signal.SIGSTOP)
    gateway.image.apply(update(2))
    gateway.processors.metadata_updated(processor_ipc.encode_metadata(update(2)))
    await until(lambda: gateway.applied[-1:] == [2])
    assert stopped.is_silent
    assert not other.is_silent
    clients = [gateway.connect() for _ in range(4)]
    assert gateway.connections() == [0, 4]
    os.kill(stopped.pid, signal.SIGCONT)
    # What it was sent meanwhile is there for it, in order.
    await until(lambda: not stopped.is_silent and gateway.processors._by_index[0].applied_revision == 2)
    clients += [gateway.connect() for _ in range(4)]
    assert gateway.connections() == [2, 6]
    for client in clients:
        client.close()
    await until(lambda: len(gateway.closed) == 8)


async def test_no_processor_is_live_while_all_are_stopped(gateway: Gateway) -> None:
    for child in gateway.children:
        os.kill(child.pid, signal.SIGSTOP)
    await until(lambda: not gateway.processors.has_live())
    for child in gateway.children:
        os.kill(child.pid, signal.SIGCONT)
    await until(gateway.processors.has_live)


async def test_a_processor_that_stays_stopped_is_replaced(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawning, "KILL_SILENT_MS", spawning.SILENT_MS_MAX)
    stopped, _ = gateway.children
    os.kill(stopped.pid, signal.SIGSTOP)
    assert await stopped.exited == -signal.SIGKILL
    await until(lambda: len(gateway.children) == 2 and gateway.processors.applied_revision() == 1)


async def test_calls_beyond_the_bound_are_answered_at_once(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each was a task that waits for the controller; clients chose how many."""
    monkeypatch.setattr(processors, "_CALLS_MAX", 3)
    processor = gateway.processors._by_index[0]
    answered: list[tuple[int, ControllerAnswer | None]] = []

    def sent(kind: bytes, payload: bytes) -> None:
        assert kind == processor_ipc.ANSWER
        answered.append(processor_ipc.decode_answer(payload))

    monkeypatch.setattr(processor.child.messages, "send", sent)
    for call_id in range(5):
        payload = processor_ipc.encode_call(call_id, CreateTopicsRequest([], 1000, False))
        gateway.processors._message(processor, processor_ipc.CALL, payload)
    assert answered == [(3, None), (4, None)]
    # The gateway's end needs the real one.
    monkeypatch.undo()
