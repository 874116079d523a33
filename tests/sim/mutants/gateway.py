"""Gateways: rules 27 and 28, and what a lost stream may be called."""

from __future__ import annotations

from typing import Any

from barnabas.wire.errors import ErrorCode
from services.gateway.core.appends import AppendRouter, PendingAppend
from services.gateway.core.connection import Connection
from services.gateway.core.processor import Processor
from services.gateway.core.produce import PendingProduce
from services.gateway.core.requests import RequestRoom
from services.gateway.core.slots import ResponseKind, Slot
from tests.sim.faults import Fault
from tests.sim.mutants.planting import Mutants, replace_in

GATEWAY = Mutants("gateway")


@GATEWAY.breaks("27")
def answers_out_of_order() -> None:
    original = RequestRoom.answered

    def answered(self: RequestRoom, slot: Slot, kind: ResponseKind) -> None:
        slots = slot.connection.slots
        slots.remove(slot)
        slots.appendleft(slot)
        original(self, slot, kind)

    replace_in(RequestRoom, "answered", answered)


@GATEWAY.breaks("27")
def nothing_is_a_barrier() -> None:
    def may_start(self: Connection, frame: memoryview) -> bool:
        return True

    replace_in(Connection, "may_start", may_start)


@GATEWAY.breaks("28")
def acks_0_is_answered() -> None:
    original = RequestRoom.answered

    def answered(self: RequestRoom, slot: Slot, kind: ResponseKind) -> None:
        if kind is ResponseKind.NO_OP and isinstance(slot, PendingProduce):
            self.respond(slot, slot.response)
        else:
            original(self, slot, kind)

    replace_in(RequestRoom, "answered", answered)


@GATEWAY.breaks("7", [Fault.RESET, Fault.CRASH_WRITTEN, Fault.KILL_LOGSTORE, Fault.CUT_ONE_WAY])
def a_lost_stream_means_not_written() -> None:
    """What was sent on a stream that is lost is told to be refused, which it may not be."""
    original = AppendRouter._fail

    def fail(self: AppendRouter, append: PendingAppend, error: ErrorCode) -> Any:
        told = ErrorCode.NOT_ENOUGH_REPLICAS if error is ErrorCode.REQUEST_TIMED_OUT else error
        return original(self, append, told)

    replace_in(AppendRouter, "_fail", fail)


@GATEWAY.breaks("I16")
def request_bytes_are_not_given_back() -> None:
    original = Processor.connection_closed

    def connection_closed(self: Processor, connection_id: int, now_ms: int) -> None:
        self.request_memory.held_bytes += 1
        original(self, connection_id, now_ms)

    replace_in(Processor, "connection_closed", connection_closed)
