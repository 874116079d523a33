"""Requests to logstores, over the calls that gateways use: groups on a Coordinate stream, the rest on Administration.

Operators ask rarely, so each request has its own connection, and a deadline; a logstore that does not answer is named.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from barnabas.channel.credits import CreditAccount
from barnabas.channel.messages import Credit
from barnabas.cluster.keys import Role
from barnabas.runtime.rpc import create_channel
from barnabas.runtime.streams import StreamLink
from barnabas.wire.codec import decode_response_body, encode_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import Request, Response, api_key_of
from barnabas_controller.core.controller import ControllerCore
from barnabas_protos.logstore.v1 import administration_pb2, coordination_pb2
from barnabas_protos.logstore.v1.data_pb2 import Hello

# A limit whatever the operator's deadline is: a dead logstore stays dead, and a partial answer is useful.
ANSWER_MS_MAX: Final = 5_000

_COORDINATE: Final = "/barnabas.logstore.v1.Coordination/Coordinate"
_ADMINISTRATION: Final = administration_pb2.DESCRIPTOR.services_by_name["Administration"]

AnswerT = TypeVar("AnswerT", bound=Message)
T = TypeVar("T")


class NoAnswer(Exception):  # noqa: N818  (a partial answer names it)
    """A logstore did not answer; the message names it and says why."""


@dataclass(slots=True, frozen=True)
class GroupQuestion:
    """One of Kafka's requests to the coordinator of groups, in that version."""

    partition: int
    request: Request
    version: int


class LogstoreQuestions:
    def __init__(self, core: ControllerCore) -> None:
        self._image = core.image

    def _address(self, node_id: int) -> str:
        """Raises NoAnswer."""
        registered = self._image.logstores.get(node_id)
        if registered is None:
            raise NoAnswer(f"logstore {node_id} is down")
        return registered.record.data_address

    async def ask_coordinator(
        self, node_id: int, questions: Sequence[GroupQuestion], timeout_ms: int
    ) -> list[Response | ErrorCode]:
        """Return what the coordinators on that logstore answer, in order, or why they refuse. Raises NoAnswer."""
        asking = _Asking(self._address(node_id), self._image.cluster_id, questions)
        return await _in_time(node_id, timeout_ms, asking.run())

    async def administer(
        self, node_id: int, method: str, request: Message, answer_type: type[AnswerT], timeout_ms: int
    ) -> AnswerT:
        """Call a method of the Administration service. Raises NoAnswer."""
        assert method in _ADMINISTRATION.methods_by_name
        async with create_channel(self._address(node_id), Role.LOGSTORE) as channel:
            call: grpc.aio.UnaryUnaryMultiCallable[Message, AnswerT] = channel.unary_unary(
                f"/{_ADMINISTRATION.full_name}/{method}",
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=answer_type.FromString,
            )
            try:
                return await _in_time(node_id, timeout_ms, call(request))
            except grpc.aio.AioRpcError as error:
                raise NoAnswer(f"logstore {node_id} does not answer: {error.details()}") from None


async def _in_time(node_id: int, timeout_ms: int, answer: Awaitable[T]) -> T:
    timeout_ms = min(timeout_ms, ANSWER_MS_MAX)
    try:
        return await asyncio.wait_for(answer, timeout_ms / 1000)
    except TimeoutError:
        raise NoAnswer(f"logstore {node_id} did not answer within {timeout_ms / 1000:g} s") from None


async def gather_answers(answers: Mapping[int, Awaitable[T]]) -> tuple[dict[int, T], list[str]]:
    """Return the answers of the logstores by node id, and a line for each that does not answer."""
    outcomes = await asyncio.gather(*answers.values(), return_exceptions=True)
    answered: dict[int, T] = {}
    unanswered: list[str] = []
    for node_id, outcome in zip(answers, outcomes, strict=True):
        if isinstance(outcome, NoAnswer):
            unanswered.append(str(outcome))
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            answered[node_id] = outcome
    return answered, unanswered


class _Asking:
    """One exchange on a Coordinate stream: hello, calls as far as there is credit, their answers."""

    def __init__(self, address: str, cluster_id: str, questions: Sequence[GroupQuestion]) -> None:
        self._questions = questions
        self._bodies = [encode_body(each.request, each.version) for each in questions]
        self._asked = 0
        self._answers: dict[int, coordination_pb2.GroupAnswer] = {}
        self._credit = CreditAccount()
        self._all: asyncio.Future[list[coordination_pb2.GroupAnswer]] = asyncio.get_running_loop().create_future()
        hello = coordination_pb2.CoordinateRequest(hello=Hello(cluster_id=cluster_id, peer="controller"))
        self._link = StreamLink(
            address,
            _COORDINATE,
            hello=hello.SerializeToString(),
            pack_heartbeat=lambda count: coordination_pb2.CoordinateRequest(heartbeat=count).SerializeToString(),
            on_up=self._message,
            on_message=self._message,
            on_down=self._down,
        )

    async def run(self) -> list[Response | ErrorCode]:
        self._link.start()
        try:
            answers = await self._all
        finally:
            await self._link.close()
        return [_decoded(*each) for each in zip(self._questions, answers, strict=True)]

    def _message(self, data: bytes) -> None:
        response = coordination_pb2.CoordinateResponse.FromString(data)
        if response.HasField("credit"):
            self._credit.grant(Credit(response.credit.requests, response.credit.bytes))
        for answer in response.answers:
            self._answers[answer.request_id] = answer
        if len(self._answers) == len(self._questions):
            if not self._all.done():
                self._all.set_result([self._answers[number] for number in range(1, len(self._questions) + 1)])
            return
        asked = coordination_pb2.CoordinateRequest()
        while self._asked < len(self._questions):
            question, body = self._questions[self._asked], self._bodies[self._asked]
            if not self._credit.try_spend(1, len(body)):
                break
            self._asked += 1
            asked.calls.add(
                request_id=self._asked,
                partition=question.partition,
                api_key=api_key_of(type(question.request)),
                api_version=question.version,
                client_id="controller",
                body=body,
            )
        if asked.calls:
            self._link.send(asked.SerializeToString())

    def _down(self, reason: str) -> None:
        """The requests are lost; repeating them is harmless, so the next stream begins with all of them."""
        self._credit.reset()
        self._asked = 0
        self._answers.clear()


def _decoded(question: GroupQuestion, answer: coordination_pb2.GroupAnswer) -> Response | ErrorCode:
    if answer.error_code:
        return ErrorCode(answer.error_code)
    if not answer.body:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return decode_response_body(api_key_of(type(question.request)), question.version, memoryview(answer.body))
