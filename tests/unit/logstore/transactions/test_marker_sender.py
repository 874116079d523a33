"""`TransactionMarkerSender`: which leader is sent which markers, until each is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from barnabas.channel.messages import GroupAnswer, GroupCall
from barnabas.cluster.messages import TopicMetadata
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import decode_request, encode_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from barnabas_logstore.core.coordinator.transactions.marker_sender import (
    MARKERS_PER_CALL,
    MARKERS_PER_STEP,
    RETRY_MS,
    UNDELIVERED_MS,
    TransactionMarkerSender,
    _calls,
    _Ending,
)
from barnabas_logstore.core.coordinator.transactions.transaction import TopicPartition, TransactionState
from barnabas_logstore.core.replica.replicas import Replicas
from tests.unit.logstore.transactions.support import ID, TOPIC, World, state_topic, update_of

NONE = ErrorCode.NONE
_VERSION = ApiKey.WRITE_TXN_MARKERS.version_max


class Peers:
    """Holds calls until the test answers them."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, WriteTxnMarkersRequest, Callable[[GroupAnswer | None], None]]] = []

    def call(self, node_id: int, call: GroupCall, answered: Callable[[GroupAnswer | None], None]) -> None:
        request = decode_request(call.api_key, call.api_version, memoryview(call.body), 0)
        assert isinstance(request, WriteTxnMarkersRequest)
        self.calls.append((node_id, request, answered))


class Scene:
    def __init__(self, *, leader: int = 2, topics: bool = True, is_informed: bool = True) -> None:
        """Without `is_informed`, this logstore has had no UpdateMetadata yet."""
        self.replicas = Replicas(1, "cluster")
        self.peers = Peers()
        self.sender = TransactionMarkerSender(self.replicas, self.peers)
        self.revision = 0
        self.now_ms = 0
        self.world = World(sender=self.sender)
        if is_informed:
            self.update(leader, topics=topics)

    def update(
        self,
        leader: int,
        *,
        topics: bool = True,
        also: Sequence[TopicMetadata] = (),
        without_state: bool = False,
        unknown_topics: Sequence[str] = (),
    ) -> None:
        """A full update of a controller that knows the coordinator's leadership, unless it is `without_state`."""
        self.revision += 1
        update = update_of(1, 2, 3, leader=leader, revision=self.revision, topics=topics)
        state = [] if without_state else [state_topic(self.world.epoch)]
        update = replace(update, topics=[*update.topics, *also, *state], unknown_topics=list(unknown_topics))
        self.replicas.image.apply(update)
        self.replicas.deletions.on_full_update(update)

    def step(self, ms: int = 0) -> None:
        self.now_ms += ms
        self.sender.step(self.now_ms)
        self.world.turn()

    def end(self, *partitions: int, commit: bool = True) -> tuple[int, int]:
        """Have a transaction with these partitions ended; its producer."""
        producer = self.world.begun(*partitions)
        assert self.world.end(*producer, commit=commit).error_code == NONE
        return producer

    def answer(self, error: ErrorCode = NONE, *, of: dict[int, ErrorCode] | None = None) -> None:
        """Answer the oldest call, with these errors by partition, or this one for the others."""
        _, request, answered = self.peers.calls.pop(0)
        markers = [
            WritableTxnMarkerResult(
                marker.producer_id,
                [
                    WritableTxnMarkerTopicResult(
                        topic.name,
                        [
                            WritableTxnMarkerPartitionResult(each, (of or {}).get(each, error))
                            for each in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
        answered(GroupAnswer(1, body=encode_body(WriteTxnMarkersResponse(markers), _VERSION)))
        self.world.turn()

    @property
    def asked(self) -> list[tuple[int, list[int]]]:
        """Node and partitions of the unanswered calls."""
        return [
            (
                node_id,
                [each for marker in request.markers for topic in marker.topics for each in topic.partition_indexes],
            )
            for node_id, request, _ in self.peers.calls
        ]


@pytest.mark.parametrize("commit", [True, False])
def test_the_leader_gets_one_marker_for_all_partitions(commit: bool) -> None:
    scene = Scene()
    producer_id, epoch = scene.end(0, 1, commit=commit)
    assert not scene.peers.calls
    scene.step()
    assert scene.asked == [(2, [0, 1])]
    (marker,) = scene.peers.calls[0][1].markers
    assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (producer_id, epoch, commit)
    assert (marker.coordinator_epoch, marker.transaction_version) == (scene.world.epoch, 0)
    scene.answer()
    assert scene.world.state() is (TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT)
    assert scene.sender.unwritten == 0
    assert scene.sender.retry_ms is None


@pytest.mark.parametrize(
    "error",
    [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.KAFKA_STORAGE_ERROR],
)
def test_what_is_not_written_is_sent_again_and_to_the_leader_of_that_time(error: ErrorCode) -> None:
    scene = Scene()
    scene.end(0, 1)
    scene.step()
    scene.answer(of={1: error})
    assert not scene.sender.has_work
    scene.update(3)
    scene.step(RETRY_MS - 1)
    assert not scene.peers.calls
    scene.step(1)
    assert scene.asked == [(3, [1])]
    assert scene.world.state() is TransactionState.PREPARE_COMMIT
    scene.answer()
    assert scene.world.state() is TransactionState.COMPLETE_COMMIT


@pytest.mark.parametrize("answer", [None, GroupAnswer(1, ErrorCode.NOT_COORDINATOR), GroupAnswer(1, body=b"\x01")])
def test_a_call_without_a_proper_answer_is_made_again(answer: GroupAnswer | None) -> None:
    scene = Scene()
    scene.end(0)
    scene.step()
    scene.peers.calls.pop()[2](answer)
    scene.step(RETRY_MS)
    assert scene.asked == [(2, [0])]


def test_a_partition_without_a_leader_waits_for_one() -> None:
    scene = Scene(leader=-1)
    scene.end(0)
    for _ in range(100):
        scene.step(RETRY_MS)
    assert not scene.peers.calls
    scene.update(3)
    scene.step(RETRY_MS)
    assert scene.asked == [(3, [0])]


def test_a_partition_that_is_known_to_be_deleted_is_left_out() -> None:
    scene = Scene(topics=False)
    scene.end(0)
    scene.step()
    assert scene.world.state() is TransactionState.COMPLETE_COMMIT
    assert not scene.peers.calls


@pytest.mark.parametrize("leader", [-1, 2])
def test_a_marker_that_is_not_written_for_long_is_a_problem_that_is_reported_once(leader: int) -> None:
    scene = Scene(leader=leader)
    scene.end(0, 1)
    for _ in range(UNDELIVERED_MS // RETRY_MS + 3):
        scene.step(RETRY_MS)
        while scene.peers.calls:
            scene.answer(of={1: ErrorCode.NOT_ENOUGH_REPLICAS})
    (problem,) = scene.sender.problems
    assert ID in problem
    assert ("no leader" if leader < 0 else "NOT_ENOUGH_REPLICAS") in problem
    assert f"{TOPIC}-{0 if leader < 0 else 1}" in problem
    assert scene.world.state() is TransactionState.PREPARE_COMMIT
    assert scene.sender.unwritten == 1


@pytest.mark.parametrize("error", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED])
def test_a_newer_epoch_ends_the_sending_and_is_a_problem_that_is_reported(error: ErrorCode) -> None:
    scene = Scene()
    scene.end(0, 1)
    scene.step()
    scene.answer(of={1: error})
    scene.step(10 * RETRY_MS)
    assert not scene.peers.calls
    assert scene.world.state() is TransactionState.PREPARE_COMMIT
    (problem,) = scene.sender.problems
    assert ID in problem
    assert f"{TOPIC}-1" in problem
    assert error.name in problem
    assert scene.sender.unwritten == 0


def test_a_coordinator_that_lost_its_partition_sends_nothing_and_hears_nothing() -> None:
    scene = Scene()
    scene.end(0)
    scene.step()
    scene.world.lose()
    scene.answer()
    scene.step(RETRY_MS)
    assert not scene.peers.calls
    assert scene.sender.unwritten == 0


def test_the_next_coordinator_sends_what_is_prepared_under_its_own_epoch() -> None:
    scene = Scene()
    scene.end(0)
    scene.step()
    scene.peers.calls.clear()
    scene.world.fail_over()
    scene.step()
    ((_, request, _),) = scene.peers.calls
    assert request.markers[0].coordinator_epoch == scene.world.epoch == 2
    scene.answer()
    assert scene.world.state() is TransactionState.COMPLETE_COMMIT


def test_calls_and_steps_are_bounded() -> None:
    scene = Scene()
    scene.end(0)
    (led,) = scene.world.coordinator.shards
    ending = _Ending(led.shard, scene.world.transaction())
    many = [TopicPartition(TOPIC, number) for number in range(MARKERS_PER_CALL + 10)]
    calls = list(_calls([(ending, many), (ending, many[:5])]))
    assert [sum(len(partitions) for _, partitions in call) for call in calls] == [MARKERS_PER_CALL, 15]
    assert MARKERS_PER_CALL <= MARKERS_PER_STEP
