"""The operators' API, synchronously: one client of however many controllers, of which one is active."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Final, Protocol, TypeVar

import grpc
from google.protobuf.message import Message

from barnabas_protos.controller.v1 import operations_pb2 as pb
from barnabas_protos.controller.v1.operations_pb2_grpc import OperationsStub

_ACTIVE_IS_AT: Final = "barnabas-controller"
_REFUSED: Final = "barnabas-refused"
# A proxy of the environment is never meant for a service of the cluster.
_OPTIONS: Final = [("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", 256 << 20)]

RequestT = TypeVar("RequestT", bound=Message, contravariant=True)
AnswerT = TypeVar("AnswerT", bound=Message, covariant=True)


# Requests that change nothing may be asked of anybody, as often as need be.
_READING = ("Describe", "List")
# What gRPC says where there was no connection to send by.
_NEVER_SENT = ("failed to connect", "DNS resolution failed")


class OperationsError(Exception):
    """The controller could not be reached, or refused; the message is one line for people."""

    def __init__(self, message: str, status: grpc.StatusCode | None = None) -> None:
        super().__init__(message)
        self.status = status


class Unary(Protocol[RequestT, AnswerT]):
    """One of the stub's methods."""

    def __call__(self, request: RequestT, timeout: float | None = None) -> AnswerT: ...


class OperationsClient:
    """Use it as a context manager. Every call raises OperationsError."""

    def __init__(self, address: str, timeout_seconds: float = 10.0) -> None:
        """`address`: host:port, or several of them with commas between: of all controllers."""
        self.addresses = [each.strip() for each in address.split(",") if each.strip()]
        if not self.addresses:
            raise OperationsError("no address of a controller is given")
        for each in self.addresses:
            host, _, port = each.rpartition(":")
            if not host or not port.isdecimal():
                raise OperationsError(f"'{each}' is no address of a controller: host:port")
        self._timeout_seconds = timeout_seconds
        self._channels: dict[str, grpc.Channel] = {}
        # Where the last answer came from: the active controller, as far as is known.
        self._active = self.addresses[0]

    def __enter__(self) -> OperationsClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for channel in self._channels.values():
            channel.close()

    def describe_cluster(self) -> pb.DescribeClusterResponse:
        return self.ask(lambda stub: stub.DescribeCluster, pb.DescribeClusterRequest())

    def ask(self, method: Callable[[OperationsStub], Unary[RequestT, AnswerT]], request: RequestT) -> AnswerT:
        """The active controller's answer: whoever is asked first, it is found."""
        last: grpc.RpcError | None = None
        for address in self._candidates():
            try:
                answer = method(self._stub(address))(request, timeout=self._timeout_seconds)
            except grpc.RpcError as error:
                if not self._is_elsewhere(error):
                    raise self._explained(error, address) from None
                if _may_be_done(request, error):
                    raise OperationsError(
                        f"the controller at {address} was lost: look whether it is done, then ask again",
                        error.code(),
                    ) from None
                last = error
                continue
            self._active = address
            return answer
        assert last is not None, "there is an address"
        raise self._explained(last, self.addresses[0])

    def watch(self, from_revision: int) -> Iterator[pb.WatchEventsResponse]:
        """One stream of one controller, without a deadline; it ends with OperationsError."""
        last: grpc.RpcError | None = None
        for address in self._candidates():
            try:
                for response in self._stub(address).WatchEvents(pb.WatchEventsRequest(from_revision=from_revision)):
                    self._active = address
                    # Whoever is asked next goes on from there.
                    from_revision = response.revision
                    yield response
            except grpc.RpcError as error:
                last = error
                if not self._is_elsewhere(error):
                    break
        assert last is not None, "a stream of events ends by a status"
        raise self._explained(last, self._active)

    def _candidates(self) -> Iterator[str]:
        """Who was active last, then the others; then whoever they have named, who may not be one of those given."""
        tried: list[str] = []
        for address in (self._active, *self.addresses):
            if address not in tried:
                tried.append(address)
                yield address
        if self._active not in tried:
            yield self._active

    def _is_elsewhere(self, error: grpc.RpcError) -> bool:
        """This one is not active, or not there: another one may be."""
        trailers = _trailers(error)
        named = trailers.get(_ACTIVE_IS_AT)
        if isinstance(named, str) and named:
            self._active = named
        if error.code() is grpc.StatusCode.FAILED_PRECONDITION:
            return _REFUSED not in trailers
        return error.code() is grpc.StatusCode.UNAVAILABLE and _REFUSED not in trailers

    def _stub(self, address: str) -> OperationsStub:
        if address not in self._channels:
            self._channels[address] = grpc.insecure_channel(address, options=_OPTIONS)
        return OperationsStub(self._channels[address])

    def _explained(self, error: grpc.RpcError, address: str) -> OperationsError:
        is_refused = _REFUSED in _trailers(error)
        details = " ".join((error.details() or error.code().name).split())
        match error.code():
            case grpc.StatusCode.UNAVAILABLE if not is_refused:
                details = f"the controller at {', '.join(self.addresses)} can't be reached"
            case grpc.StatusCode.DEADLINE_EXCEEDED if not is_refused:
                details = f"the controller at {address} did not answer within {self._timeout_seconds:g} s"
            case grpc.StatusCode.UNIMPLEMENTED:
                details = f"the controller at {address} is of another version and does not know this: {details}"
        return OperationsError(details, error.code())


def _trailers(error: grpc.RpcError) -> dict[str, str | bytes]:
    return {each[0]: each[1] for each in error.trailing_metadata() or ()}  # type: ignore[index] # the stubs are older


def _may_be_done(request: object, error: grpc.RpcError) -> bool:
    """It changes something, and the connection was lost when it may have been on its way."""
    if type(request).__name__.startswith(_READING):
        return False
    return error.code() is grpc.StatusCode.UNAVAILABLE and not (error.details() or "").startswith(_NEVER_SENT)
