"""What librdkafka does about an error of a Produce request.

Written from librdkafka 2.16's `rdkafka_request.c`: the table of `rd_kafka_handle_Produce_error`, and behind it the
default actions of `rd_kafka_err_action`. What the answer says of the messages is `status`: NOT_LEADER_OR_FOLLOWER
counts as not persisted, though a leader may answer it for what it has appended.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.wire.errors import ErrorCode
from tests.sim.clients.producers.librdkafka_partition import Status

# librdkafka's own error codes are negative: a lost connection, a request that timed out in flight or before it was
# sent, a request that was taken back before it was sent.
TRANSPORT = -195
TIMED_OUT = -185
TIMED_OUT_QUEUE = -166
RETRY = -162

NAMES = {
    TRANSPORT: "_TRANSPORT",
    TIMED_OUT: "_MSG_TIMED_OUT",
    TIMED_OUT_QUEUE: "_MSG_TIMED_OUT",
    RETRY: "_RETRY",
}
MSG_TIMED_OUT = "_MSG_TIMED_OUT"
PURGE_QUEUE = "_PURGE_QUEUE"


class Actions(NamedTuple):
    status: Status
    refreshes: bool = False
    retries: bool = False
    is_permanent: bool = False


_REFRESH = Actions(Status.NOT_PERSISTED, refreshes=True)
_RETRY_NOT_PERSISTED = Actions(Status.NOT_PERSISTED, retries=True)
_RETRY_POSSIBLY_PERSISTED = Actions(Status.POSSIBLY_PERSISTED, retries=True)
_PERMANENT = Actions(Status.NOT_PERSISTED, is_permanent=True)

_ACTIONS: dict[int, Actions] = {
    TRANSPORT: Actions(Status.POSSIBLY_PERSISTED, refreshes=True),
    TIMED_OUT: _RETRY_POSSIBLY_PERSISTED,
    TIMED_OUT_QUEUE: _RETRY_NOT_PERSISTED,
    RETRY: _RETRY_NOT_PERSISTED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: _REFRESH,
    ErrorCode.LEADER_NOT_AVAILABLE: _REFRESH,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: _REFRESH,
    ErrorCode.BROKER_NOT_AVAILABLE: _REFRESH,
    ErrorCode.REPLICA_NOT_AVAILABLE: _REFRESH,
    ErrorCode.KAFKA_STORAGE_ERROR: Actions(Status.NOT_PERSISTED, refreshes=True, retries=True),
    ErrorCode.NOT_ENOUGH_REPLICAS: _RETRY_NOT_PERSISTED,
    ErrorCode.CORRUPT_MESSAGE: _RETRY_NOT_PERSISTED,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: _RETRY_POSSIBLY_PERSISTED,
    ErrorCode.REQUEST_TIMED_OUT: _RETRY_POSSIBLY_PERSISTED,
}


def actions_for(error_code: int) -> Actions:
    """For everything that the idempotent producer does not treat of its own."""
    return _ACTIONS.get(error_code, _PERMANENT)


def name_of(error_code: int) -> str:
    return NAMES.get(error_code) or ErrorCode(error_code).name
