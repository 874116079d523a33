"""A synchronous client of the operators' API that finds the active one among any number of controllers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Final, Protocol, TypeVar

import grpc
from google.protobuf.message import Message

from barnabas_cli.operator_access import OPEN, AccessError, OperatorAccess
from barnabas_protos.controller.v1 import operations_pb2 as pb
from barnabas_protos.controller.v1.operations_pb2_grpc import OperationsStub

_ACTIVE_IS_AT: Final = "barnabas-controller"
_REFUSED: Final = "barnabas-refused"

RequestT = TypeVar("RequestT", bound=Message, contravariant=True)
AnswerT = TypeVar("AnswerT", bound=Message, covariant=True)


# Requests that change nothing may be sent to any controller and repeated.
_READING = ("Describe", "List")
_HANDSHAKE = ("certificate", "handshake", "SSL", "socket closed", "peer name")
# gRPC's details when it had no connection to send the request.
_NEVER_SENT = ("failed to connect", "DNS resolution failed")


class OperationsError(Exception):
    """The controller could not be reached, or refused. The message is one line for users."""

    def __init__(self, message: str, status: grpc.StatusCode | None = None) -> None:
        super().__init__(message)
        self.status = status


class Unary(Protocol[RequestT, AnswerT]):
    """One of the stub's methods."""

    def __call__(
        self, request: RequestT, timeout: float | None = None, metadata: tuple[tuple[str, str], ...] | None = None
    ) -> AnswerT: ...


class OperationsClient:
    """Use it as a context manager. Every call raises OperationsError."""

    def __init__(self, address: str, timeout_seconds: float = 10.0, access: OperatorAccess = OPEN) -> None:
        """`address`: host:port of every controller, separated by commas; `access`: how to authenticate there."""
        self.addresses = [each.strip() for each in address.split(",") if each.strip()]
        if not self.addresses:
            raise OperationsError("no controller address is given")
        for each in self.addresses:
            host, _, port = each.rpartition(":")
            if not host or not port.isdecimal():
                raise OperationsError(f"'{each}' is not a controller address HOST:PORT")
        self._timeout_seconds = timeout_seconds
        self._access = access
        self._channels: dict[str, grpc.Channel] = {}
        # The controller that answered last: the active one, as far as is known.
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
        """Return the active controller's answer, trying the others until it is found."""
        last: grpc.RpcError | None = None
        for address in self._candidates():
            try:
                answer = method(self._stub(address))(
                    request, timeout=self._timeout_seconds, metadata=self._access.metadata
                )
            except grpc.RpcError as error:
                if not self._is_elsewhere(error):
                    raise self._explained(error, address) from None
                if _may_be_done(request, error):
                    raise OperationsError(
                        f"the controller at {address} was lost: check whether the change was made, then try again",
                        error.code(),
                    ) from None
                last = error
                continue
            self._active = address
            return answer
        assert last is not None, "there is an address"
        raise self._explained(last, self.addresses[0])

    def watch(self, from_revision: int) -> Iterator[pb.WatchEventsResponse]:
        """Yield the events from one controller's stream without a deadline. It ends with OperationsError."""
        last: grpc.RpcError | None = None
        for address in self._candidates():
            try:
                for response in self._stub(address).WatchEvents(
                    pb.WatchEventsRequest(from_revision=from_revision), metadata=self._access.metadata
                ):
                    self._active = address
                    # The next controller continues from this revision.
                    from_revision = response.revision
                    yield response
            except grpc.RpcError as error:
                last = error
                if not self._is_elsewhere(error):
                    break
        assert last is not None, "a stream of events ends by a status"
        raise self._explained(last, self._active)

    def _candidates(self) -> Iterator[str]:
        """Yield the controller that was active last, then the other given ones, then those that they have named, which
        may be new.
        """
        tried: list[str] = []
        for address in (self._active, *self.addresses):
            if address not in tried:
                tried.append(address)
                yield address
        if self._active not in tried:
            yield self._active

    def _is_elsewhere(self, error: grpc.RpcError) -> bool:
        """This controller is not active, or not reachable: another one may be active."""
        trailers = _trailers(error)
        named = trailers.get(_ACTIVE_IS_AT)
        if isinstance(named, str) and named:
            self._active = named
        if error.code() is grpc.StatusCode.FAILED_PRECONDITION:
            return _REFUSED not in trailers
        return error.code() is grpc.StatusCode.UNAVAILABLE and _REFUSED not in trailers

    def _stub(self, address: str) -> OperationsStub:
        if address not in self._channels:
            try:
                self._channels[address] = self._access.channel(address, self.addresses[0])
            except AccessError as error:
                raise OperationsError(str(error)) from None
        return OperationsStub(self._channels[address])

    def _explained(self, error: grpc.RpcError, address: str) -> OperationsError:
        is_refused = _REFUSED in _trailers(error)
        details = " ".join((error.details() or error.code().name).split())
        match error.code():
            case grpc.StatusCode.UNAVAILABLE if not is_refused:
                details = f"the controller at {', '.join(self.addresses)} can't be reached{_tls_hint(details)}"
            case grpc.StatusCode.DEADLINE_EXCEEDED if not is_refused:
                details = f"the controller at {address} did not answer within {self._timeout_seconds:g} s"
            case grpc.StatusCode.UNIMPLEMENTED:
                details = f"the controller at {address} is of another version and does not know this: {details}"
        return OperationsError(details, error.code())


def notices_of_members(described: pb.DescribeClusterResponse) -> list[str]:
    """Return what members report of themselves that is over, a line each."""
    return [f"{each.role} {each.id}: {each.text} ({each.kind})" for each in described.conditions if not each.is_problem]


def _tls_hint(details: str) -> str:
    """Return what gRPC says of a handshake that failed, which is not that a controller is down."""
    failed = [word for word in _HANDSHAKE if word.lower() in details.lower()]
    return f": {details}" if failed else ""


def _trailers(error: grpc.RpcError) -> dict[str, str | bytes]:
    return {each[0]: each[1] for each in error.trailing_metadata() or ()}  # type: ignore[index] # the stubs are older


def _may_be_done(request: object, error: grpc.RpcError) -> bool:
    """The request changes state, and the connection was lost when it may already have been sent."""
    if type(request).__name__.startswith(_READING):
        return False
    return error.code() is grpc.StatusCode.UNAVAILABLE and not (error.details() or "").startswith(_NEVER_SENT)
