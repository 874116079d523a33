"""CallRecords: the calls of operators that this controller has recorded, until a gateway has them for the topic of the
audit.

The gateways that have `audit.topic` are known to the active controller alone, so another one sends its records there.
They wait in memory, for two minutes at most, and are bounded: a caller without any right can cause as many as it likes,
and the newest are dropped. All of them are in the log.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

import grpc
import grpc.aio

from barnabas.cluster.access.operator_calls import OperatorCall, RecordOperatorCallsRequest, bounded
from barnabas.cluster.keys import ControllerRegistration, Role
from barnabas.metrics import security_families as families
from barnabas.metrics.family import Sample
from barnabas.runtime.clock import monotonic_ms, wall_ms
from barnabas.runtime.contained import CONTAINED
from barnabas.runtime.logs import get_logger
from barnabas.runtime.loop.background import BackgroundTasks
from barnabas.runtime.protobuf import to_proto
from barnabas.runtime.rpc import create_channel
from barnabas.runtime.streams import ServerStream
from barnabas_controller.shell.containment import AUDIT
from barnabas_protos.controller.v1 import membership_pb2 as pb
from barnabas_protos.controller.v1 import membership_pb2_grpc as rpc

WAITING_MAX: Final = 1_000
WAITING_MS_MAX: Final = 120_000
BATCH_MAX: Final = 100
LINGER_MS: Final = 100
_RETRY_MS: Final = 1_000
_UNSENT_BYTES_MAX: Final = 256 << 10
"""A gateway with so much unsent on its subscription gets records later: metadata comes first."""
_ANSWER_S_MAX: Final = 5.0
_KNOWS_NO_RECORDS: Final = (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.PERMISSION_DENIED)
"""What a controller of an earlier version answers; the second, where services have certificates."""

_log = get_logger("operators")

Send = Callable[[str, Sequence[OperatorCall]], Awaitable[None]]
"""Sends calls to the controller at an address. Raises AioRpcError: it may not have them."""


async def send_to_controller(address: str, calls: Sequence[OperatorCall]) -> None:
    """Raises AioRpcError."""
    message = to_proto(RecordOperatorCallsRequest(list(calls)), pb.RecordOperatorCallsRequest)
    channel = create_channel(address, Role.CONTROLLER)
    try:
        await rpc.MembershipStub(channel).RecordOperatorCalls(message, timeout=_ANSWER_S_MAX)
    finally:
        await channel.close(None)


class CallRecords:
    """On one event loop."""

    def __init__(
        self, controller_id: str, send: Send = send_to_controller, now_ms: Callable[[], int] = monotonic_ms
    ) -> None:
        self.elected: Callable[[], ControllerRegistration | None] = lambda: None
        """Returns the controller that is active; set once this one knows the cluster."""
        self._controller_id = controller_id
        self._send = send
        self._now_ms = now_ms
        self._waiting: deque[tuple[int, OperatorCall]] = deque()
        """With the time from which each has waited."""
        self._takers: dict[int, ServerStream] = {}
        """By subscription, of gateways that write them; the first is next."""
        self._timer: asyncio.TimerHandle | None = None
        self._tasks = BackgroundTasks(AUDIT)
        self._sending: asyncio.Task[None] | None = None
        self._is_wanted = False
        """Whether some gateway has ever taken records here: without one, none is missed."""
        self._handed_over = 0
        self._dropped = 0

    # --- what is recorded --------------------------------------------------------------------------------------------

    def record(self, principal: str, peer: str, operation: str, verdict: str, reason: str = "") -> None:
        """Record a call to this controller; the words are those of `OperatorCall`."""
        self.add(OperatorCall(wall_ms(), self._controller_id, principal, peer, operation, verdict, reason))

    def add(self, call: OperatorCall) -> None:
        """Keep it until it is handed over, or drop it; never wait."""
        if len(self._waiting) >= WAITING_MAX:
            self._drop(1, "too many wait")
            return
        self._waiting.append((self._now_ms(), bounded(call)))
        self._deliver_in(LINGER_MS)

    def _drop(self, records: int, reason: str) -> None:
        if self._is_wanted:
            self._dropped += records
            _log.warning("records of the audit dropped", records=records, reason=reason, limit_key=f"audit: {reason}")

    # --- who takes them ----------------------------------------------------------------------------------------------

    def add_taker(self, subscriber_id: int, stream: ServerStream) -> None:
        """A gateway that writes records has subscribed."""
        self._takers[subscriber_id] = stream
        self._is_wanted = True
        self._deliver_in(0)

    def remove_taker(self, subscriber_id: int) -> None:
        self._takers.pop(subscriber_id, None)

    def _deliver_in(self, delay_ms: int) -> None:
        if self._timer is None and self._sending is None:
            self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._deliver)

    def _deliver(self) -> None:
        """Hand over one batch, and come back for what is left."""
        self._timer = None
        try:
            self._deliver_some()
        except Exception as error:
            CONTAINED.contain(AUDIT, error)
            if self._waiting:
                self._deliver_in(_RETRY_MS)

    def _deliver_some(self) -> None:
        self._forget_old()
        if not self._waiting:
            return
        if self._takers:
            self._hand_to_gateway()
            if self._waiting:
                self._deliver_in(LINGER_MS)
            return
        elected = self.elected()
        if elected is None or elected.controller_id == self._controller_id:
            self._deliver_in(_RETRY_MS)
        else:
            self._sending = self._tasks.start(self._send_on(elected.address))

    def _forget_old(self) -> None:
        oldest_ms = self._now_ms() - WAITING_MS_MAX
        old = 0
        while self._waiting and self._waiting[0][0] < oldest_ms:
            self._waiting.popleft()
            old += 1
        if old:
            self._drop(old, "no gateway takes them")

    def _hand_to_gateway(self) -> None:
        """Each gateway in turn gets a batch."""
        for subscriber_id, stream in list(self._takers.items()):
            self._takers[subscriber_id] = self._takers.pop(subscriber_id)
            if stream.pending_bytes <= _UNSENT_BYTES_MAX:
                calls = [to_proto(call, pb.OperatorCall) for _, call in self._take_batch()]
                stream.send(pb.SubscribeResponse(operator_calls=calls).SerializeToString())
                self._handed_over += len(calls)
                return

    def _take_batch(self) -> list[tuple[int, OperatorCall]]:
        return [self._waiting.popleft() for _ in range(min(BATCH_MAX, len(self._waiting)))]

    async def _send_on(self, address: str) -> None:
        """To the active controller; a batch that it may not have is sent again."""
        batch = self._take_batch()
        delay_ms = LINGER_MS
        try:
            await self._send(address, [call for _, call in batch])
            self._handed_over += len(batch)
        except grpc.aio.AioRpcError as error:
            if error.code() in _KNOWS_NO_RECORDS:
                self._drop(len(batch), "the active controller is of an earlier version")
            else:
                self._waiting.extendleft(reversed(batch))
                delay_ms = _RETRY_MS
        except Exception as error:
            CONTAINED.contain(AUDIT, error)
            self._drop(len(batch), "an internal error")
            delay_ms = _RETRY_MS
        finally:
            self._sending = None
        if self._waiting:
            self._deliver_in(delay_ms)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._tasks.stop()

    def samples(self) -> Iterator[Sample]:
        for outcome, records in (("handed over", self._handed_over), ("dropped", self._dropped)):
            yield Sample(families.AUDIT_RECORDS, (outcome,), records)
