"""What clients leave waiting, in place of what they send: parked fetches, ids, groups, transactions, unread answers.

Each kind is left there by a few connections while another client produces one record after the other, and is then
moved, listed, or ended. The counts are those of one client that means harm, or of a large fleet of consumers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from barnabas.cluster.messages import PARTITIONS_PER_REQUEST_MAX
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import decode_response, encode_request
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import Request, Response
from barnabas.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.end_txn import EndTxnRequest
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from barnabas.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.costly.connection import Connection
from tests.costly.measure import TOPIC, Outcome
from tests.costly.other_client import OtherClient
from tests.unit.logstore.storage.support import batch

WIDE_TOPIC: Final = "wide"
PARTITIONS: Final = PARTITIONS_PER_REQUEST_MAX
CONNECTIONS: Final = 4
IDS: Final = 20_000
"""Of groups, members and transactions."""
_OPEN_TRANSACTIONS: Final = 2_000
_MOVES: Final = 20
_MOVED_PARTITIONS: Final = 50
_GROUP, _TRANSACTION = 0, 1
"""Kinds of coordinators."""
_IN_FLIGHT: Final = 200
"""Requests that one connection sends before it reads their answers."""
_LISTS: Final = 3
_WAIT_MS: Final = 4_000
_SETTLE_SECONDS: Final = 1.0
_PAUSE_SECONDS: Final = 0.2
_UNREAD_SECONDS: Final = 3.0
_TIMEOUT_MS: Final = 60_000


class _Client:
    """Some connections that send requests of one API key, and count what comes of them."""

    def __init__(self, bootstrap: str, connections: int) -> None:
        self.connections = [Connection(bootstrap) for _ in range(connections)]
        self.answered = self.sent_bytes = 0

    def send(self, connection: Connection, request: Request, version: int) -> None:
        frame = b"".join(encode_request(request, version, 1, "costly"))
        self.sent_bytes = max(self.sent_bytes, len(frame))
        connection.send(frame)

    def receive(self, connection: Connection, api_key: ApiKey, version: int) -> Response:
        answer = connection.receive()
        self.answered += 1
        return decode_response(api_key, version, memoryview(answer))[1]

    def ask(self, api_key: ApiKey, version: int, request: Request) -> Response:
        """One request on the first connection."""
        self.send(self.connections[0], request, version)
        return self.receive(self.connections[0], api_key, version)

    def ask_all(
        self, api_key: ApiKey, version: int, requests: Sequence[Request], take: Callable[[int, Response], bool]
    ) -> None:
        """All of these, some at a time; `take` gets each number and its response, and returns whether that counts.

        What does not is asked again.
        """
        left = list(range(len(requests)))
        while left:
            some, left = left[:_IN_FLIGHT], left[_IN_FLIGHT:]
            for number in some:
                self.send(self.connections[number % len(self.connections)], requests[number], version)
            answers = [
                self.receive(self.connections[number % len(self.connections)], api_key, version) for number in some
            ]
            again = [number for number, answer in zip(some, answers, strict=True) if not take(number, answer)]
            left += again
            if again:
                time.sleep(_PAUSE_SECONDS)

    def close(self) -> None:
        for connection in self.connections:
            connection.close()


def measure_waiting(bootstrap: str, other: OtherClient) -> Iterator[Outcome]:
    """After `create_wide_topic`. Raise AssertionError where something is not left there as it is meant to be."""
    parked = f"{CONNECTIONS} parked of {PARTITIONS:,} partitions"
    kinds: list[tuple[ApiKey, str, Callable[[str], _Client]]] = [
        (
            ApiKey.FETCH,
            f"{parked}, {_MOVES} × {_MOVED_PARTITIONS} moves",
            _moved,
        ),
        (ApiKey.FETCH, f"{parked}, connections closed", _left),
        (ApiKey.FETCH, f"{CONNECTIONS} sessions of {PARTITIONS:,} partitions", _sessions),
        (ApiKey.JOIN_GROUP, f"{IDS:,} member ids that are not joined with", _pending_joins),
        (ApiKey.LIST_GROUPS, f"{IDS:,} groups", _listed_groups),
        (ApiKey.LIST_TRANSACTIONS, f"{IDS:,} ids, {_OPEN_TRANSACTIONS:,} transactions open, then ended", _transactions),
        (ApiKey.METADATA, f"answers that {CONNECTIONS} connections do not read", _unread),
    ]
    for api_key, label, leave in kinds:
        other.begin()
        client = leave(bootstrap)
        client.close()
        time.sleep(_SETTLE_SECONDS)
        waits = other.waits
        yield Outcome(api_key, label, client.sent_bytes, waits.longest_ms, client.answered, 0, tuple(waits.failures))


def create_wide_topic(bootstrap: str) -> None:
    """The topic whose partitions fetches wait for."""
    client = _Client(bootstrap, 1)
    request = CreateTopicsRequest([CreatableTopic(WIDE_TOPIC, PARTITIONS, 1)], _TIMEOUT_MS)
    client.ask(ApiKey.CREATE_TOPICS, 7, request)
    client.close()


# --- fetches ----------------------------------------------------------------------------------------------------------


def _fetch(session_id: int = 0, session_epoch: int = -1, min_bytes: int = 50 << 20) -> FetchRequest:
    partitions = [FetchPartition(number, -1, 0, -1, -1, 1 << 10) for number in range(PARTITIONS)]
    topics = [] if session_epoch > 0 else [FetchTopic(topic=WIDE_TOPIC, partitions=partitions)]
    return FetchRequest(
        max_wait_ms=_WAIT_MS,
        min_bytes=min_bytes,
        max_bytes=1 << 20,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=topics,
    )


def _parked(bootstrap: str) -> _Client:
    client = _Client(bootstrap, CONNECTIONS)
    for connection in client.connections:
        client.send(connection, _fetch(), 12)
    time.sleep(_SETTLE_SECONDS)
    return client


def _moved(bootstrap: str) -> _Client:
    client, producer = _parked(bootstrap), _Client(bootstrap, 1)
    # Of now: retention deletes what is older, and a fetch from an offset that is gone does not wait.
    records = batch(1, timestamp_ms=int(time.time() * 1000))
    data = [PartitionProduceData(number, records) for number in range(_MOVED_PARTITIONS)]
    for _ in range(_MOVES):
        topics = [TopicProduceData(WIDE_TOPIC, partition_data=data)]
        producer.ask(ApiKey.PRODUCE, 9, ProduceRequest(None, 1, 30_000, topics))
    producer.close()
    for connection in client.connections:
        client.receive(connection, ApiKey.FETCH, 12)
    return client


def _left(bootstrap: str) -> _Client:
    return _parked(bootstrap)


def _sessions(bootstrap: str) -> _Client:
    client = _Client(bootstrap, CONNECTIONS)
    session_ids = []
    for connection in client.connections:
        client.send(connection, _fetch(session_epoch=0, min_bytes=1), 12)
    for connection in client.connections:
        session_ids.append(getattr(client.receive(connection, ApiKey.FETCH, 12), "session_id"))  # noqa: B009
    for connection, session_id in zip(client.connections, session_ids, strict=True):
        client.send(connection, _fetch(session_id, 1, 50 << 20), 12)
    for connection in client.connections:
        client.receive(connection, ApiKey.FETCH, 12)
    return client


# --- coordinators -----------------------------------------------------------------------------------------------------


_RETRIABLE: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
"""What a client answers by asking again."""


def _await_coordinator(client: _Client, key_type: int) -> None:
    """The internal topic is created when it is first asked for."""
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["costly"])
    deadline_s = time.monotonic() + _TIMEOUT_MS / 1000
    while True:
        response = client.ask(ApiKey.FIND_COORDINATOR, 4, request)
        assert isinstance(response, FindCoordinatorResponse)
        error = ErrorCode(response.coordinators[0].error_code)
        if not error:
            return
        assert error in _RETRIABLE, error
        assert time.monotonic() < deadline_s, error
        time.sleep(_PAUSE_SECONDS)


def _counts(number: int, response: Response) -> bool:
    error = getattr(response, "error_code", 0)
    assert error in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED, *_RETRIABLE), (number, ErrorCode(error))
    return error not in _RETRIABLE


def _pending_joins(bootstrap: str) -> _Client:
    client = _Client(bootstrap, CONNECTIONS)
    _await_coordinator(client, _GROUP)
    protocols = [JoinGroupRequestProtocol("range", b"topics")]
    requests = [
        JoinGroupRequest(f"pending-{number}", 60_000, 60_000, "", None, "consumer", protocols) for number in range(IDS)
    ]
    client.ask_all(ApiKey.JOIN_GROUP, 9, requests, _counts)
    return client


def _listed_groups(bootstrap: str) -> _Client:
    client = _Client(bootstrap, CONNECTIONS)
    _await_coordinator(client, _GROUP)
    topics = [OffsetCommitRequestTopic(TOPIC, partitions=[OffsetCommitRequestPartition(0, 0)])]
    requests = [
        OffsetCommitRequest(group_id=f"listed-{number}", generation_id_or_member_epoch=-1, topics=topics)
        for number in range(IDS)
    ]
    client.ask_all(ApiKey.OFFSET_COMMIT, 9, requests, _counts)
    for _ in range(_LISTS):
        response = client.ask(ApiKey.LIST_GROUPS, 5, ListGroupsRequest())
        assert isinstance(response, ListGroupsResponse)
        assert len(response.groups) >= IDS, response.error_code
    return client


def _transactions(bootstrap: str) -> _Client:
    client = _Client(bootstrap, CONNECTIONS)
    _await_coordinator(client, _TRANSACTION)
    producers: dict[int, tuple[int, int]] = {}

    def initialized(number: int, response: Response) -> bool:
        assert isinstance(response, InitProducerIdResponse)
        producers[number] = response.producer_id, response.producer_epoch
        return _counts(number, response)

    requests = [InitProducerIdRequest(f"listed-{number}", _TIMEOUT_MS) for number in range(IDS)]
    client.ask_all(ApiKey.INIT_PRODUCER_ID, 4, requests, initialized)
    some = range(_OPEN_TRANSACTIONS)
    topics = [AddPartitionsToTxnTopic(TOPIC, [1])]
    begun: list[Request] = [AddPartitionsToTxnRequest([], f"listed-{each}", *producers[each], topics) for each in some]
    client.ask_all(ApiKey.ADD_PARTITIONS_TO_TXN, 3, begun, _counts)
    for _ in range(_LISTS):
        response = client.ask(ApiKey.LIST_TRANSACTIONS, 1, ListTransactionsRequest())
        assert isinstance(response, ListTransactionsResponse)
        assert len(response.transaction_states) >= IDS, response.error_code
    ended: list[Request] = [EndTxnRequest(f"listed-{each}", *producers[each], True) for each in some]
    client.ask_all(ApiKey.END_TXN, 3, ended, _counts)
    return client


# --- answers ----------------------------------------------------------------------------------------------------------


def _unread(bootstrap: str) -> _Client:
    client = _Client(bootstrap, CONNECTIONS)
    for connection in client.connections:
        for _ in range(_IN_FLIGHT):
            client.send(connection, MetadataRequest(None), 12)
    time.sleep(_UNREAD_SECONDS)
    return client
