"""A logstore as processes: real etcd, a scripted controller on its control channel, a scripted gateway on streams."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from itertools import count
from pathlib import Path

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from barnabas.channel.assembly import ReadAssembler, ReadResult
from barnabas.channel.generated.packing import (
    pack_exchange_request,
    pack_read_request,
    pack_watch_request,
    scan_exchange_response,
    scan_read_response,
    scan_watch_response,
)
from barnabas.channel.messages import (
    Append,
    AppendResult,
    ExchangeRequest,
    Hello,
    PartitionState,
    Read,
    ReadPartition,
    ReadRequest,
    WatchedPartition,
    WatchRequest,
    Welcome,
)
from barnabas.cluster.keys import ClusterRecord, Keys, LogstoreRegistration, Role, decode_registration, encode_record
from barnabas.cluster.messages import (
    ControlRequest,
    ControlResponse,
    LeaderAndIsr,
    PartitionMetadata,
    StopReplica,
    StopReplicaPartition,
    TopicMetadata,
)
from barnabas.ports.etcd import Put, Txn
from barnabas.runtime.clock import monotonic_ms
from barnabas.runtime.etcd import EtcdClient
from barnabas.runtime.protobuf import from_proto, to_proto
from barnabas.runtime.streams import StreamLink
from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import Record, build_batch, decode_records, iterate_headers
from barnabas_protos.logstore.v1 import control_pb2, control_pb2_grpc
from tests.integration.etcd_process import EtcdProcess, needs_etcd

pytestmark = [pytest.mark.integration, needs_etcd]

NODE_ID = 3
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
TOPIC = "orders"
TOPIC_ID = bytes(range(16))
KEYS = Keys()
MARKER = ".kafka_cleanshutdown"


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Ask until it is so; the test's own timeout ends what never comes."""
    while True:
        if await condition():
            return
        await asyncio.sleep(0.02)


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def only_child(pid: int) -> int:
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


@pytest.fixture
async def etcd(tmp_path: Path) -> AsyncIterator[tuple[str, EtcdClient]]:
    """A real etcd with a cluster id in it: its endpoint and a client."""
    process = EtcdProcess(tmp_path)
    process.start()
    endpoint = process.endpoint
    etcd_client = EtcdClient([endpoint], monotonic_ms)
    try:
        await etcd_client.version(10_000)
        await etcd_client.txn(Txn((), (Put(KEYS.cluster, encode_record(ClusterRecord(CLUSTER_ID))),)))
        yield endpoint, etcd_client
    finally:
        await etcd_client.close()
        process.kill()


class Logstore:
    """The real process, started and stopped any number of times on the same directory."""

    def __init__(self, directory: Path, etcd_endpoint: str, etcd_client: EtcdClient) -> None:
        self.directory = directory
        self._etcd_endpoint = etcd_endpoint
        self._etcd = etcd_client
        self.process: asyncio.subprocess.Process | None = None
        self.registration: LogstoreRegistration | None = None
        self.broker_epoch = -1
        self._cleanup = contextlib.AsyncExitStack()

    async def spawn(self, **settings: str) -> asyncio.subprocess.Process:
        keys = {
            "node.id": str(NODE_ID),
            "log.dirs": str(self.directory),
            "listeners": "127.0.0.1:0",
            "etcd.endpoints": self._etcd_endpoint,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        arguments = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "barnabas_logstore", *arguments, stderr=asyncio.subprocess.PIPE
        )

    async def start(self, **settings: str) -> None:
        """Start it and wait until it serves."""
        self.process = await self.spawn(**settings)
        self._drain = asyncio.ensure_future(self._read_log(self.process))
        key = KEYS.registration(Role.LOGSTORE, str(NODE_ID))
        while (found := await self._etcd.get(key)) is None or found.create_revision == self.broker_epoch:
            assert self.process.returncode is None, "it ended before it had registered"
            await asyncio.sleep(0.02)
        registration = decode_registration(Role.LOGSTORE, found.value)
        assert isinstance(registration, LogstoreRegistration)
        self.registration, self.broker_epoch = registration, found.create_revision
        await self.wait_until_healthy()

    async def wait_until_healthy(self) -> None:
        """Both listeners say that they serve."""
        assert self.registration is not None
        for address in (self.registration.data_address, self.registration.control_address):
            await until(partial(self._is_serving, address))

    async def _is_serving(self, address: str) -> bool:
        async with grpc.aio.insecure_channel(address) as channel:
            try:
                answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
            except grpc.aio.AioRpcError:
                return False
            return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    async def end_of_registration(self) -> bool:
        """Whether etcd has no registration of this node any more."""
        return await self._etcd.get(KEYS.registration(Role.LOGSTORE, str(NODE_ID))) is None

    @property
    def control_pid(self) -> int:
        """The process of the control listener."""
        assert self.process is not None
        return only_child(self.process.pid)

    async def _read_log(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        while line := await process.stderr.readline():
            sys.stderr.write(line.decode())

    async def end(self, number: signal.Signals) -> int:
        """Signal it, and wait for its end."""
        assert self.process is not None
        self.process.send_signal(number)
        exit_code = await self.process.wait()
        await self._drain
        return exit_code

    async def close(self) -> None:
        if self.process is not None and self.process.returncode is None:
            await self.end(signal.SIGKILL)


@pytest.fixture
async def logstore(tmp_path: Path, etcd: tuple[str, EtcdClient]) -> AsyncIterator[Logstore]:
    running = Logstore(tmp_path / "logs", *etcd)
    await running.start()
    yield running
    await running.close()


class Controller:
    """One stream on the control channel; commands go out one after the other."""

    def __init__(self, logstore: Logstore, controller_epoch: int = 1) -> None:
        assert logstore.registration is not None
        self._channel = grpc.aio.insecure_channel(logstore.registration.control_address)
        self._call = control_pb2_grpc.ControlChannelStub(self._channel).Control()  # type: ignore[call-arg]
        self._controller_epoch = controller_epoch
        self._broker_epoch = logstore.broker_epoch
        self._sequence = count(1)

    async def __aenter__(self) -> Controller:
        await self._call.write(control_pb2.ControlRequest(heartbeat=1))
        answer = await self._call.read()
        assert isinstance(answer, control_pb2.ControlResponse)
        assert answer.heartbeat == 1
        return self

    async def __aexit__(self, *_: object) -> None:
        self._call.cancel()
        await self._channel.close(None)

    async def command(self, body: LeaderAndIsr | StopReplica, *, broker_epoch: int | None = None) -> ControlResponse:
        request = ControlRequest(
            next(self._sequence),
            self._controller_epoch,
            self._broker_epoch if broker_epoch is None else broker_epoch,
            leader_and_isr=body if isinstance(body, LeaderAndIsr) else None,
            stop_replica=body if isinstance(body, StopReplica) else None,
        )
        await self._call.write(to_proto(request, control_pb2.ControlRequest))
        while True:
            message = await self._call.read()
            assert isinstance(message, control_pb2.ControlResponse)
            if not message.heartbeat:
                response = from_proto(ControlResponse, message)
                assert response.sequence == request.sequence
                return response

    async def lead(self, leader_epoch: int, *, partitions: int = 1) -> ControlResponse:
        states = [
            PartitionMetadata(number, NODE_ID, leader_epoch, 0, (NODE_ID,), (NODE_ID,)) for number in range(partitions)
        ]
        return await self.command(LeaderAndIsr(True, [TopicMetadata(TOPIC, TOPIC_ID, {}, states)]))


class Gateway:
    """A processor's streams to the logstore, and a pod's watch stream beside them."""

    def __init__(self, logstore: Logstore) -> None:
        assert logstore.registration is not None
        self._address = logstore.registration.data_address
        self._request_ids = count(1)
        self._assembler = ReadAssembler()
        self.welcome: asyncio.Future[Welcome] = asyncio.get_running_loop().create_future()
        self.appended: dict[int, asyncio.Future[AppendResult]] = {}
        self.reading: dict[int, asyncio.Future[ReadResult]] = {}
        self.states: asyncio.Queue[PartitionState] = asyncio.Queue()
        hello = Hello(CLUSTER_ID, "gateway-0/0")
        self.exchange = self._link(
            "DataChannel/Exchange", pack_exchange_request(ExchangeRequest(hello)), self._on_exchange
        )
        self.read_link = self._link("DataChannel/Read", pack_read_request(ReadRequest(hello)), self._on_read)
        self.watch_link = self._link("PartitionWatch/Watch", pack_watch_request(WatchRequest(hello)), self._on_watch)

    def _link(self, method: str, hello: bytes, on_message: object) -> StreamLink:
        return StreamLink(
            self._address,
            f"/barnabas.logstore.v1.{method}",
            hello=hello,
            pack_heartbeat=lambda number: pack_exchange_request(ExchangeRequest(heartbeat=number)),
            on_up=on_message,  # type: ignore[arg-type]
            on_message=on_message,  # type: ignore[arg-type]
            on_down=lambda reason: None,
        )

    async def __aenter__(self) -> Gateway:
        self.links = (self.exchange, self.read_link, self.watch_link)
        for link in self.links:
            link.start()
        await self.welcome
        await until(self._are_all_up)
        return self

    async def _are_all_up(self) -> bool:
        return all(link.up for link in self.links)

    async def __aexit__(self, *_: object) -> None:
        for link in self.links:
            await link.close()

    def _on_exchange(self, data: bytes) -> None:
        response = scan_exchange_response(data)
        if response.welcome is not None:
            self.welcome.set_result(response.welcome)
        for result in response.append_results:
            self.appended.pop(result.request_id).set_result(result)

    def _on_read(self, data: bytes) -> None:
        for piece in scan_read_response(data).pieces:
            result = self._assembler.add_piece(piece)
            if result is not None:
                self.reading.pop(result.request_id).set_result(result)

    def _on_watch(self, data: bytes) -> None:
        for state in scan_watch_response(data).states:
            self.states.put_nowait(state)

    def send_appends(
        self, batches: list[bytes], leader_epoch: int, partition: int = 0
    ) -> list[asyncio.Future[AppendResult]]:
        """Send appends in one message."""
        futures, appends = [], []
        for records in batches:
            request_id = next(self._request_ids)
            future = self.appended[request_id] = asyncio.get_running_loop().create_future()
            futures.append(future)
            appends.append(Append(request_id, TOPIC_ID, partition, leader_epoch, -1, records))
        self.exchange.send(pack_exchange_request(ExchangeRequest(appends=appends)))
        return futures

    async def append(self, value: bytes, leader_epoch: int) -> AppendResult:
        (future,) = self.send_appends([one_record(value)], leader_epoch)
        return await future

    async def read(self, offset: int, bytes_max: int = 10 << 20) -> ReadResult:
        request_id = next(self._request_ids)
        future: asyncio.Future[ReadResult] = asyncio.get_running_loop().create_future()
        self.reading[request_id] = future
        partition = ReadPartition(TOPIC_ID, 0, -1, offset, bytes_max)
        self.read_link.send(pack_read_request(ReadRequest(reads=[Read(request_id, bytes_max, 0, [partition])])))
        return await future

    async def read_values(self) -> list[bytes | None]:
        """Every value in the partition, from its beginning."""
        values: list[bytes | None] = []
        offset = 0
        while True:
            (result,) = (await self.read(offset)).partitions
            assert result.error_code == ErrorCode.NONE
            if not result.records:
                return values
            records = memoryview(result.records)
            for position, header in iterate_headers(records):
                assert header.base_offset == offset
                values += [record.value for record in decode_records(records[position:])]
                offset = header.next_offset

    def watch(self) -> None:
        self.watch_link.send(pack_watch_request(WatchRequest(watches=[WatchedPartition(TOPIC_ID, 0)])))


def one_record(value: bytes) -> bytes:
    return build_batch([Record(b"k", value, 1_700_000_000_000)])


async def test_every_acknowledged_record_survives_a_kill(logstore: Logstore) -> None:
    async with Controller(logstore) as controller, Gateway(logstore) as gateway:
        assert gateway.welcome.result() == Welcome(NODE_ID, logstore.broker_epoch)
        assert await controller.lead(0) == ControlResponse(1, ErrorCode.NONE)
        small = [b"value %d" % number for number in range(300)]
        large = [b"%d" % number * 50_000 for number in range(40)]
        acknowledged = []
        for start in range(0, len(small), 20):
            futures = gateway.send_appends([one_record(value) for value in small[start : start + 20]], 0)
            acknowledged += [await future for future in futures]
        for value in large:
            acknowledged.append(await gateway.append(value, 0))
        assert [result.base_offset for result in acknowledged] == list(range(340))
        assert all(result.committed and not result.error_code for result in acknowledged)
        assert await gateway.read_values() == small + large
    await logstore.end(signal.SIGKILL)
    before = logstore.broker_epoch
    await logstore.start()
    assert logstore.broker_epoch > before
    async with Controller(logstore) as controller, Gateway(logstore) as gateway:
        stale = await controller.command(LeaderAndIsr(True, []), broker_epoch=before)
        assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH
        await controller.lead(1)
        assert await gateway.read_values() == small + large
        assert (await gateway.append(b"late", 0)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await gateway.append(b"more", 1)).base_offset == 340
        assert await gateway.read_values() == [*small, *large, b"more"]


async def test_a_clean_stop_leaves_the_marker_and_is_not_followed_by_a_recovery(logstore: Logstore) -> None:
    async with Controller(logstore) as controller, Gateway(logstore) as gateway:
        await controller.lead(0)
        await gateway.append(b"value", 0)
        assert not (logstore.directory / MARKER).exists()
        assert await logstore.end(signal.SIGTERM) == 0
    assert (logstore.directory / MARKER).read_bytes() == b'{"version":0,"brokerEpoch":%d}' % logstore.broker_epoch
    assert await logstore.end_of_registration()
    assert (logstore.directory / "recovery-point-offset-checkpoint").read_text() == "0\n1\norders 0 1\n"
    assert (logstore.directory / "replication-offset-checkpoint").read_text() == "0\n1\norders 0 1\n"
    await logstore.start()
    assert not (logstore.directory / MARKER).exists()
    async with Controller(logstore) as controller, Gateway(logstore) as gateway:
        await controller.lead(1)
        assert await gateway.read_values() == [b"value"]


async def test_a_registration_says_when_records_may_be_lost(logstore: Logstore) -> None:
    async def may_lack_records() -> bool:
        await logstore.start()
        assert logstore.registration is not None
        return logstore.registration.may_lack_records

    async def controller_hears() -> None:
        async with Controller(logstore) as controller:
            await controller.lead(0)

    await logstore.end(signal.SIGTERM)
    assert await may_lack_records(), "no controller has heard that the disk is new"
    await controller_hears()
    await logstore.end(signal.SIGTERM)
    assert not await may_lack_records(), "a clean stop"
    await logstore.end(signal.SIGKILL)
    assert not await may_lack_records(), "the process died, the page cache did not"
    await logstore.end(signal.SIGKILL)
    (logstore.directory / "kernel-boot-id").write_text("another")
    assert await may_lack_records(), "the machine died"
    await logstore.end(signal.SIGTERM)
    shutil.rmtree(logstore.directory)
    assert await may_lack_records(), "the disk is another one"


async def test_watchers_hear_the_present_state_and_then_every_move(logstore: Logstore) -> None:
    async with Controller(logstore) as controller, Gateway(logstore) as gateway:
        gateway.watch()
        state = await gateway.states.get()
        assert (state.leading, state.leader_epoch) == (False, -1)
        await controller.lead(4)
        state = await gateway.states.get()
        assert (state.leading, state.leader_epoch, state.high_watermark) == (True, 4, 0)
        records = one_record(b"value")
        (future,) = gateway.send_appends([records], 4)
        state = await gateway.states.get()
        assert (state.high_watermark, state.high_watermark_position) == (1, len(records))
        assert (await future).committed
        await controller.command(StopReplica([StopReplicaPartition(TOPIC, TOPIC_ID, 0, -2, delete=True)]))
        assert (await gateway.states.get()).leader_epoch == -1


async def test_the_control_listener_is_restarted_at_its_address(logstore: Logstore) -> None:
    async with Controller(logstore) as controller, Gateway(logstore) as gateway:
        await controller.lead(0)
        os.kill(logstore.control_pid, signal.SIGKILL)
        assert (await gateway.append(b"meanwhile", 0)).error_code == ErrorCode.NONE
    await logstore.wait_until_healthy()
    async with Controller(logstore, controller_epoch=2) as controller:
        assert (await controller.lead(1)).error_code == ErrorCode.NONE


async def test_the_control_listener_dies_with_its_parent(logstore: Logstore) -> None:
    control_pid = logstore.control_pid
    await logstore.end(signal.SIGKILL)

    async def is_gone() -> bool:
        return not is_alive(control_pid)

    await until(is_gone)


async def refusal(process: asyncio.subprocess.Process) -> str:
    """The last line of a process that does not start."""
    _, words = await process.communicate()
    assert process.returncode != 0
    assert "Traceback" not in words.decode()
    return words.decode().splitlines()[-1]


async def test_a_directory_in_use_or_of_another_node_or_cluster_is_refused_with_one_line(
    logstore: Logstore, etcd: tuple[str, EtcdClient]
) -> None:
    assert "another process is using it" in await refusal(await logstore.spawn())
    await logstore.end(signal.SIGTERM)
    other = ClusterRecord("b3RoZXIgb3RoZXIgb3RoZQ")
    await etcd[1].txn(Txn((), (Put(Keys("/other/").cluster, encode_record(other)),)))
    line = await refusal(await logstore.spawn(node_id="9"))
    assert "belongs to node 3, not to node 9" in line
    line = await refusal(await logstore.spawn(etcd_prefix="/other/"))
    assert f"belongs to cluster {CLUSTER_ID}, not to {other.cluster_id}" in line
