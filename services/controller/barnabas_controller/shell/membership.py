"""The Membership service: requests of gateways, purgatory pods and logstores to the active controller."""

from __future__ import annotations

from secrets import token_bytes
from typing import TYPE_CHECKING, Any, NoReturn

import grpc
import grpc.aio
from google.protobuf.message import Message

from barnabas.cluster.access.operator_calls import RecordOperatorCallsRequest
from barnabas.cluster.controller_calls.method import ControllerMethod
from barnabas.cluster.controller_calls.table import CONTROLLER_CALLS, LogstoreRequest
from barnabas.cluster.keys import Role
from barnabas.metrics.conditions import Condition, ConditionKind
from barnabas.runtime.clock import monotonic_us
from barnabas.runtime.inter_service import identity
from barnabas.runtime.logs import get_logger
from barnabas.runtime.protobuf import from_proto, message_class, to_proto
from barnabas.runtime.streams import ServerStream, register_stream
from barnabas.runtime.tracing.trace_parent import trace_of
from barnabas.runtime.tracing.traces import Span, TraceExporter
from barnabas_controller.shell.driver import ControllerDriver, NotActive
from barnabas_controller.shell.operators.call_records import CallRecords
from barnabas_protos.controller.v1 import membership_pb2 as pb

if TYPE_CHECKING:
    Context = grpc.aio.ServicerContext[object, object]

SERVICE = pb.DESCRIPTOR.services_by_name["Membership"].full_name
_ROLES = {role.value: role for role in (Role.GATEWAY, Role.PURGATORY)}
_REPORTING = {role.value: role for role in (Role.GATEWAY, Role.LOGSTORE, Role.PURGATORY)}
_KINDS = frozenset(ConditionKind)

_log = get_logger("controller.membership")


def add_membership(
    server: grpc.aio.Server, driver: ControllerDriver, records: CallRecords, traces: TraceExporter | None = None
) -> None:
    """Register the service. (The generated registration would bypass the shared stream machinery for Subscribe.)"""
    register_stream(server, SERVICE, "Subscribe", lambda stream: _Subscription(stream, driver, records))
    handlers = {
        **{method.name: _unary(driver, traces, method) for method in CONTROLLER_CALLS},
        "ReportHealth": _health(driver),
        "RecordOperatorCalls": _recording(records),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))


def _health(driver: ControllerDriver) -> grpc.RpcMethodHandler[Any, Any]:
    """Conditions of a kind that this version does not know are left out."""

    async def serve(message: pb.ReportHealthRequest, context: Context) -> Message:
        if not driver.core.active:
            await abort_not_active(context, driver, NotActive(untouched=True))
        role = _REPORTING.get(message.role)
        if role is None or not identity.is_itself(identity.certified(context), role, message.id):
            return pb.ReportHealthResponse(taken=False)
        conditions = [
            Condition(ConditionKind(each.kind), each.text) for each in message.conditions if each.kind in _KINDS
        ]
        taken = driver.core.reported_health.report(role, message.id, message.incarnation, conditions)
        return pb.ReportHealthResponse(taken=taken)

    return grpc.unary_unary_rpc_method_handler(
        serve, pb.ReportHealthRequest.FromString, pb.ReportHealthResponse.SerializeToString
    )


def _recording(records: CallRecords) -> grpc.RpcMethodHandler[Any, Any]:
    """What another controller has recorded goes the way of this one's own."""

    async def serve(message: pb.RecordOperatorCallsRequest, _context: Context) -> Message:
        for call in from_proto(RecordOperatorCallsRequest, message).calls:
            records.add(call)
        return pb.RecordOperatorCallsResponse()

    return grpc.unary_unary_rpc_method_handler(
        serve, pb.RecordOperatorCallsRequest.FromString, pb.RecordOperatorCallsResponse.SerializeToString
    )


def _unary(
    driver: ControllerDriver,
    traces: TraceExporter | None,
    method: ControllerMethod[Any, Any],
) -> grpc.RpcMethodHandler[Any, Any]:
    """A method that passes its request to the core and returns the core's answer."""
    message_type, answer_type = message_class(method.request, pb), message_class(method.response, pb)

    async def serve(message: Message, context: Context) -> Message:
        began_us = monotonic_us()
        request = from_proto(method.request, message)
        if isinstance(request, LogstoreRequest):
            await _is_from_its_broker(request, context)
        try:
            response = await driver.ask(request)
        except NotActive as outcome:
            await abort_not_active(context, driver, outcome)
        trace = trace_of(context) if traces is not None else b""
        if traces is not None and trace:
            traces.export([Span(trace[:16], token_bytes(8), trace[16:], method.name, began_us, monotonic_us())])
        return to_proto(response, answer_type)

    return grpc.unary_unary_rpc_method_handler(serve, message_type.FromString, answer_type.SerializeToString)


async def _is_from_its_broker(request: LogstoreRequest, context: Context) -> None:
    """Abort a call that names another broker than its caller's certificate does."""
    if not identity.is_itself(identity.certified(context), Role.LOGSTORE, str(request.broker_id)):
        _log.warning("call refused", peer=context.peer(), claimed=request.broker_id, limit_key="another broker")
        reason = f"the certificate is none of logstore {request.broker_id}"
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, reason)


class _Subscription:
    """One subscriber's stream."""

    def __init__(self, stream: ServerStream, driver: ControllerDriver, records: CallRecords) -> None:
        self._stream = stream
        self._driver = driver
        self._records = records
        self._subscriber_id: int | None = None

    def on_message(self, data: bytes) -> None:
        request = pb.SubscribeRequest.FromString(data)
        if self._subscriber_id is None:
            role = _ROLES.get(request.role)
            if role is None or not request.pod_id:
                self._stream.close("a subscription begins with a role (gateway or purgatory) and a pod id")
                return
            if not identity.is_itself(self._stream.caller, role, request.pod_id):
                self._stream.close(f"the certificate is none of {role.value} {request.pod_id}")
                return
            self._subscriber_id = self._driver.subscribe(self._stream, role, request.pod_id)
            if request.takes_operator_calls and role is Role.GATEWAY and self._driver.core.active:
                self._records.add_taker(self._subscriber_id, self._stream)
        if request.applied_revision > 0:
            self._driver.acknowledge(self._subscriber_id, request.applied_revision)

    def on_closed(self, reason: str) -> None:
        if self._subscriber_id is not None:
            self._records.remove_taker(self._subscriber_id)
            self._driver.unsubscribe(self._subscriber_id)

    def pack_heartbeat(self, count: int) -> bytes:
        return pb.SubscribeResponse(heartbeat=count).SerializeToString()


async def abort_not_active(context: Context, driver: ControllerDriver, outcome: NotActive) -> NoReturn:
    """FAILED_PRECONDITION: nothing was done here, ask the one named. ABORTED: the outcome is unknown."""
    record = driver.elected()
    active = (record.operations_address or record.address) if record is not None else ""
    if active:
        context.set_trailing_metadata((("barnabas-controller", active),))
    if outcome.untouched:
        where = f"the active one is at {active}" if active else "none is active at present"
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"this controller is not active; {where}")
    await context.abort(grpc.StatusCode.ABORTED, "this controller was replaced; the request may have been carried out")
    raise AssertionError("abort raises")
