"""A purgatory pod over real gRPC streams: a scripted logstore on one side, a gateway's stream on the other."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from barnabas.channel.generated.packing import (
    pack_park_request,
    pack_watch_response,
    scan_park_response,
    scan_watch_request,
)
from barnabas.channel.messages import (
    Completion,
    FetchCondition,
    Hello,
    Outcome,
    ParkFetch,
    ParkProduce,
    ParkRequest,
    PartitionState,
    ProduceCondition,
    WatchRequest,
    WatchResponse,
    Welcome,
)
from barnabas.cluster.keys import Keys, PurgatoryRegistration, Role, decode_registration
from barnabas.cluster.messages import Broker, UpdateMetadata
from barnabas.runtime.clock import monotonic_ms
from barnabas.runtime.etcd import EtcdClient
from barnabas.runtime.rpc import create_server, stop_server
from barnabas.runtime.streams import ServerStream, StreamLink, register_stream
from barnabas.wire.errors import ErrorCode
from barnabas_purgatory.shell.driver import PurgatoryDriver
from tests.integration.etcd_process import EtcdProcess, needs_etcd

pytestmark = [pytest.mark.integration, pytest.mark.deep]

TOPIC = b"t" * 16
NODE = 3
GATEWAY_METHOD = "/barnabas.purgatory.v1.Purgatory/Park"


class ScriptedLogstore:
    """Answers Watch with what the test tells it to."""

    def __init__(self) -> None:
        self.requests: asyncio.Queue[WatchRequest] = asyncio.Queue()
        self.stream: ServerStream | None = None

    def open_stream(self, stream: ServerStream) -> ScriptedLogstore:
        self.stream = stream
        return self

    def on_message(self, data: bytes) -> None:
        request = scan_watch_request(data)
        if request.hello is not None:
            self.send(WatchResponse(welcome=Welcome(NODE, 1)))
        if request.watches or request.unwatches:
            self.requests.put_nowait(request)

    def on_closed(self, reason: str) -> None:
        self.stream = None

    def pack_heartbeat(self, count: int) -> bytes:
        return pack_watch_response(WatchResponse(heartbeat=count))

    def send(self, response: WatchResponse) -> None:
        assert self.stream is not None
        self.stream.send(pack_watch_response(response))

    def publish(self, high_watermark: int, *, leader_epoch: int = 0) -> None:
        position = high_watermark * 100
        state = PartitionState(
            TOPIC, 0, leader_epoch, high_watermark, high_watermark, 0, position, leading=True, online=True
        )
        state.in_sync_replicas_at_minimum = True
        self.send(WatchResponse(states=[state]))


class Gateway:
    """One processor's stream to the pod."""

    def __init__(self, address: str) -> None:
        self.pod_id: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.completions: asyncio.Queue[Completion] = asyncio.Queue()
        self.link = StreamLink(
            address,
            GATEWAY_METHOD,
            hello=pack_park_request(ParkRequest(hello=Hello("", "gateway-0/0"))),
            pack_heartbeat=lambda count: pack_park_request(ParkRequest(heartbeat=count)),
            on_up=lambda first: self.pod_id.set_result(scan_park_response(first).pod_id),
            on_message=self._message,
            on_down=lambda reason: None,
        )
        self.link.start()

    def _message(self, data: bytes) -> None:
        for completion in scan_park_response(data).completions:
            self.completions.put_nowait(completion)

    def park_produce(self, entry_id: int, required_offset: int, wait_ms: int = 60_000) -> None:
        condition = ProduceCondition(TOPIC, 0, NODE, 0, required_offset)
        self.link.send(pack_park_request(ParkRequest(produces=[ParkProduce(entry_id, wait_ms, [condition])])))

    def park_fetch(self, entry_id: int, wait_ms: int) -> None:
        condition = FetchCondition(TOPIC, 0, NODE, 0, 5, 500, 0)
        self.link.send(pack_park_request(ParkRequest(fetches=[ParkFetch(entry_id, wait_ms, 1, [condition])])))


class ConnectedPod:
    """A pod, its logstore and a gateway, all connected."""

    def __init__(self, logstore: ScriptedLogstore, gateway: Gateway) -> None:
        self.logstore = logstore
        self.gateway = gateway


@pytest.fixture
async def connected() -> AsyncIterator[ConnectedPod]:
    logstore = ScriptedLogstore()
    logstore_server, logstore_port = create_server("127.0.0.1:0")
    register_stream(logstore_server, "barnabas.logstore.v1.PartitionWatch", "Watch", logstore.open_stream)
    await logstore_server.start()
    pod = PurgatoryDriver("purgatory-0", entries_max=100)
    pod_server, pod_port = create_server("127.0.0.1:0")
    register_stream(pod_server, "barnabas.purgatory.v1.Purgatory", "Park", pod.open_stream)
    await pod_server.start()
    links = asyncio.ensure_future(pod.logstores.run())
    brokers = [Broker(NODE, f"127.0.0.1:{logstore_port}", 1)]
    pod.metadata_updated(UpdateMetadata(1, True, "cluster", 1, brokers, [], []))
    gateway = Gateway(f"127.0.0.1:{pod_port}")
    assert await gateway.pod_id == "purgatory-0"
    yield ConnectedPod(logstore, gateway)
    await gateway.link.close()
    links.cancel()
    await asyncio.gather(links, return_exceptions=True)
    await stop_server(pod_server, 0)
    await stop_server(logstore_server, 0)


async def test_a_parked_produce_is_completed_by_the_watermark_of_its_leader(connected: ConnectedPod) -> None:
    connected.gateway.park_produce(7, required_offset=10)
    (watched,) = (await connected.logstore.requests.get()).watches
    assert (watched.topic_id, watched.partition) == (TOPIC, 0)
    connected.logstore.publish(9)
    connected.gateway.park_produce(8, required_offset=9)
    assert await connected.gateway.completions.get() == Completion(8, Outcome.SATISFIED, [ErrorCode.NONE])
    connected.logstore.publish(10)
    assert await connected.gateway.completions.get() == Completion(7, Outcome.SATISFIED, [ErrorCode.NONE])
    (unwatched,) = (await connected.logstore.requests.get()).unwatches
    assert (unwatched.topic_id, unwatched.partition) == (TOPIC, 0)


async def test_a_fetch_expires_by_the_pods_own_clock(connected: ConnectedPod) -> None:
    connected.gateway.park_fetch(1, wait_ms=30)
    assert await connected.gateway.completions.get() == Completion(1, Outcome.EXPIRED, [])


async def test_a_logstore_that_comes_back_gets_every_watch(connected: ConnectedPod) -> None:
    connected.gateway.park_produce(1, required_offset=10)
    await connected.logstore.requests.get()
    assert connected.logstore.stream is not None
    connected.logstore.stream.close("restarting")
    (watched,) = (await connected.logstore.requests.get()).watches
    assert watched.topic_id == TOPIC
    connected.logstore.publish(50, leader_epoch=1)
    assert await connected.gateway.completions.get() == Completion(
        1, Outcome.FENCED, [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    )


async def test_a_gateway_that_goes_takes_its_entries_along(connected: ConnectedPod) -> None:
    connected.gateway.park_produce(1, required_offset=10)
    await connected.logstore.requests.get()
    await connected.gateway.link.close()
    assert len((await connected.logstore.requests.get()).unwatches) == 1


@pytest.fixture
async def etcd_endpoint(tmp_path: Path) -> AsyncIterator[str]:
    process = EtcdProcess(tmp_path)
    process.start()
    yield process.endpoint
    process.kill()


@needs_etcd
async def test_the_process_registers_serves_and_leaves(etcd_endpoint: str) -> None:
    arguments = ["pod.id=purgatory-9", "listeners=127.0.0.1:0", f"etcd.endpoints={etcd_endpoint}"]
    command = [sys.executable, "-m", "barnabas_purgatory"]
    process = await asyncio.create_subprocess_exec(*command, *(word for each in arguments for word in ("--set", each)))
    etcd = EtcdClient([etcd_endpoint], monotonic_ms)
    key = Keys().registration(Role.PURGATORY, "purgatory-9")
    try:
        while (found := await etcd.get(key)) is None:
            assert process.returncode is None
            await asyncio.sleep(0.05)
        registration = decode_registration(Role.PURGATORY, found.value)
        assert isinstance(registration, PurgatoryRegistration)
        async with grpc.aio.insecure_channel(registration.address) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            async for response in health.Watch(health_pb2.HealthCheckRequest()):
                if response.status == health_pb2.HealthCheckResponse.SERVING:
                    break
        process.terminate()
        assert await process.wait() == 0
        assert await etcd.get(key) is None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await etcd.close()
