"""What the methods of the Operations service share: routing, deadlines, statuses and paging."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, TypeAlias, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from barnabas.cluster.keys import TopicRecord
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.state.image import ControllerImage
from barnabas_controller.core.state.operator_requests import Outcome, RequestRefused
from barnabas_controller.shell.driver import ControllerDriver, NotActive
from barnabas_controller.shell.membership import abort_not_active
from barnabas_protos.controller.v1 import operations_pb2 as pb

if TYPE_CHECKING:
    Context = grpc.aio.ServicerContext[object, object]

TIMEOUT_MS: Final = 30_000
# Subtracted from the caller's deadline, to have time to answer.
_ANSWER_MS: Final = 500
PAGE_SIZE: Final = 1_000
PAGE_SIZE_MAX: Final = 10_000

_SERVICE: Final = pb.DESCRIPTOR.services_by_name["Operations"]
T = TypeVar("T")


class Refusal(Exception):  # noqa: N818  (an answer on its way to the one place that gives it)
    """A status other than OK, with one line that says what to do."""

    def __init__(self, status: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Call:
    """One request's deadline."""

    __slots__ = ("_context",)

    def __init__(self, context: Context) -> None:
        self._context = context

    @property
    def timeout_ms(self) -> int:
        """The caller's deadline, minus the time to answer."""
        remaining_s = self._context.time_remaining()
        return TIMEOUT_MS if remaining_s is None else min(TIMEOUT_MS, max(0, int(remaining_s * 1000) - _ANSWER_MS))


Method: TypeAlias = Callable[[Any, Call], Message | Awaitable[Message]]
"""Takes the request; returns the answer, or raises Refusal, RequestRefused (of the core) or NotActive."""


class QuestionKind(Protocol):
    def methods(self) -> Mapping[str, Method]:
        """Returns the methods by name."""


def unary_method(driver: ControllerDriver, name: str, method: Method) -> grpc.RpcMethodHandler[Any, Any]:
    """A method that only the active controller answers."""
    descriptor = _SERVICE.methods_by_name[name]

    async def serve(request: Message, context: Context) -> Message:
        try:
            if not driver.core.active:
                raise NotActive(untouched=True)
            answer = method(request, Call(context))
            return answer if isinstance(answer, Message) else await answer
        except NotActive as outcome:
            await abort_not_active(context, driver, outcome)
        except RequestRefused as refused:
            await _abort(context, refusal_of(refused.outcome, refused.message))
        except Refusal as refusal:
            await _abort(context, refusal)

    return grpc.unary_unary_rpc_method_handler(
        serve,
        request_deserializer=GetMessageClass(descriptor.input_type).FromString,
        response_serializer=lambda message: message.SerializeToString(),
    )


def stream_method(
    driver: ControllerDriver, method: Callable[[pb.WatchEventsRequest], AsyncIterator[Message]]
) -> grpc.RpcMethodHandler[Any, Any]:
    """A method with a stream of answers, which only the active controller serves."""

    async def serve(request: pb.WatchEventsRequest, context: Context) -> AsyncIterator[Message]:
        try:
            if not driver.core.active:
                raise NotActive(untouched=True)
            async for message in method(request):
                yield message
        except NotActive as outcome:
            await abort_not_active(context, driver, outcome)
        except Refusal as refusal:
            await _abort(context, refusal)

    return grpc.unary_stream_rpc_method_handler(
        serve,
        request_deserializer=pb.WatchEventsRequest.FromString,
        response_serializer=lambda message: message.SerializeToString(),
    )


async def _abort(context: Context, refusal: Refusal) -> NoReturn:
    """Abort with a mark that distinguishes our refusals from gRPC's, such as an unreachable server."""
    context.set_trailing_metadata((("barnabas-refused", "1"),))
    await context.abort(refusal.status, refusal.message)
    raise AssertionError("abort raises")


# --- refusals that many give ------------------------------------------------------------------------------------------


def not_found(message: str) -> Refusal:
    return Refusal(grpc.StatusCode.NOT_FOUND, message)


def invalid(message: str) -> Refusal:
    return Refusal(grpc.StatusCode.INVALID_ARGUMENT, message)


def refused_state(message: str) -> Refusal:
    return Refusal(grpc.StatusCode.FAILED_PRECONDITION, message)


def refusal_of(outcome: Outcome, message: str) -> Refusal:
    """Return the status of an outcome other than DONE."""
    match outcome:
        case Outcome.INVALID:
            return invalid(message)
        case Outcome.NOT_FOUND:
            return not_found(message)
        case Outcome.REFUSED:
            return refused_state(message)
        case Outcome.TIMED_OUT:
            return Refusal(grpc.StatusCode.DEADLINE_EXCEEDED, f"not done in time: {message}")
        case Outcome.DONE:
            raise AssertionError("what is done is not refused")


def unavailable(message: str) -> Refusal:
    return Refusal(grpc.StatusCode.UNAVAILABLE, message)


def unknown_topic(topic: str) -> Refusal:
    return not_found(f"there is no topic '{topic}'")


def require_topic(image: ControllerImage, topic: str) -> TopicRecord:
    """Raises Refusal."""
    found = image.topics.get(topic)
    if found is None:
        raise unknown_topic(topic)
    return found


def require_node(image: ControllerImage, node_id: int) -> None:
    """Return a known logstore. Raises Refusal."""
    known = sorted(image.known_node_ids())
    if node_id not in known:
        there_are = f"there are {', '.join(map(str, known))}" if known else "none has ever registered"
        raise not_found(f"there is no logstore {node_id}; {there_are}")


def require_done(error_code: int, message: str) -> None:
    """Turn Kafka's error codes into statuses. Raises Refusal."""
    code = ErrorCode(error_code)
    match code:
        case ErrorCode.NONE:
            return
        case ErrorCode.UNKNOWN_TOPIC_OR_PARTITION | ErrorCode.UNKNOWN_TOPIC_ID:
            raise not_found(message or code.message)
        case ErrorCode.REQUEST_TIMED_OUT:
            raise Refusal(grpc.StatusCode.DEADLINE_EXCEEDED, f"{code.name}: {message or code.message}")
        case ErrorCode.NO_REASSIGNMENT_IN_PROGRESS:
            raise refused_state(f"{code.name}: {message or code.message}")
        case _:
            raise invalid(f"{code.name}: {message or code.message}")


# --- pages ------------------------------------------------------------------------------------------------------------


def page_size_of(asked: int) -> int:
    """Raises Refusal."""
    if not 0 <= asked <= PAGE_SIZE_MAX:
        raise invalid(f"page_size is {asked}: between 0 (for {PAGE_SIZE}) and {PAGE_SIZE_MAX}")
    return asked or PAGE_SIZE


def page_of(items: Iterable[T], asked_size: int, token: str, name_of: Callable[[T], str]) -> tuple[list[T], str]:
    """Return a page of items sorted by unique names, and the token of the next page: the name of the last item. Raises
    Refusal.
    """
    size = page_size_of(asked_size)
    later = (item for item in items if not token or name_of(item) > token)
    page = list(islice(later, size + 1))
    if len(page) <= size:
        return page, ""
    return page[:size], name_of(page[size - 1])


def token_of(position: tuple[str, int]) -> str:
    """Return the token of a page that ends with that topic and partition."""
    return f"{position[0]}/{position[1]}"


def position_of(token: str) -> tuple[str, int] | None:
    """Return the last item of the previous page; None if there was none. Raises Refusal."""
    if not token:
        return None
    topic, _, number = token.rpartition("/")
    if not topic or not number.isdecimal():
        raise invalid(f"page_token '{token}' is not one that an answer returned")
    return topic, int(number)
