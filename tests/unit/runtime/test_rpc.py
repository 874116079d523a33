"""Servers and channels: bound ports, health, reflection, a stop with a deadline."""

from __future__ import annotations

import asyncio

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from barnabas.runtime.rpc import LIVENESS, add_health, add_reflection, create_channel, create_server, stop_server
from barnabas_protos.controller.v1 import operations_pb2, operations_pb2_grpc

OPERATIONS = operations_pb2.DESCRIPTOR.services_by_name["Operations"].full_name


class Operations(operations_pb2_grpc.OperationsServicer):
    """Answers one call at once and holds another one."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.answer = asyncio.Event()

    async def DescribeCluster(  # noqa: N802 - the generated name
        self, request: operations_pb2.DescribeClusterRequest, context: object
    ) -> operations_pb2.DescribeClusterResponse:
        self.asked.set()
        await self.answer.wait()
        return operations_pb2.DescribeClusterResponse(cluster_id="here")


async def serving(operations: Operations) -> tuple[grpc.aio.Server, str]:
    server, port = create_server("127.0.0.1:0")
    operations_pb2_grpc.add_OperationsServicer_to_server(operations, server)
    await server.start()
    return server, f"127.0.0.1:{port}"


async def test_a_server_answers_on_the_port_that_it_names() -> None:
    operations = Operations()
    operations.answer.set()
    server, address = await serving(operations)
    async with create_channel(address, None) as channel:
        stub = operations_pb2_grpc.OperationsStub(channel)
        response = await stub.DescribeCluster(operations_pb2.DescribeClusterRequest())
    assert response.cluster_id == "here"
    await stop_server(server, 0)


async def test_a_server_listens_on_all_its_addresses(tmp_path: object) -> None:
    server, _ = create_server("127.0.0.1:0", f"unix:{tmp_path}/socket")
    await add_health(server)
    await server.start()
    async with create_channel(f"unix:{tmp_path}/socket", None) as channel:
        answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
    assert answer.status == health_pb2.HealthCheckResponse.SERVING
    await stop_server(server, 0)


async def test_a_port_in_use_is_one_clear_error() -> None:
    first, port = create_server("127.0.0.1:0")
    await first.start()
    with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}"):
        create_server(f"127.0.0.1:{port}")
    await stop_server(first, 0)


async def test_health_follows_what_is_set() -> None:
    server, port = create_server("127.0.0.1:0")
    health = await add_health(server, OPERATIONS, serving=False)
    await server.start()
    async with create_channel(f"127.0.0.1:{port}", None) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        statuses = []
        for serving_now in (False, True, False):
            await health.set_serving(serving_now)
            for service in ("", OPERATIONS):
                answer = await stub.Check(health_pb2.HealthCheckRequest(service=service))
                statuses.append(answer.status)
    yes, no = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
    assert statuses == [no, no, yes, yes, no, no]
    await stop_server(server, 0)


async def test_a_process_that_is_not_ready_is_alive_and_matters_of_their_own_stand_apart() -> None:
    server, port = create_server("127.0.0.1:0")
    health = await add_health(server, OPERATIONS, serving=False)
    await health.set_service("in-sync", False)
    await server.start()
    async with create_channel(f"127.0.0.1:{port}", None) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        await health.set_serving(True)
        of_its_own = await stub.Check(health_pb2.HealthCheckRequest(service="in-sync"))
        await health.set_serving(False)
        alive = await stub.Check(health_pb2.HealthCheckRequest(service=LIVENESS))
    assert of_its_own.status == health_pb2.HealthCheckResponse.NOT_SERVING
    assert alive.status == health_pb2.HealthCheckResponse.SERVING
    await stop_server(server, 0)


async def test_reflection_names_the_services_and_gives_their_files() -> None:
    server, port = create_server("127.0.0.1:0")
    add_reflection(server, OPERATIONS)
    await server.start()
    async with create_channel(f"127.0.0.1:{port}", None) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        request = reflection_pb2.ServerReflectionRequest
        call = stub.ServerReflectionInfo(iter([request(list_services=""), request(file_containing_symbol=OPERATIONS)]))
        names = [service.name for service in (await call.read()).list_services_response.service]
        files = (await call.read()).file_descriptor_response.file_descriptor_proto
    assert OPERATIONS in names
    assert "grpc.health.v1.Health" in names
    assert any(b"DescribeCluster" in each for each in files)
    await stop_server(server, 0)


async def test_a_stop_lets_calls_in_progress_finish_in_their_time() -> None:
    operations = Operations()
    server, address = await serving(operations)
    async with create_channel(address, None) as channel:
        stub = operations_pb2_grpc.OperationsStub(channel)
        call = asyncio.ensure_future(stub.DescribeCluster(operations_pb2.DescribeClusterRequest()))
        await operations.asked.wait()
        stopping = asyncio.create_task(stop_server(server, 60_000))
        await asyncio.sleep(0)
        operations.answer.set()
        assert (await call).cluster_id == "here"
        await stopping


async def test_a_stop_cancels_what_takes_longer() -> None:
    operations = Operations()
    server, address = await serving(operations)
    async with create_channel(address, None) as channel:
        stub = operations_pb2_grpc.OperationsStub(channel)
        call = asyncio.ensure_future(stub.DescribeCluster(operations_pb2.DescribeClusterRequest()))
        await operations.asked.wait()
        await stop_server(server, 10)
        with pytest.raises(grpc.aio.AioRpcError):
            await call
