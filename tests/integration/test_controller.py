"""Controllers as processes, over a real etcd, with a logstore that only speaks the control channel."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing
from pathlib import Path

import grpc
import grpc.aio
import pytest

from barnabas.cluster.controller_calls.table import ALLOCATE_PRODUCER_IDS, CREATE_TOPICS, DELETE_TOPICS
from barnabas.cluster.image import ClusterImage
from barnabas.cluster.keys import Keys, LogstoreRegistration, Role
from barnabas.cluster.messages import (
    NO_LEADER,
    AllocateProducerIdsRequest,
    ControlRequest,
    ControlResponse,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    NewTopic,
    TopicMetadata,
    TopicReference,
)
from barnabas.runtime.clock import monotonic_ms
from barnabas.runtime.etcd import EtcdClient
from barnabas.runtime.membership import MembershipClient
from barnabas.runtime.protobuf import from_proto, to_proto
from barnabas.runtime.registration import Registration
from barnabas.runtime.rpc import create_channel, create_server
from barnabas.runtime.streams import ServerStream, register_stream
from barnabas.wire.errors import ErrorCode
from barnabas_protos.controller.v1 import operations_pb2
from barnabas_protos.controller.v1.operations_pb2_grpc import OperationsStub
from barnabas_protos.logstore.v1 import control_pb2
from tests.integration.etcd_process import EtcdProcess, needs_etcd
from tests.integration.reserved_ports import free_port

pytestmark = [pytest.mark.integration, needs_etcd, pytest.mark.deep]

KEYS = Keys()
ROOT = Path(__file__).parents[2]


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[EtcdProcess]:
    process = EtcdProcess(tmp_path)
    process.start()
    yield process
    process.kill()


@pytest.fixture
async def client(etcd: EtcdProcess) -> AsyncIterator[EtcdClient]:
    client = EtcdClient([etcd.endpoint], monotonic_ms)
    yield client
    await client.close()


class ControllerProcess:
    def __init__(self, controller_id: str, etcd: EtcdProcess, log: Path) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self.operations_address = f"127.0.0.1:{free_port()}"
        argv = [sys.executable, "-m", "barnabas_controller"]
        for key, value in {
            "controller.id": controller_id,
            "listeners": self.address,
            "operations.listeners": self.operations_address,
            "etcd.endpoints": etcd.endpoint,
            "lease.ttl.ms": "2000",
        }.items():
            argv += ["--set", f"{key}={value}"]
        self._argv = argv
        self._log = log
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            self.process = subprocess.Popen(self._argv, cwd=ROOT, env=environment, stdout=log, stderr=log)

    def send(self, signal_number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(signal_number)

    def stop(self, signal_number: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(signal_number)
        return self.process.wait(timeout=10)


@pytest.fixture
def start_controller(etcd: EtcdProcess, tmp_path: Path) -> Iterator[Callable[[str], ControllerProcess]]:
    started: list[ControllerProcess] = []

    def start(controller_id: str) -> ControllerProcess:
        controller = ControllerProcess(controller_id, etcd, tmp_path / f"{controller_id}.log")
        controller.start()
        started.append(controller)
        return controller

    yield start
    for controller in started:
        assert controller.process is not None
        controller.process.kill()
        controller.process.wait()


class FakeLogstore:
    """Registers, and does at once whatever the control channel says, remembering it."""

    def __init__(self, client: EtcdClient, node_id: int) -> None:
        self._client = client
        self.node_id = node_id
        self.controller_epochs: list[int] = []
        self.requests: list[ControlRequest] = []
        self.topics: dict[bytes, TopicMetadata] = {}
        self.deleted: set[tuple[bytes, int]] = set()
        self.silent = False
        self._directory_id = uuid.uuid4().hex

    async def start(self) -> None:
        self._server, port = create_server("127.0.0.1:0")
        register_stream(self._server, "barnabas.logstore.v1.ControlChannel", "Control", self._open)
        await self._server.start()
        address = f"127.0.0.1:{port}"
        self.registration = Registration(
            self._client,
            KEYS,
            Role.LOGSTORE,
            str(self.node_id),
            describe=lambda incarnation: LogstoreRegistration(
                self.node_id, incarnation, self._directory_id, data_address=address, control_address=address
            ),
        )
        self.broker_epoch = await self.registration.start()
        self._life = asyncio.create_task(self.registration.run())

    async def crash(self) -> None:
        """The process is gone; its lease is not."""
        self._life.cancel()
        await self._server.stop(None)

    async def stop(self) -> None:
        await self.crash()
        await self.registration.stop()

    def _open(self, stream: ServerStream) -> _ControlStream:
        return _ControlStream(self, stream)

    def leaders(self, topic: str) -> list[tuple[int, int]]:
        """(leader, leader epoch) of the partitions that it was sent."""
        return [
            (partition.leader, partition.leader_epoch)
            for metadata in self.topics.values()
            if metadata.topic == topic
            for partition in metadata.partitions
        ]


class _ControlStream:
    def __init__(self, logstore: FakeLogstore, stream: ServerStream) -> None:
        self._logstore = logstore
        self._stream = stream

    def on_message(self, data: bytes) -> None:
        logstore = self._logstore
        request = from_proto(ControlRequest, control_pb2.ControlRequest.FromString(data))
        if request.heartbeat:
            # What shows the controller that the stream is there; a silent logstore does that much.
            self._stream.send(self.pack_heartbeat(1))
            return
        if logstore.silent:
            return
        logstore.requests.append(request)
        logstore.controller_epochs.append(request.controller_epoch)
        error = ErrorCode.NONE
        if request.broker_epoch != logstore.broker_epoch:
            error = ErrorCode.STALE_BROKER_EPOCH
        elif request.leader_and_isr is not None:
            if request.leader_and_isr.full:
                logstore.topics.clear()
            logstore.topics |= {topic.topic_id: topic for topic in request.leader_and_isr.topics}
        elif request.stop_replica is not None:
            logstore.deleted |= {(each.topic_id, each.partition) for each in request.stop_replica.partitions}
        response = ControlResponse(request.sequence, error)
        self._stream.send(to_proto(response, control_pb2.ControlResponse).SerializeToString())

    def on_closed(self, reason: str) -> None:
        pass

    def pack_heartbeat(self, count: int) -> bytes:
        return control_pb2.ControlResponse(heartbeat=count).SerializeToString()


@pytest.fixture
async def start_logstore(client: EtcdClient) -> AsyncIterator[Callable[[int], Awaitable[FakeLogstore]]]:
    started: list[FakeLogstore] = []

    async def start(node_id: int) -> FakeLogstore:
        logstore = FakeLogstore(client, node_id)
        await logstore.start()
        started.append(logstore)
        return logstore

    yield start
    for logstore in started:
        await logstore.crash()


class Gateway:
    """A follower of the metadata that acknowledges at once, unless disabled."""

    def __init__(self, client: EtcdClient) -> None:
        self.image = ClusterImage()
        self.membership = MembershipClient(client, KEYS, monotonic_ms)
        self._life = asyncio.create_task(self.membership.subscribe(Role.GATEWAY, "gateway-0", self._update))
        self.updates = 0

    def _update(self, update: object, _: object) -> None:
        self.image.apply(update)  # type: ignore[arg-type]
        self.updates += 1
        self.membership.acknowledge(self.image.revision)

    async def stop(self) -> None:
        self._life.cancel()
        await asyncio.gather(self._life, return_exceptions=True)

    async def sees(self, *node_ids: int) -> None:
        await until(lambda: sorted(self.image.brokers) == list(node_ids))

    async def create(self, topic: str, partitions: int = 1) -> ErrorCode:
        request = CreateTopicsRequest([NewTopic(topic, partitions, 1)], timeout_ms=15_000)
        (result,) = (await self.membership.ask(CREATE_TOPICS, request)).results
        return ErrorCode(result.error_code)


@pytest.fixture
async def gateway(client: EtcdClient) -> AsyncIterator[Gateway]:
    gateway = Gateway(client)
    yield gateway
    await gateway.stop()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.02)


async def test_create_topic_assigns_leaders_and_a_restarted_controller_loses_nothing(
    start_controller: Callable[[str], ControllerProcess],
    start_logstore: Callable[[int], Awaitable[FakeLogstore]],
    gateway: Gateway,
) -> None:
    controller = start_controller("controller-0")
    first, second = await start_logstore(1), await start_logstore(2)
    await gateway.sees(1, 2)
    assert await gateway.create("events", partitions=5) is ErrorCode.NONE
    # The answer came after the leaders knew, and after this gateway had acknowledged.
    assert len(first.leaders("events")) + len(second.leaders("events")) == 5
    topic = gateway.image.topics_by_name["events"]
    assert sorted(partition.leader for partition in topic.partitions) in ([1, 1, 1, 2, 2], [1, 1, 2, 2, 2])
    allocated = await gateway.membership.ask(ALLOCATE_PRODUCER_IDS, AllocateProducerIdsRequest("gateway-0"))
    assert (allocated.error_code, allocated.first_producer_id, allocated.length) == (ErrorCode.NONE, 0, 1000)

    controller.stop(signal.SIGKILL)
    controller.start()
    epoch = gateway.image.controller_epoch
    await until(lambda: gateway.image.controller_epoch > epoch)
    assert gateway.image.topics_by_name["events"] == topic
    await until(lambda: max(first.controller_epochs) == max(second.controller_epochs) == epoch + 1)
    assert await gateway.create("events") is ErrorCode.TOPIC_ALREADY_EXISTS
    allocated = await gateway.membership.ask(ALLOCATE_PRODUCER_IDS, AllocateProducerIdsRequest("gateway-0"))
    assert allocated.first_producer_id == 1000


async def test_a_standby_takes_over_from_a_killed_controller(
    start_controller: Callable[[str], ControllerProcess],
    start_logstore: Callable[[int], Awaitable[FakeLogstore]],
    gateway: Gateway,
) -> None:
    active = start_controller("controller-0")
    await start_logstore(1)
    await gateway.sees(1)
    assert await gateway.create("before") is ErrorCode.NONE
    start_controller("controller-1")
    active.stop(signal.SIGKILL)
    await until(lambda: gateway.image.controller_epoch == 2)
    assert await gateway.create("after") is ErrorCode.NONE
    assert sorted(gateway.image.topics_by_name) == ["after", "before"]


async def test_a_paused_controller_does_nothing_when_it_wakes_deposed(
    start_controller: Callable[[str], ControllerProcess],
    start_logstore: Callable[[int], Awaitable[FakeLogstore]],
    gateway: Gateway,
) -> None:
    stale = start_controller("controller-0")
    logstore = await start_logstore(1)
    await gateway.sees(1)
    assert await gateway.create("before") is ErrorCode.NONE
    successor = start_controller("controller-1")
    stale.send(signal.SIGSTOP)
    await until(lambda: gateway.image.controller_epoch == 2)
    assert await gateway.create("after") is ErrorCode.NONE
    reported = len(logstore.requests)
    stale.send(signal.SIGCONT)
    async with create_channel(stale.operations_address, Role.CONTROLLER) as channel:
        stub = OperationsStub(channel)

        async def refusal() -> grpc.aio.AioRpcError:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stub.DescribeCluster(operations_pb2.DescribeClusterRequest())
            assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
            return refused.value

        # Until it has read who replaced it, it can only say that it is not the one; never may it answer.
        while f"('barnabas-controller', '{successor.operations_address}')" not in repr(
            (await refusal()).trailing_metadata()
        ):
            await asyncio.sleep(0.02)
    assert all(request.controller_epoch == 2 for request in logstore.requests[reported:])
    assert gateway.image.controller_epoch == 2


async def test_a_crashed_logstore_loses_its_leaders_at_once_and_gets_them_back_under_a_new_epoch(
    start_controller: Callable[[str], ControllerProcess],
    start_logstore: Callable[[int], Awaitable[FakeLogstore]],
    gateway: Gateway,
) -> None:
    controller = start_controller("controller-0")
    logstore = await start_logstore(1)
    await gateway.sees(1)
    assert await gateway.create("events") is ErrorCode.NONE
    (topic_id,) = gateway.image.topics_by_id
    await logstore.crash()

    def leader() -> tuple[int, int]:
        partition = gateway.image.partition(topic_id, 0)
        assert partition is not None
        return partition.leader, partition.leader_epoch

    await until(lambda: leader() == (NO_LEADER, 1))
    async with create_channel(controller.operations_address, Role.CONTROLLER) as channel:
        stub = OperationsStub(channel)
        described = await stub.DescribeCluster(operations_pb2.DescribeClusterRequest())
        assert [node.alive for node in described.nodes if node.role == "logstore"] == [False]
        assert "1 partition has no leader" in described.problems
        # Since when is written after the elections.
        while not any(problem.startswith("logstore 1 is down since") for problem in described.problems):
            assert any(problem.startswith("logstore 1 is down") for problem in described.problems)
            await asyncio.sleep(0.02)
            described = await stub.DescribeCluster(operations_pb2.DescribeClusterRequest())
    again = await start_logstore(1)
    await until(lambda: leader() == (1, 2))
    await until(lambda: again.leaders("events") == [(1, 2)])
    assert all(epoch == (1, 2) for epoch in again.leaders("events"))


async def test_a_deleted_topic_is_deleted_from_a_logstore_that_was_away(
    start_controller: Callable[[str], ControllerProcess],
    start_logstore: Callable[[int], Awaitable[FakeLogstore]],
    gateway: Gateway,
    client: EtcdClient,
) -> None:
    controller = start_controller("controller-0")
    logstore = await start_logstore(1)
    await gateway.sees(1)
    assert await gateway.create("events") is ErrorCode.NONE
    (topic_id,) = gateway.image.topics_by_id
    await logstore.stop()
    request = DeleteTopicsRequest([TopicReference("events", b"")], timeout_ms=10_000)
    (result,) = (await gateway.membership.ask(DELETE_TOPICS, request)).results
    assert result.error_code == ErrorCode.NONE
    assert gateway.image.topics_by_name == {}
    controller.stop(signal.SIGTERM)
    controller.start()
    again = await start_logstore(1)
    await until(lambda: again.deleted == {(topic_id, 0)})
    for prefix in (KEYS.deletions, KEYS.partitions):
        async with aclosing(client.watch(prefix)) as changes:
            async for _ in changes:
                if not (await client.get_prefix(prefix)).key_values:
                    break


async def test_a_second_live_controller_of_the_same_id_is_refused_with_one_line(
    start_controller: Callable[[str], ControllerProcess], gateway: Gateway, tmp_path: Path
) -> None:
    first = start_controller("controller-0")
    await until(lambda: gateway.image.controller_epoch == 1)
    second = start_controller("controller-0")
    assert second.process is not None
    assert await asyncio.to_thread(second.process.wait) != 0
    line = (tmp_path / "controller-0.log").read_text().splitlines()[-1]
    running_at = ", ".join(sorted([first.operations_address, first.address]))
    assert f"controller controller-0 is already running at {running_at}" in line
