"""Which transactions hang, and how one is aborted: what the cluster is asked, and what is made of its answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.client.kafka_connection import ConnectionBroken
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from barnabas.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from barnabas.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from barnabas.wire.messages.list_transactions import TransactionState as Listed
from barnabas.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from barnabas_cli import transactions
from barnabas_cli.record_client import KafkaError
from barnabas_cli.transactions import TransactionsClient

NOW_MS = 1_000_000
SILENT_MS = 1_000
LATE_MS = NOW_MS - SILENT_MS - 1


class FakeCluster:
    """Two partitions of `t`, or as many as it is given; it answers as its fields say, and keeps what it was asked."""

    def __init__(self, partitions: int = 2) -> None:
        self.leaders = dict.fromkeys(range(partitions), 1)
        self.producers: dict[int, list[ProducerState]] = {}
        self.listed: list[Listed] = []
        self.described: list[TransactionState] = []
        self.errors: list[ErrorCode] = []
        """Of the next answers about producers or markers, in this order."""
        self.asked: list[Any] = []

    def ask(self, request: Any, version: int, answer: type[Any]) -> Any:
        self.asked.append(request)
        answers: dict[type[Any], Callable[[Any], Any]] = {
            MetadataRequest: self._metadata,
            DescribeProducersRequest: self._describe_producers,
            ListTransactionsRequest: self._list,
            DescribeTransactionsRequest: self._describe,
            WriteTxnMarkersRequest: self._write_markers,
        }
        return answers[type(request)](request)

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        partitions = [
            MetadataResponsePartition(partition_index=each, leader_id=leader) for each, leader in self.leaders.items()
        ]
        return MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=partitions)])

    def _error(self) -> int:
        return self.errors.pop(0) if self.errors else ErrorCode.NONE

    def _describe_producers(self, request: DescribeProducersRequest) -> DescribeProducersResponse:
        error = self._error()
        return DescribeProducersResponse(
            topics=[
                TopicResponse(
                    topic.name,
                    [
                        PartitionResponse(each, error, None, [] if error else self.producers.get(each, []))
                        for each in topic.partition_indexes
                    ],
                )
                for topic in request.topics
            ]
        )

    def _list(self, request: ListTransactionsRequest) -> ListTransactionsResponse:
        wanted = request.producer_id_filters
        unknown = [each for each in request.state_filters if each == "Unheard"]
        return ListTransactionsResponse(
            unknown_state_filters=unknown,
            transaction_states=[each for each in self.listed if not wanted or each.producer_id in wanted],
        )

    def _describe(self, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
        known = {each.transactional_id: each for each in self.described}
        return DescribeTransactionsResponse(
            transaction_states=[
                known.get(each, TransactionState(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, each))
                for each in request.transactional_ids
            ]
        )

    def _write_markers(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        (marker,) = request.markers
        (topic,) = marker.topics
        results = [WritableTxnMarkerPartitionResult(each, self._error()) for each in topic.partition_indexes]
        return WriteTxnMarkersResponse(
            [WritableTxnMarkerResult(marker.producer_id, [WritableTxnMarkerTopicResult(topic.name, results)])]
        )

    def open(self, partition: int, producer_id: int, *, start: int = 0, last_ms: int = LATE_MS) -> None:
        state = ProducerState(producer_id, 3, 0, last_ms, -1, start)
        self.producers.setdefault(partition, []).append(state)

    def know(self, transactional_id: str, listed_as: int, described_as: int, *partitions: int) -> None:
        self.listed.append(Listed(transactional_id, listed_as, "Ongoing"))
        self.described.append(
            TransactionState(
                0, transactional_id, "Ongoing", 60_000, 1, described_as, 3, [TopicData("t", [*partitions])]
            )
        )


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "RETRY_SECONDS", 0)


def client_of(cluster: Any, timeout_seconds: float = 30) -> TransactionsClient:
    return TransactionsClient(cluster, timeout_seconds)


def hanging(cluster: FakeCluster) -> list[tuple[int, int, str | None]]:
    found = client_of(cluster).find_hanging(None, SILENT_MS, NOW_MS)
    return [(each.partition, each.producer_id, each.transactional_id) for each in found]


def test_a_transaction_hangs_if_no_coordinator_knows_its_producer() -> None:
    cluster = FakeCluster()
    cluster.open(1, 7)
    assert hanging(cluster) == [(1, 7, None)]


@pytest.mark.parametrize(
    ("described_as", "partitions", "hangs"),
    [
        pytest.param(7, (0, 1), False, id="the coordinator will end it"),
        pytest.param(7, (0,), True, id="in another partition alone"),
        pytest.param(7, (), True, id="nowhere"),
        pytest.param(8, (1,), True, id="of the id's next producer"),
    ],
)
def test_or_if_its_coordinator_does_not_have_the_partition(
    described_as: int, partitions: tuple[int, ...], hangs: bool
) -> None:
    cluster = FakeCluster()
    cluster.open(1, 7)
    cluster.know("shop", 7, described_as, *partitions)
    assert hanging(cluster) == ([(1, 7, "shop")] if hangs else [])


def test_an_id_that_was_forgotten_in_between_ends_nothing() -> None:
    cluster = FakeCluster()
    cluster.open(1, 7)
    cluster.know("shop", 7, 7, 1)
    cluster.described.clear()
    assert hanging(cluster) == [(1, 7, "shop")]


def test_what_is_not_late_is_not_asked_about() -> None:
    cluster = FakeCluster()
    cluster.open(0, 7, last_ms=LATE_MS + 1)
    cluster.producers[1] = [ProducerState(8, 0, 5, 0, -1, -1)]
    assert hanging(cluster) == []
    assert not any(isinstance(each, ListTransactionsRequest) for each in cluster.asked)


def test_partitions_are_asked_about_in_parts_and_those_without_a_leader_not_at_all() -> None:
    cluster = FakeCluster(1_201)
    cluster.leaders[5] = -1
    cluster.open(1_200, 7)
    assert hanging(cluster) == [(1_200, 7, None)]
    asked = [each for each in cluster.asked if isinstance(each, DescribeProducersRequest)]
    assert [len(each.topics[0].partition_indexes) for each in asked] == [500, 500, 200]
    assert all(5 not in each.topics[0].partition_indexes for each in asked)


def test_an_abort_has_the_producer_of_its_offset() -> None:
    cluster = FakeCluster()
    cluster.open(1, 7, start=10)
    cluster.open(1, 8, start=20)
    cluster.open(0, 9, start=20)
    assert client_of(cluster).abort("t", 1, 20).producer_id == 8
    (marker,) = cluster.asked[-1].markers
    assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (8, 3, False)
    assert (marker.coordinator_epoch, marker.topics[0].partition_indexes) == (0, [1])


def test_an_abort_of_nothing_is_refused() -> None:
    cluster = FakeCluster()
    cluster.open(1, 7, start=10)
    with pytest.raises(KafkaError, match="no open transaction of t-1 begins at offset 11"):
        client_of(cluster).abort("t", 1, 11)
    assert not any(isinstance(each, WriteTxnMarkersRequest) for each in cluster.asked)


def test_what_may_be_asked_again_is_until_the_time_is_over() -> None:
    cluster = FakeCluster()
    cluster.open(1, 7)
    cluster.errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert hanging(cluster) == [(1, 7, None)]
    cluster.errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
        client_of(cluster, timeout_seconds=-1).find_hanging(None, SILENT_MS, NOW_MS)


def test_refusals_and_broken_connections_are_one_line() -> None:
    cluster = FakeCluster()
    cluster.errors = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(KafkaError, match="producers: TOPIC_AUTHORIZATION_FAILED"):
        hanging(cluster)
    with pytest.raises(KafkaError, match="no state Unheard"):
        client_of(cluster).list_transactions(["Unheard"])

    class Broken(FakeCluster):
        def ask(self, request: Any, version: int, answer: type[Any]) -> Any:
            raise ConnectionBroken("host:1 is gone")

    with pytest.raises(KafkaError, match="host:1 is gone"):
        client_of(Broken()).list_transactions()
