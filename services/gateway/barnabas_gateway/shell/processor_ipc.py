"""Messages between the acceptor and its processors over their socket pair: a kind and a payload.

acceptor → processor    SETTINGS     ProcessorSettings, first of all
                        METADATA     UpdateMetadata as protobuf
                        CONNECTION   Accepted, with the socket's descriptor
                        ANSWER       call id, then the controller's answer as protobuf; nothing after it: no answer
                        DRAIN        finish what has been begun, then exit
                        METRICS      tell what has been measured
                        QUOTAS       the rates of the shares of quotas that were reported
                        PROCESSORS   how many processors the gateway has
                        OPERATOR_CALLS   records for the topic of the audit
processor → acceptor    APPLIED      the revision that requests are answered by
                        CALL         call id, trace id and span id where it is traced, then the request as protobuf
                        CLOSED       ids of connections that are gone
                        QUOTAS       what was used of quotas
                        METRICS      a snapshot (`barnabas.metrics.snapshot`): when asked, and before it exits
                        and what it has contained (`barnabas.runtime.processes.contained_counts`)
"""

from __future__ import annotations

import struct
from typing import Final, TypeVar

import msgspec

from barnabas.cluster.access.operator_calls import OperatorCall
from barnabas.cluster.config_description import Setting
from barnabas.cluster.controller_calls.table import CONTROLLER_CALLS
from barnabas.cluster.messages import UpdateMetadata
from barnabas.cluster.quotas.shares import QuotaId, QuotaUse
from barnabas.runtime.protobuf import from_proto, from_proto_in_steps, message_class, to_proto
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.model.outputs import ControllerAnswer, ControllerRequest
from barnabas_gateway.shell.config import GatewayProperties
from barnabas_protos.controller.v1 import cluster_pb2, membership_pb2

T = TypeVar("T")

SETTINGS: Final = b"settings"
METADATA: Final = b"metadata"
CONNECTION: Final = b"connection"
ANSWER: Final = b"answer"
DRAIN: Final = b"drain"
APPLIED: Final = b"applied"
CALL: Final = b"call"
CLOSED: Final = b"closed"
METRICS: Final = b"metrics"
QUOTAS: Final = b"quotas"
PROCESSORS: Final = b"processors"
OPERATOR_CALLS: Final = b"operator calls"

DRAIN_GRACE_MS: Final = 5_000
"""How long a processor may drain at most."""

_CALL_HEAD: Final = struct.Struct("<QB")
_REVISION: Final = struct.Struct("<q")


class ProcessorSettings(msgspec.Struct):
    index: int
    properties: GatewayProperties
    bound_ports: dict[str, int]
    settings: dict[str, Setting] = {}
    """The properties by key, and which were set: for describing brokers."""


class Accepted(msgspec.Struct):
    connection_id: int
    listener: str
    peer: str
    node_id: int


_CALL_NUMBERS: Final = {
    kind: number for number, method in enumerate(CONTROLLER_CALLS) for kind in (method.request, method.response)
}
_NO_ANSWER: Final = 0xFF


def encode_metadata(update: UpdateMetadata) -> bytes:
    return to_proto(update, cluster_pb2.UpdateMetadata).SerializeToString()


def decode_metadata(payload: bytes) -> UpdateMetadata:
    return from_proto(UpdateMetadata, cluster_pb2.UpdateMetadata.FromString(payload))


def decode_metadata_in_steps(payload: bytes) -> Steps[UpdateMetadata]:
    return from_proto_in_steps(UpdateMetadata, cluster_pb2.UpdateMetadata.FromString(payload))


def encode_operator_calls(calls: list[OperatorCall]) -> bytes:
    return msgspec.json.encode(calls)


def decode_operator_calls(payload: bytes) -> list[OperatorCall]:
    return msgspec.json.decode(payload, type=list[OperatorCall])


def encode_uses(uses: list[QuotaUse]) -> bytes:
    return msgspec.json.encode(uses)


def decode_uses(payload: bytes) -> list[QuotaUse]:
    return msgspec.json.decode(payload, type=list[QuotaUse])


def encode_shares(uses: list[QuotaUse], rates: list[float]) -> bytes:
    return msgspec.json.encode([(use.quota_id(), rate) for use, rate in zip(uses, rates, strict=True)])


def decode_shares(payload: bytes) -> list[tuple[QuotaId, float]]:
    return msgspec.json.decode(payload, type=list[tuple[QuotaId, float]])


def encode_revision(revision: int) -> bytes:
    return _REVISION.pack(revision)


def decode_revision(payload: bytes) -> int:
    revision: int = _REVISION.unpack(payload)[0]
    return revision


def encode_ids(ids: list[int]) -> bytes:
    return struct.pack(f"<{len(ids)}Q", *ids)


def decode_ids(payload: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(payload) // 8}Q", payload)


def encode_call(call_id: int, request: ControllerRequest, trace: bytes = b"") -> bytes:
    """`trace`: trace id and span id, or empty."""
    head = _CALL_HEAD.pack(call_id, _CALL_NUMBERS[type(request)]) + bytes((len(trace),)) + trace
    return head + _encode(request)


def decode_call(payload: bytes) -> tuple[int, ControllerRequest, bytes]:
    call_id, number = _CALL_HEAD.unpack_from(payload)
    begin = _CALL_HEAD.size + 1
    end = begin + payload[_CALL_HEAD.size]
    return call_id, _decode(CONTROLLER_CALLS[number].request, payload[end:]), payload[begin:end]


def encode_answer(call_id: int, answer: ControllerAnswer | None) -> bytes:
    if answer is None:
        return _CALL_HEAD.pack(call_id, _NO_ANSWER)
    return _CALL_HEAD.pack(call_id, _CALL_NUMBERS[type(answer)]) + _encode(answer)


def decode_answer(payload: bytes) -> tuple[int, ControllerAnswer | None]:
    call_id, number = _CALL_HEAD.unpack_from(payload)
    if number == _NO_ANSWER:
        return call_id, None
    return call_id, _decode(CONTROLLER_CALLS[number].response, payload[_CALL_HEAD.size :])


def _encode(message: ControllerRequest | ControllerAnswer) -> bytes:
    return to_proto(message, message_class(type(message), membership_pb2)).SerializeToString()


def _decode(kind: type[T], payload: bytes) -> T:
    return from_proto(kind, message_class(kind, membership_pb2).FromString(payload))
