"""What is spoken on the simulation's connections: the services' own messages, how the trace tells them, how they are
encoded.

The data channel, parking and watching are packed by `barnabas.channel.generated.packing`, the control plane is
protobuf: with encoding on, every message goes through the same functions as in production. Etcd's own protocol is not
ours and is never encoded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args
from zlib import crc32

from barnabas.channel.generated import packing
from barnabas.channel.messages import (
    CoordinateRequest,
    CoordinateResponse,
    ExchangeRequest,
    ExchangeResponse,
    ParkRequest,
    ParkResponse,
    PartitionState,
    ReadRequest,
    ReadResponse,
    ReplicateRequest,
    ReplicateResponse,
    WatchRequest,
    WatchResponse,
)
from barnabas.cluster.administration import AdministrationRequest, AdministrationResponse
from barnabas.cluster.controller_calls.table import MembershipRequest, MembershipResponse
from barnabas.cluster.messages import ControlRequest, ControlResponse, UpdateMetadata
from barnabas.runtime.protobuf import from_proto, message_class, to_proto
from barnabas_protos.controller.v1 import cluster_pb2, membership_pb2
from barnabas_protos.logstore.v1 import administration_pb2, control_pb2
from tests.sim.network import StreamKind

# --- messages that gRPC makes of calls, here sent over a connection
# -----------------------------------------------------


@dataclass(slots=True, frozen=True)
class Subscribe:
    """The first message of a subscription, and with every revision applied another."""

    role: str
    pod_id: str
    applied_revision: int


@dataclass(slots=True, frozen=True)
class Call:
    """One unary call to the controller."""

    call_id: int
    request: MembershipRequest


@dataclass(slots=True, frozen=True)
class Return:
    """Its answer. None: not active; `untouched` tells whether the request has certainly changed nothing."""

    call_id: int
    answer: MembershipResponse | None
    untouched: bool = False


# --- encodings
# -----------------------------------------------------------------------------------------------------------


class Packed:
    """Packed and scanned by one pair of functions each way."""

    def __init__(
        self,
        pack_request: Callable[[Any], bytes],
        scan_request: Callable[[bytes], Any],
        pack_response: Callable[[Any], bytes],
        scan_response: Callable[[bytes], Any],
    ) -> None:
        self._to_server = (pack_request, scan_request)
        self._to_client = (pack_response, scan_response)

    def encoded(self, message: Any, *, to_server: bool) -> Any:
        pack, scan = self._to_server if to_server else self._to_client
        return scan(bytes(pack(message)))


@dataclass(slots=True, frozen=True)
class WithFiles:
    """A response along with which open files go, as descriptors do by a Unix socket."""

    response: ReadResponse
    files: list[object]


class PackedWithFiles(Packed):
    """Its responses have files along with them."""

    def encoded(self, message: Any, *, to_server: bool) -> Any:
        if isinstance(message, WithFiles):
            return WithFiles(super().encoded(message.response, to_server=to_server), message.files)
        return super().encoded(message, to_server=to_server)


_PROTO_BY_TYPE: dict[type, Any] = {
    ControlRequest: control_pb2.ControlRequest,
    ControlResponse: control_pb2.ControlResponse,
    UpdateMetadata: cluster_pb2.UpdateMetadata,
    **{
        each: message_class(each, membership_pb2)
        for each in (*get_args(MembershipRequest), *get_args(MembershipResponse))
    },
    **{
        each: message_class(each, administration_pb2)
        for each in (*get_args(AdministrationRequest), *get_args(AdministrationResponse))
    },
}


class Protobuf:
    """Through protobuf's bytes."""

    def encoded(self, message: Any, *, to_server: bool) -> Any:
        match message:
            case Subscribe():
                return message
            case Call(call_id, request):
                return Call(call_id, self.encoded(request, to_server=to_server))
            case Return(call_id, answer, untouched):
                return Return(call_id, answer and self.encoded(answer, to_server=to_server), untouched)
            case _:
                proto_class = _PROTO_BY_TYPE[type(message)]
                return from_proto(
                    type(message), proto_class.FromString(to_proto(message, proto_class).SerializeToString())
                )


class Plain:
    """Bytes already, or another protocol's message."""

    def encoded(self, message: Any, *, to_server: bool) -> Any:
        return message


# --- how the trace tells a message
# ---------------------------------------------------------------------------------------


def _exchange(message: ExchangeRequest | ExchangeResponse) -> str:
    if isinstance(message, ExchangeRequest):
        appends = [(each.request_id, each.partition, each.leader_epoch, len(each.records)) for each in message.appends]
        queries = [each.request_id for each in message.offset_queries]
        queries += [each.request_id for each in message.state_queries]
        return f"appends {appends} queries {queries}"
    results = [(each.request_id, each.error_code, each.base_offset, each.committed) for each in message.append_results]
    answers = [(each.request_id, each.error_code) for each in message.offset_answers]
    answers += [(each.request_id, each.error_code) for each in message.state_answers]
    credit = message.credit and (message.credit.requests, message.credit.bytes)
    return f"results {results} answers {answers} credit {credit}"


def _read(message: ReadRequest | ReadResponse | WithFiles) -> str:
    if isinstance(message, WithFiles):
        return f"{_read(message.response)} with {len(message.files)} files"
    if isinstance(message, ReadRequest):
        reads = [
            (each.request_id, [(one.partition, one.fetch_offset) for one in each.partitions]) for each in message.reads
        ]
        return f"reads {reads} cancels {message.cancels}"
    pieces = [
        (
            each.request_id,
            [(one.index, one.error_code, one.high_watermark, len(one.records)) for one in each.partitions],
        )
        for each in message.pieces
    ]
    return f"pieces {pieces}"


def _park(message: ParkRequest | ParkResponse) -> str:
    if isinstance(message, ParkRequest):
        produces = [(each.entry_id, each.wait_ms, len(each.conditions)) for each in message.produces]
        fetches = [(each.entry_id, each.wait_ms, len(each.conditions)) for each in message.fetches]
        groups = [(each.entry_id, each.wait_ms, each.group_id, each.step) for each in message.groups]
        return f"produces {produces} fetches {fetches} groups {groups} cancels {message.cancels}"
    return f"completions {[(each.entry_id, int(each.outcome), each.error_codes) for each in message.completions]}"


def state_in_words(state: PartitionState) -> str:
    return f"{state.topic_id.hex()[:4]}-{state.partition}@{state.leader_epoch} hw {state.high_watermark}" + (
        "" if state.leading else " not leading"
    )


def _watch(message: WatchRequest | WatchResponse) -> str:
    if isinstance(message, WatchRequest):
        watches = [(each.topic_id.hex()[:4], each.partition) for each in message.watches]
        unwatches = [(each.topic_id.hex()[:4], each.partition) for each in message.unwatches]
        groups = [each.group_id for each in message.group_watches]
        groups_left = [each.group_id for each in message.group_unwatches]
        return f"watches {watches} unwatches {unwatches} groups {groups} left {groups_left}"
    groups_reported = [(each.group_id, each.coordinator_epoch, each.step) for each in message.group_states]
    return f"states {[state_in_words(each) for each in message.states]} groups {groups_reported}"


def _coordinate(message: CoordinateRequest | CoordinateResponse) -> str:
    if isinstance(message, CoordinateRequest):
        calls = [(each.request_id, each.partition, each.api_key, len(each.body)) for each in message.calls]
        collects = [(each.request_id, each.group_id, each.member_id) for each in message.collects]
        return f"calls {calls} collects {collects}"
    answers = [
        (each.request_id, each.error_code, len(each.body), each.wait and each.wait.step) for each in message.answers
    ]
    credit = message.credit and (message.credit.requests, message.credit.bytes)
    return f"answers {answers} credit {credit}"


def _replicate(message: ReplicateRequest | ReplicateResponse) -> str:
    if isinstance(message, ReplicateRequest):
        if message.fetch is None:
            return f"follower {message.hello.replica_id}" if message.hello is not None else "heartbeat"
        fetch = message.fetch
        reported = [(each.slot, each.current_leader_epoch, each.fetch_offset) for each in fetch.positions]
        return f"fetch {fetch.request_id} positions {reported} forgotten {fetch.forgotten}"
    if message.piece is None:
        return "welcome" if message.welcome is not None else "heartbeat"
    data = [
        (each.slot, each.error_code, each.high_watermark, each.diverging_end_offset, len(each.records))
        for each in message.piece.partitions
    ]
    return f"piece of {message.piece.request_id} {data}"


def _control(message: ControlRequest | ControlResponse) -> str:
    if isinstance(message, ControlResponse):
        return f"answer {message.sequence} {message.error_code} {len(message.partition_errors)} errors"
    body = message.leader_and_isr or message.stop_replica or message.update_metadata
    return f"{type(body).__name__ if body else 'heartbeat'} {message.sequence} of epoch {message.controller_epoch}"


def _membership(message: Subscribe | UpdateMetadata | Call | Return) -> str:
    match message:
        case Subscribe():
            return f"{message.pod_id} at revision {message.applied_revision}"
        case UpdateMetadata():
            kind = "full" if message.full else "incremental"
            return f"{kind} metadata {message.revision}, {len(message.topics)} topics, {len(message.brokers)} brokers"
        case Call():
            return f"call {message.call_id} {type(message.request).__name__}"
        case Return():
            return f"answer {message.call_id} {type(message.answer).__name__}"


def _administration(message: AdministrationRequest | AdministrationResponse) -> str:
    return type(message).__name__


def _bytes(data: bytes) -> str:
    return f"{len(data)} bytes {crc32(data):08x}"


EXCHANGE = StreamKind(
    "exchange",
    _exchange,
    Packed(
        packing.pack_exchange_request,
        packing.scan_exchange_request,
        packing.pack_exchange_response,
        packing.scan_exchange_response,
    ),
)
READ = StreamKind(
    "read",
    _read,
    PackedWithFiles(
        packing.pack_read_request, packing.scan_read_request, packing.pack_read_response, packing.scan_read_response
    ),
)
PARK = StreamKind(
    "park",
    _park,
    Packed(
        packing.pack_park_request, packing.scan_park_request, packing.pack_park_response, packing.scan_park_response
    ),
)
WATCH = StreamKind(
    "watch",
    _watch,
    Packed(
        packing.pack_watch_request,
        packing.scan_watch_request,
        packing.pack_watch_response,
        packing.scan_watch_response,
    ),
)
COORDINATE = StreamKind(
    "coordinate",
    _coordinate,
    Packed(
        packing.pack_coordinate_request,
        packing.scan_coordinate_request,
        packing.pack_coordinate_response,
        packing.scan_coordinate_response,
    ),
)
REPLICATE = StreamKind(
    "replicate",
    _replicate,
    Packed(
        packing.pack_replicate_request,
        packing.scan_replicate_request,
        packing.pack_replicate_response,
        packing.scan_replicate_response,
    ),
)
CONTROL = StreamKind("control", _control, Protobuf())
# A connection for each call, which ends with its answer.
ADMINISTRATION = StreamKind("administration", _administration, Protobuf(), has_heartbeats=False)
MEMBERSHIP = StreamKind("membership", _membership, Protobuf())
ETCD = StreamKind("etcd", str, Plain())
KAFKA = StreamKind("kafka", _bytes, Plain(), has_heartbeats=False)
