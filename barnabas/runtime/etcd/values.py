"""Convert the values of `barnabas.ports.etcd` to etcd's messages, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from barnabas.ports.etcd import (
    Compare,
    CompareTarget,
    Delete,
    Get,
    KeyValue,
    Operation,
    Put,
    Txn,
    TxnResult,
    WatchEvent,
)
from barnabas_protos.etcd.v1 import rpc_pb2 as pb


def txn_request(txn: Txn) -> pb.TxnRequest:
    return pb.TxnRequest(
        compare=[_compare(compare) for compare in txn.compares],
        success=[_operation(operation) for operation in txn.success],
        failure=[_operation(operation) for operation in txn.failure],
    )


def txn_result(response: pb.TxnResponse) -> TxnResult:
    return TxnResult(
        succeeded=response.succeeded,
        revision=response.header.revision,
        reads=tuple(key_values(each.response_range.kvs) for each in response.responses),
    )


def key_values(messages: Iterable[pb.KeyValue]) -> tuple[KeyValue, ...]:
    return tuple(_key_value(message) for message in messages)


def watch_event(message: pb.Event) -> WatchEvent:
    return WatchEvent(_key_value(message.kv), deleted=message.type == pb.Event.DELETE)


def _key_value(message: pb.KeyValue) -> KeyValue:
    return KeyValue(
        # Any bytes are a key, and a key that none of ours is must not end the processes that follow its prefix.
        key=message.key.decode(errors="backslashreplace"),
        value=message.value,
        create_revision=message.create_revision,
        mod_revision=message.mod_revision,
        lease=message.lease,
    )


def _compare(compare: Compare) -> pb.Compare:
    key = compare.key.encode()
    match compare.target:
        case CompareTarget.CREATE_REVISION:
            return pb.Compare(key=key, target=pb.Compare.CREATE, create_revision=compare.revision)
        case CompareTarget.MOD_REVISION:
            return pb.Compare(key=key, target=pb.Compare.MOD, mod_revision=compare.revision)
        case _:
            assert_never(compare.target)


def _operation(operation: Operation) -> pb.RequestOp:
    key = operation.key.encode()
    match operation:
        case Put():
            return pb.RequestOp(request_put=pb.PutRequest(key=key, value=operation.value, lease=operation.lease))
        case Delete():
            range_end = operation.range_end.encode()
            return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=key, range_end=range_end))
        case Get():
            return pb.RequestOp(request_range=pb.RangeRequest(key=key, range_end=operation.range_end.encode()))
        case _:
            assert_never(operation)
