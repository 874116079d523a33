"""The client of the operators' API, with controllers that come and go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import grpc
import pytest

from barnabas.cli.operations import OperationsClient, OperationsError
from protos.controller.v1 import operations_pb2 as pb
from protos.controller.v1.operations_pb2_grpc import OperationsStub


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

    def WatchEvents(self, request: pb.WatchEventsRequest) -> Iterator[pb.WatchEventsResponse]:  # noqa: N802
        for revision in range(request.from_revision + 1, self.last_revision + 1):
            yield pb.WatchEventsResponse(revision=revision)
        raise Gone


class Client(OperationsClient):
    def _stub(self, address: str) -> OperationsStub:
        return cast("OperationsStub", DyingController(3 if address == "a:1" else 5))


def test_a_watch_goes_on_at_the_next_controller_where_the_last_one_ended() -> None:
    """It began again where it had been asked to, and told everything twice."""
    watch = Client("a:1,b:1").watch(1)
    assert [next(watch).revision for _ in range(4)] == [2, 3, 4, 5]
    with pytest.raises(OperationsError, match="can't be reached"):
        next(watch)
