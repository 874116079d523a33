"""The client of the operators' API, with controllers that come and go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import grpc
import pytest

from barnabas_cli.operations import OperationsClient, OperationsError
from barnabas_protos.controller.v1 import operations_pb2 as pb
from barnabas_protos.controller.v1.operations_pb2_grpc import OperationsStub


class Gone(grpc.RpcError):
    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return "gone"

    def trailing_metadata(self) -> tuple[Any, ...]:
        return ()


class DyingController:
    """Tells of the revisions after the one that it is asked for, up to its last, and dies."""

    def __init__(self, last_revision: int) -> None:
        self.last_revision = last_revision

    def WatchEvents(  # noqa: N802
        self, request: pb.WatchEventsRequest, metadata: object
    ) -> Iterator[pb.WatchEventsResponse]:
        for revision in range(request.from_revision + 1, self.last_revision + 1):
            yield pb.WatchEventsResponse(revision=revision)
        raise Gone


class Client(OperationsClient):
    def _stub(self, address: str) -> OperationsStub:
        return cast("OperationsStub", DyingController(3 if address == "a:1" else 5))


def test_a_watch_goes_on_at_the_next_controller_where_the_last_one_ended() -> None:
    """It started over where it had been asked to begin, and returned every event twice."""
    watch = Client("a:1,b:1").watch(1)
    assert [next(watch).revision for _ in range(4)] == [2, 3, 4, 5]
    with pytest.raises(OperationsError, match="can't be reached"):
        next(watch)


class Asked:
    """Its connections are lost, before or after a request has left."""

    def __init__(self, details: str) -> None:
        self.lost = Gone()
        self.lost.details = lambda: details  # type: ignore[method-assign]
        self.requests: list[object] = []

    def _ask(self, request: object, timeout: float, metadata: object) -> object:
        self.requests.append(request)
        raise self.lost

    CreateTopic = DescribeTopic = _ask


class Asking(OperationsClient):
    def __init__(self, details: str) -> None:
        super().__init__("a:1,b:1")
        self.controllers = {address: Asked(details) for address in self.addresses}

    def _stub(self, address: str) -> OperationsStub:
        return cast("OperationsStub", self.controllers[address])


def test_what_may_have_been_done_is_not_asked_of_another_controller() -> None:
    """A topic that the lost controller had made was reported as one that exists already."""
    client = Asking("recvmsg: Connection reset by peer")
    with pytest.raises(OperationsError, match="check whether the change was made"):
        client.ask(lambda stub: stub.CreateTopic, pb.CreateTopicRequest(topic="t"))
    assert client.controllers["b:1"].requests == []
    with pytest.raises(OperationsError, match="can't be reached"):
        client.ask(lambda stub: stub.DescribeTopic, pb.DescribeTopicRequest(topic="t"))
    assert len(client.controllers["b:1"].requests) == 1


def test_what_was_never_sent_is_asked_of_the_next_controller() -> None:
    client = Asking("failed to connect to all addresses; last error: connection refused")
    with pytest.raises(OperationsError, match="can't be reached"):
        client.ask(lambda stub: stub.CreateTopic, pb.CreateTopicRequest(topic="t"))
    assert len(client.controllers["b:1"].requests) == 1
