"""MembershipClient: how gateways, purgatory pods and logstores find the active controller, follow it and send it
requests.

The active controller is found by its election key in etcd. One subscription is open to it at any time and delivers
UpdateMetadata; it moves with the election. Requests wait until an active controller is connected, within their
deadline; one whose answer is lost after it was sent is answered REQUEST_TIMED_OUT and never sent again: it may already
be done.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from barnabas.cluster.access.operator_calls import OperatorCall
from barnabas.cluster.controller_calls.method import ControllerMethod
from barnabas.cluster.keys import ControllerRegistration, Keys, Role, decode_registration
from barnabas.cluster.messages import UpdateMetadata
from barnabas.metrics.conditions import Condition
from barnabas.ports.etcd import Snapshot
from barnabas.runtime.active_controller import ActiveController
from barnabas.runtime.etcd import EtcdClient
from barnabas.runtime.inter_service import identity
from barnabas.runtime.large_messages import LARGE_BYTES, over_turns
from barnabas.runtime.logs import get_logger
from barnabas.runtime.protobuf import from_proto, from_proto_in_steps, message_class, to_proto
from barnabas.runtime.streams import StreamLink
from barnabas.wire.errors import ErrorCode
from barnabas_protos.controller.v1 import membership_pb2 as pb

Request = TypeVar("Request")
Response = TypeVar("Response")
OnUpdate = Callable[[UpdateMetadata, Message], None]
"""Gets the update and the message that it came in, to be passed on."""
OnOperatorCalls = Callable[[list[OperatorCall]], None]

_SUBSCRIBE = "/barnabas.controller.v1.Membership/Subscribe"
_RETRY_S = 0.05
_CONNECT_S = 1.0
# The controller enforces a request's own timeout; this much later the answer is not waited for any more.
_ANSWER_MARGIN_MS = 2000
_HEALTH_TIMEOUT_S = 2.0

_log = get_logger("membership")


class MembershipClient:
    """One per pod. `subscribe`, or `follow`, runs permanently; requests may be made meanwhile, concurrently."""

    def __init__(self, etcd: EtcdClient, keys: Keys, now_ms: Callable[[], int]) -> None:
        """`now_ms` is the monotonic clock that `last_heard_ms` is on."""
        self._etcd = etcd
        self._keys = keys
        self._now_ms = now_ms
        self._controller: ActiveController | None = None
        # Set, and replaced by another, when the active controller changes.
        self._moved = asyncio.Event()
        self._link: StreamLink | None = None
        self._applied_revision = -1
        # When the active controller last sent anything on the subscription; -1: never.
        self.last_heard_ms = -1

    def acknowledge(self, revision: int) -> None:
        """All processors of this pod answer by `revision` from now on."""
        if revision > self._applied_revision:
            self._applied_revision = revision
            self._tell_applied()

    async def subscribe(
        self, role: Role, pod_id: str, on_update: OnUpdate, on_operator_calls: OnOperatorCalls | None = None
    ) -> None:
        """Follow the active controller forever, calling `on_update` with all it publishes: a full update first.
        `on_operator_calls` gets calls of operators, for the topic of the audit; None: this pod takes none.
        """
        takes_calls = on_operator_calls is not None
        hello = pb.SubscribeRequest(role=role.value, pod_id=pod_id, takes_operator_calls=takes_calls)
        try:
            async with aclosing(self._elections()) as elections:
                async for address in elections:
                    await self._stop_listening()
                    self._link = self._listen(address, hello, on_update, on_operator_calls)
                    self._link.start()
        finally:
            await self._stop_listening()
            await self._move_to(None)

    async def follow(self) -> None:
        """Track the active controller forever, only for requests: logstores get its commands on the control channel."""
        try:
            async with aclosing(self._elections()) as elections:
                async for _ in elections:
                    pass
        finally:
            await self._move_to(None)

    async def ask(self, method: ControllerMethod[Request, Response], request: Request) -> Response:
        """Return the answer of the active controller, once there is one; after the request's timeout its `not_done`,
        and then it may still be done.
        """
        message = to_proto(request, message_class(method.request, pb))
        answer = await self._send(method, message, method.timeout_of(request))
        if answer is None:
            return method.not_done(request, ErrorCode.REQUEST_TIMED_OUT.message)
        return from_proto(method.response, answer)

    async def ask_once(self, method: ControllerMethod[Request, Response], request: Request) -> Response:
        """Return the answer of the active controller; at once the request's `not_done` if there is none, and so if it
        fails to answer.
        """
        controller = self._controller
        not_done = method.not_done(request, ErrorCode.REQUEST_TIMED_OUT.message)
        if controller is None:
            return not_done
        message = to_proto(request, message_class(method.request, pb))
        try:
            async with controller:
                answer = await controller.call(method.name, message, method.timeout_of(request) / 1000)
        except grpc.aio.AioRpcError:
            return not_done
        return from_proto(method.response, answer)

    @property
    def active_revision(self) -> int:
        """Return what no other term of an active controller has; -1 while none is known."""
        return -1 if self._controller is None else self._controller.create_revision

    async def report_health(
        self, role: Role, member_id: str, incarnation: str, conditions: Iterable[Condition]
    ) -> bool:
        """Report a member's conditions to the active controller. Return whether it has taken them; one of a version
        that takes none counts as having done so.
        """
        controller = self._controller
        if controller is None:
            return False
        reported = [pb.HealthCondition(kind=each.kind.value, text=each.text) for each in conditions]
        message = pb.ReportHealthRequest(role=role.value, id=member_id, incarnation=incarnation, conditions=reported)
        try:
            async with controller:
                answer = await controller.stub.ReportHealth(message, timeout=_HEALTH_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            return error.code() is grpc.StatusCode.UNIMPLEMENTED
        return answer.taken

    async def _elections(self) -> AsyncGenerator[str, None]:
        """Yield the address of each active controller."""
        async with aclosing(self._etcd.watch(self._keys.election)) as changes:
            async for change in changes:
                if isinstance(change, Snapshot):
                    found = [key_value for key_value in change.key_values if key_value.key == self._keys.election]
                    elected = found[0] if found else None
                else:
                    last = change.events[-1]
                    elected = None if last.deleted else last.key_value
                known = self._controller.create_revision if self._controller is not None else None
                # Without an active controller the last one stays known: it may be about to be elected again.
                if elected is not None and elected.create_revision != known:
                    record = decode_registration(Role.CONTROLLER, elected.value)
                    assert isinstance(record, ControllerRegistration)
                    await self._move_to(ActiveController(record.address, elected.create_revision))
                    yield record.address

    async def _move_to(self, controller: ActiveController | None) -> None:
        before, self._controller = self._controller, controller
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()
        if before is not None:
            await before.retire()

    def _listen(
        self, address: str, hello: pb.SubscribeRequest, on_update: OnUpdate, on_operator_calls: OnOperatorCalls | None
    ) -> StreamLink:
        def take(data: bytes) -> Awaitable[None] | None:
            response = pb.SubscribeResponse.FromString(data)
            self.last_heard_ms = self._now_ms()
            if response.operator_calls and on_operator_calls is not None:
                on_operator_calls([from_proto(OperatorCall, each) for each in response.operator_calls])
            if not response.HasField("update"):
                return None
            if len(data) >= LARGE_BYTES:
                return take_large(response)
            on_update(from_proto(UpdateMetadata, response.update), response.update)
            return None

        async def take_large(response: pb.SubscribeResponse) -> None:
            on_update(await over_turns(from_proto_in_steps(UpdateMetadata, response.update)), response.update)

        def take_first(data: bytes) -> Awaitable[None] | None:
            # What was applied before the connection was lost.
            self._tell_applied()
            return take(data)

        return StreamLink(
            address,
            _SUBSCRIBE,
            hello=hello.SerializeToString(),
            pack_heartbeat=lambda count: pb.SubscribeRequest(heartbeat=count).SerializeToString(),
            on_up=take_first,
            on_message=take,
            on_down=lambda reason: _log.warning(
                "lost the connection to the controller", address=address, reason=reason
            ),
        )

    async def _stop_listening(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    def _tell_applied(self) -> None:
        if self._link is not None and self._applied_revision > 0:
            self._link.send(pb.SubscribeRequest(applied_revision=self._applied_revision).SerializeToString())

    async def _send(self, method: ControllerMethod[Any, Any], message: Message, timeout_ms: int) -> Message | None:
        """Return None without an answer; then (unless nothing was sent) it is unknown whether it was done."""
        deadline_ms = self._now_ms() + max(0, timeout_ms) + _ANSWER_MARGIN_MS
        while (remaining_s := (deadline_ms - self._now_ms()) / 1000) > 0:
            controller, moved = self._controller, self._moved
            try:
                if controller is None:
                    async with asyncio.timeout(remaining_s):
                        await moved.wait()
                    continue
                if controller.generation != identity.generation():
                    # It connects again with the certificate that has been replaced since.
                    await self._move_to(ActiveController(controller.address, controller.create_revision))
                    continue
                async with controller:
                    async with asyncio.timeout(min(remaining_s, _CONNECT_S)):
                        await controller.channel.channel_ready()
                    return await controller.call(method.name, message, remaining_s)
            except TimeoutError:
                continue
            except grpc.aio.AioRpcError as error:
                # FAILED_PRECONDITION: not active, so it has done nothing; the election key will name the active one.
                if error.code() is not grpc.StatusCode.FAILED_PRECONDITION and not method.is_repeatable:
                    return None
            await asyncio.sleep(_RETRY_S)
        return None
