"""The transaction coordinator over its log: what is answered, written, sent, and found again by the next one."""

from __future__ import annotations

import pytest

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from barnabas.wire.messages.end_txn import EndTxnRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from barnabas_logstore.core.coordinator.transactions.transaction import (
    EPOCH_MAX,
    TopicPartition,
    TransactionState,
)
from tests.unit.logstore.transactions.support import BLOCK, FIRST_ID, ID, TIMEOUT_MS, TOPIC, World

EMPTY, ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
PREPARE_COMMIT, COMPLETE_COMMIT = TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT
PREPARE_ABORT, COMPLETE_ABORT = TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT


class TestRequests:
    def test_a_transaction_from_its_beginning_to_its_end(self) -> None:
        world = World()
        first = world.init()
        assert (first.error_code, first.producer_id, first.producer_epoch) == (ErrorCode.NONE, FIRST_ID, 0)
        assert world.add(FIRST_ID, 0, 0, 1) == ErrorCode.NONE
        assert world.end(FIRST_ID, 0).error_code == ErrorCode.NONE
        ((_, transaction),) = world.markers.sent
        assert transaction.partitions == {TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)}
        assert world.add(FIRST_ID, 0, 0) == ErrorCode.CONCURRENT_TRANSACTIONS, "its markers are on their way"
        world.markers.write()
        world.turn()
        assert world.logged_states() == [EMPTY, ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT]
        assert world.add(FIRST_ID, 0, 0) == ErrorCode.NONE

    def test_nothing_is_answered_or_sent_before_its_record_is_committed(self) -> None:
        world = World()
        producer_id, epoch = world.begun()
        world.log.commits_at_once = False
        request = EndTxnRequest(ID, producer_id, epoch, committed=True)
        request_id = world.send(request, 4)
        assert request_id not in world.answers
        assert not world.markers.sent
        world.commit()
        assert request_id in world.answers
        assert len(world.markers.sent) == 1

    def test_with_version_2_each_end_raises_the_epoch(self) -> None:
        world = World()
        producer_id, epoch = world.begun()
        ended = world.end(producer_id, epoch, version=5)
        assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (ErrorCode.NONE, producer_id, epoch + 1)
        world.markers.write()
        repeated = world.end(producer_id, epoch, version=5)
        assert (repeated.error_code, repeated.producer_epoch) == (ErrorCode.NONE, epoch + 1)

    def test_the_last_epoch_is_followed_by_another_producer_id(self) -> None:
        world = World()
        producer_id, _ = world.begun()
        world.end(producer_id, 0)
        world.markers.write()
        world.turn()
        for epoch in range(1, EPOCH_MAX - 1):
            assert world.init().producer_epoch == epoch
        assert world.add(producer_id, EPOCH_MAX - 2, 0) == ErrorCode.NONE
        ended = world.end(producer_id, EPOCH_MAX - 2, version=5)
        assert (ended.producer_id, ended.producer_epoch) == (producer_id, EPOCH_MAX - 1)
        world.markers.write()
        after = world.init()
        assert (after.producer_id, after.producer_epoch) == (FIRST_ID + 1, 0)

    def test_a_second_producer_fences_the_first_and_aborts_its_transaction(self) -> None:
        world = World()
        producer_id, epoch = world.begun()
        assert world.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        assert world.state() is PREPARE_ABORT
        assert world.add(producer_id, epoch, 1) == ErrorCode.CONCURRENT_TRANSACTIONS
        world.markers.write()
        world.turn()
        assert world.add(producer_id, epoch, 1) == ErrorCode.PRODUCER_FENCED
        assert world.add(producer_id, epoch, 1, version=1) == ErrorCode.INVALID_PRODUCER_EPOCH
        second = world.init()
        assert (second.error_code, second.producer_id) == (ErrorCode.NONE, producer_id)
        assert second.producer_epoch > epoch

    def test_a_broker_adds_and_verifies_for_several_transactions(self) -> None:
        world = World()
        found = world.init()
        topics = [AddPartitionsToTxnTopic(TOPIC, [0])]

        def ask(*, verify_only: bool) -> list[int]:
            asked = [
                AddPartitionsToTxnTransaction(name, found.producer_id, found.producer_epoch, verify_only, topics)
                for name in (ID, "other")
            ]
            response = world.ask(AddPartitionsToTxnRequest(asked), 5, AddPartitionsToTxnResponse)
            return [
                each.topic_results[0].results_by_partition[0].partition_error_code
                for each in response.results_by_transaction
            ]

        unknown = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert ask(verify_only=True) == [ErrorCode.TRANSACTION_ABORTABLE, unknown]
        assert ask(verify_only=False) == [ErrorCode.NONE, unknown]
        assert ask(verify_only=True) == [ErrorCode.NONE, unknown]

    def test_the_offsets_of_a_group_are_a_partition_of_the_transaction(self) -> None:
        world = World()
        found = world.init()
        request = AddOffsetsToTxnRequest(ID, found.producer_id, found.producer_epoch, "group")
        assert world.ask(request, 4, AddOffsetsToTxnResponse).error_code == ErrorCode.NONE
        assert [each.topic for each in world.transaction().partitions] == ["__consumer_offsets"]

    @pytest.mark.parametrize(
        ("changes", "error"),
        [
            ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
            ({"timeout_ms": 0}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
            ({"timeout_ms": 15 * 60_000 + 1}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ],
    )
    def test_what_is_no_producer_is_refused(self, changes: dict[str, object], error: ErrorCode) -> None:
        assert World().init(**changes).error_code == error  # type: ignore[arg-type]

    def test_partitions_that_do_not_exist_are_not_added(self) -> None:
        world = World()
        found = world.init()
        assert world.add(found.producer_id, 0, 0, topic="unknown") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert world.state() is EMPTY

    def test_requests_of_no_known_form_are_refused(self) -> None:
        world = World()
        request_id = world.send(InitProducerIdRequest(ID, 1), 6)
        assert world.answers[request_id].body, "v6 has a schema"
        request = AddOffsetsToTxnRequest(ID, 1, 1, "")
        assert world.ask(request, 4, AddOffsetsToTxnResponse).error_code == ErrorCode.INVALID_GROUP_ID

    def test_they_are_described_and_listed(self) -> None:
        world = World()
        producer_id, epoch = world.begun(1)
        described = world.ask(DescribeTransactionsRequest([ID, "other"]), 0, DescribeTransactionsResponse)
        found, missing = described.transaction_states
        assert (found.transaction_state, found.producer_id, found.producer_epoch) == ("Ongoing", producer_id, epoch)
        assert [(each.topic, each.partitions) for each in found.topics] == [(TOPIC, [1])]
        assert missing.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

        def listed(**filters: object) -> list[str]:
            request = ListTransactionsRequest(**filters)  # type: ignore[arg-type]
            response = world.ask(request, 1, ListTransactionsResponse)
            return [each.transaction_state for each in response.transaction_states]

        assert listed() == ["Ongoing"]
        assert listed(state_filters=["Empty"]) == []
        assert listed(producer_id_filters=[producer_id + 1]) == []
        assert listed(duration_filter=1000) == []
        world.advance(2000)
        assert listed(duration_filter=1000, state_filters=["Ongoing"]) == ["Ongoing"]


class TestProducerIds:
    def test_without_a_block_clients_ask_again(self) -> None:
        world = World()
        for number in range(BLOCK):
            assert world.init(f"id {number}").producer_id == FIRST_ID + number
        assert world.init("one more").error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        ids = world.kind.producer_ids
        assert ids.take_request()
        assert not ids.take_request(), "one at a time"
        ids.block_received(-1, 0)
        assert world.init("one more").error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert ids.take_request(), "the answer was lost"
        ids.block_received(5 * BLOCK, BLOCK)
        assert world.init("one more").producer_id == 5 * BLOCK


class TestTime:
    def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(self) -> None:
        world = World()
        producer_id, epoch = world.begun()
        world.advance(TIMEOUT_MS - 1)
        assert world.state() is ONGOING
        world.advance(11_000)
        assert world.state() is PREPARE_ABORT
        assert world.end(producer_id, epoch).error_code == ErrorCode.PRODUCER_FENCED
        world.markers.write()
        world.turn()
        assert world.state() is COMPLETE_ABORT

    def test_ids_that_are_not_used_for_long_are_forgotten(self) -> None:
        world = World(id_expiration_ms=100_000, remove_expired_interval_ms=10_000)
        world.begun()
        world.init("unused")
        world.advance(120_000)
        (led,) = world.coordinator.shards
        assert list(led.shard.transactions) == [ID], "a transaction that is being ended is not forgotten"
        assert world.logged_states()[-1] is None

    def test_without_transactional_ids_nothing_is_due(self) -> None:
        world = World()
        assert world.coordinator.next_deadline_ms() is None
        assert not world.coordinator.has_work


class TestFailover:
    @pytest.mark.parametrize("commit", [True, False])
    def test_what_is_decided_is_carried_out_by_the_next_coordinator(self, commit: bool) -> None:
        world = World()
        producer_id, epoch = world.begun()
        world.end(producer_id, epoch, commit=commit)
        world.fail_over()
        ((sender, transaction),) = world.markers.sent
        assert transaction.state is (PREPARE_COMMIT if commit else PREPARE_ABORT)
        assert sender.leader_epoch == 2
        assert world.add(producer_id, epoch, 0) == ErrorCode.CONCURRENT_TRANSACTIONS
        world.markers.write()
        world.turn()
        assert world.state() is (COMPLETE_COMMIT if commit else COMPLETE_ABORT)

    @pytest.mark.parametrize("ends", [False, True])
    def test_what_is_open_or_over_goes_on(self, ends: bool) -> None:
        world = World()
        producer_id, epoch = world.begun()
        if ends:
            world.end(producer_id, epoch)
            world.markers.write()
            world.turn()
        world.fail_over()
        assert not world.markers.sent
        assert world.add(producer_id, epoch, 1) == ErrorCode.NONE
        assert len(world.transaction().partitions) == (1 if ends else 2)

    def test_an_open_transaction_times_out_at_the_next_coordinator(self) -> None:
        world = World()
        world.begun()
        world.fail_over()
        world.advance(TIMEOUT_MS + 11_000)
        assert world.state() is PREPARE_ABORT

    def test_markers_of_an_uncommitted_decision_are_not_sent(self) -> None:
        world = World()
        producer_id, epoch = world.begun()
        world.log.commits_at_once = False
        request_id = world.send(EndTxnRequest(ID, producer_id, epoch, committed=True), 4)
        world.lose()
        assert world.error_of(request_id) == ErrorCode.NOT_COORDINATOR
        world.lead()
        assert not world.markers.sent, "the record is in the log, and not committed yet"
        world.commit()
        assert len(world.markers.sent) == 1

    def test_a_decision_that_is_lost_is_void(self) -> None:
        world = World()
        producer_id, epoch = world.begun()
        world.log.commits_at_once = False
        world.send(EndTxnRequest(ID, producer_id, epoch, committed=True), 4)
        world.log.commits_at_once = True
        world.fail_over()
        assert world.state() is ONGOING
        assert world.end(producer_id, epoch, commit=False).error_code == ErrorCode.NONE

    def test_markers_that_are_written_for_an_older_epoch_complete_nothing(self) -> None:
        world = World()
        producer_id, epoch = world.begun()
        world.end(producer_id, epoch)
        ((sender, transaction),) = world.markers.sent
        world.fail_over()
        sender.markers_written(transaction)
        world.turn()
        assert world.state() is PREPARE_COMMIT

    def test_calls_are_refused_while_the_log_is_read_and_elsewhere(self) -> None:
        world = World()
        world.begun()
        world.lose()
        request = InitProducerIdRequest(ID, TIMEOUT_MS)
        assert world.error_of(world.send(request, 5)) == ErrorCode.NOT_COORDINATOR
        world.lead(loads=False)
        assert world.error_of(world.send(request, 5)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        listing = ListTransactionsRequest()
        assert world.error_of(world.send(listing, 1)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def test_the_newest_record_of_an_id_counts(self) -> None:
        world = World()
        for _ in range(5):
            world.init()
        world.fail_over()
        assert world.init().producer_epoch == 5


class TestRefusedWrites:
    def test_too_few_replicas_are_not_available(self) -> None:
        world = World()
        producer_id, epoch = world.begun()
        world.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        assert world.end(producer_id, epoch).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert world.state() is ONGOING

    def test_a_completion_that_is_refused_is_written_later(self) -> None:
        world = World()
        producer_id, epoch = world.begun()
        world.end(producer_id, epoch)
        world.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        world.markers.write()
        world.advance(1000)
        assert world.state() is PREPARE_COMMIT
        world.log.refusal = ErrorCode.NONE
        world.advance(1000)
        assert world.logged_states()[-1] is COMPLETE_COMMIT

    def test_a_failed_write_loads_the_log_again(self) -> None:
        world = World()
        producer_id, epoch = world.begun()
        world.log.fails_appends = True
        request = EndTxnRequest(ID, producer_id, epoch, committed=True)
        request_id = world.send(request, 4)
        assert world.error_of(request_id) == ErrorCode.NOT_COORDINATOR
        world.log.fails_appends = False
        world.lead()
        assert world.state() is ONGOING

    def test_a_record_that_is_too_large_is_an_error(self) -> None:
        world = World()
        world.log.bytes_max = 100
        response = world.ask(InitProducerIdRequest("x" * 1000, TIMEOUT_MS), 5, InitProducerIdResponse)
        assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
