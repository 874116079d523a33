"""Faults that other implementations of Kafka's protocol have published, and that no mutant of another area plants.

`rule` is the number of a row of docs/verify/rival-bugs.md, which says whose fault it was and lists those of the other
areas too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from barnabas.channel.messages import GroupAnswer, OffsetQuery
from barnabas.cluster.administration import EndOffsetAnswer, EndOffsetQuery
from barnabas.cluster.image import ClusterImage
from barnabas.cluster.messages import NO_EPOCH, PartitionMetadata, TopicMetadata
from barnabas.cluster.topic_config import TopicConfig
from barnabas.wire import decoding, primitives
from barnabas.wire.errors import ErrorCode
from barnabas.wire.markers import Marker
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.list_offsets import ListOffsetsRequest
from barnabas.wire.record_batch import BatchHeader
from barnabas_gateway.core.handlers.api_02_list_offsets import ListOffsetsHandler
from barnabas_gateway.core.requests.fetch import PendingFetch
from barnabas_logstore.core.administration import producers
from barnabas_logstore.core.administration.end_offsets import EndOffsets
from barnabas_logstore.core.coordinator import markers
from barnabas_logstore.core.coordinator.groups.kind import GroupKind
from barnabas_logstore.core.coordinator.groups.store import (
    OffsetsCommitted,
    OffsetsDeleted,
    PendingOffsets,
    TopicPartition,
)
from barnabas_logstore.core.coordinator.runtime.led_shard import LedShard
from barnabas_logstore.core.coordinator.transactions import rules
from barnabas_logstore.core.coordinator.transactions.calls import TransactionCalls
from barnabas_logstore.core.coordinator.transactions.rules import Producer
from barnabas_logstore.core.coordinator.transactions.transaction import Transaction
from barnabas_logstore.core.data.queries import Queries
from barnabas_logstore.core.storage.batches import batch_opening
from barnabas_logstore.core.storage.log import log_appends
from barnabas_logstore.core.storage.log.log_appends import AppendOutcome, LogAppends
from barnabas_logstore.core.storage.log.state.producer_state import ProducerState
from barnabas_logstore.core.storage.log.state.transactions import NO_OFFSET, EndedTransaction
from tests.crash.mutants.reading import full_read_goes_on_in_the_next_segment
from tests.sim.faults import Fault
from tests.sim.mutants.groups import COORDINATORS as GROUPS_COORDINATORS
from tests.sim.mutants.groups import SMALL as GROUP
from tests.sim.mutants.planting import LEADERS, Mutants, replace_in
from tests.sim.mutants.transactions import COORDINATORS

RIVALS = Mutants("rivals")

_OFFSETS = "tests/unit/logstore/service/test_order_of_transactional_offsets.py"
_HANGING = "tests/regressions/test_marker_lost_by_an_unclean_election.py"
_SLOW_READS = "tests/regressions/test_reads_slower_than_their_clients_wait.py"
_PARSING_CVES = "tests/regressions/test_request_parsing_cves.py"
_COMPRESSION_CVES = "tests/regressions/test_compression_cves.py"


# --- transactions and their offsets ------------------------------------------------------------------------------


@RIVALS.breaks_for("rival 1", f"{_OFFSETS}::test_what_a_transaction_has_pending_outlives_every_expiry")
def an_expiry_removes_what_is_pending() -> None:
    """In the simulation no group is idle for a retention of offsets, while one of its transactions is open."""

    def is_pending(self: PendingOffsets, group_id: str, place: TopicPartition) -> bool:
        return False

    replace_in(PendingOffsets, "is_pending", is_pending)


@RIVALS.breaks_for("rival 2", f"{_OFFSETS}::test_what_is_removed_while_it_is_pending_stays_removed")
def a_removal_leaves_what_is_pending() -> None:
    """Its marker brings it back, and a log that is compacted has nothing of it."""

    def delete(self: PendingOffsets, group_id: str, place: TopicPartition) -> None:
        """Leave it."""

    replace_in(PendingOffsets, "delete", delete)


@RIVALS.breaks_for(
    "rival 4",
    "tests/unit/logstore/transactions/test_answers.py::test_each_request_is_answered_as_kafka_answers_it",
)
def an_end_under_way_is_an_unknown_server_error() -> None:
    """No client of the simulation asks for an end again while the one that it has asked for is under way."""
    original = rules.end_transaction

    def end_transaction(
        transaction: Transaction, producer: Producer, version: int, fresh_producer_id: int, now_ms: int, *, commit: bool
    ) -> Transaction | ErrorCode:
        found = original(transaction, producer, version, fresh_producer_id, now_ms, commit=commit)
        return ErrorCode.UNKNOWN_SERVER_ERROR if found is ErrorCode.CONCURRENT_TRANSACTIONS else found

    replace_in(rules, "end_transaction", end_transaction)


@RIVALS.breaks_for("rival 6", f"{_HANGING}::test_it_is_found_and_ended")
def producers_are_described_without_their_transactions() -> None:
    """Then find-hanging finds nothing, and what is behind is never stable."""
    original = producers.ActiveProducer

    def described(*fields: int) -> producers.ActiveProducer:
        return original(*fields[:-1], NO_OFFSET)

    replace_in(producers, "ActiveProducer", described)


@RIVALS.breaks_in_transactions("rival 10", COORDINATORS)
def a_decision_is_answered_before_the_log_has_it() -> None:
    def answer(self: LedShard[Any], stream_id: int, reported: GroupAnswer) -> None:
        self.answers.append((stream_id, reported))

    replace_in(LedShard, "answer", answer)


@RIVALS.breaks_in_transactions("rival 10", LEADERS)
def a_marker_is_answered_before_it_is_replicated() -> None:
    """Its transaction is complete, and open for ever under the next leader."""
    replace_in(markers, "_fate_of", lambda partition, appended: ErrorCode.NONE)


@RIVALS.breaks_for(
    "rival 14",
    "tests/unit/logstore/transactions/test_coordinator.py::TestRequests::test_what_is_no_producer_is_refused",
)
def any_timeout_of_a_transaction_will_do() -> None:
    original = TransactionCalls._initialized

    def initialized(self: TransactionCalls, request: InitProducerIdRequest) -> Any:
        return original(self, replace(request, transaction_timeout_ms=1))

    replace_in(TransactionCalls, "_initialized", initialized)


# --- logs --------------------------------------------------------------------------------------------------------


@RIVALS.breaks("rival 11", LEADERS)
def a_follower_keeps_no_producers() -> None:
    """What it has been given as a follower, it takes once more as a leader."""

    def note_producer(producers: ProducerState, header: BatchHeader, marker: Marker | None) -> EndedTransaction | None:
        return None

    replace_in(log_appends, "note_producer", note_producer)


@RIVALS.breaks_for("rival 12", "tests/sim/test_simulation.py::test_consumers_that_take_a_batch_at_a_time_skip_nothing")
def a_full_read_goes_on_in_the_next_segment() -> None:
    """In other runs consumers read what has just come, and all of it."""
    full_read_goes_on_in_the_next_segment()


@RIVALS.breaks_for(
    "rival 13",
    "tests/unit/logstore/storage/test_batch_opening.py::test_records_without_a_key_are_named_in_kafkas_words",
)
def a_compacted_topic_takes_records_without_a_key() -> None:
    original = batch_opening._Validation.__init__

    def init(self: Any, header: BatchHeader, topic_partition: str, config: TopicConfig, wall_ms: int) -> None:
        original(self, header, topic_partition, replace(config, cleanup_policy="delete"), wall_ms)

    replace_in(batch_opening._Validation, "__init__", init)


# --- leaders and offsets -----------------------------------------------------------------------------------------


@RIVALS.breaks("rival 5")
def a_topic_made_again_keeps_the_leaders_of_its_name() -> None:
    """The epochs of the topic before it were higher."""
    original = ClusterImage._put
    newest: dict[tuple[str, int], PartitionMetadata] = {}

    def put(self: ClusterImage, topic: TopicMetadata, known: dict[int, PartitionMetadata]) -> None:
        of_name = {each: newest[topic.topic, each] for each in range(1000) if (topic.topic, each) in newest}
        original(self, topic, of_name | known)
        for number, each in self.partitions_by_topic_id[topic.topic_id].items():
            newest[topic.topic, number] = each

    replace_in(ClusterImage, "_put", put)


@RIVALS.breaks_for(
    "rival 22", "tests/unit/logstore/service/test_reads.py::test_a_readers_leader_epoch_is_held_against_ours"
)
def an_offset_is_answered_whatever_epoch_its_client_knows() -> None:
    original = Queries.query_offset

    def query_offset(self: Queries, stream: Any, query: OffsetQuery) -> None:
        original(self, stream, replace(query, current_leader_epoch=NO_EPOCH))

    replace_in(Queries, "query_offset", query_offset)


@RIVALS.breaks_for(
    "rival 22", "tests/unit/logstore/service/test_administration.py::test_an_end_offset_is_fenced_by_the_current_epoch"
)
def the_end_of_an_epoch_is_answered_whatever_epoch_its_client_knows() -> None:
    original = EndOffsets._look_up

    def look_up(self: EndOffsets, query: EndOffsetQuery) -> EndOffsetAnswer:
        return original(self, replace(query, current_leader_epoch=NO_EPOCH))

    replace_in(EndOffsets, "_look_up", look_up)


@RIVALS.breaks("rival 23", [Fault.RESET, Fault.KILL_GATEWAY, Fault.CUT, Fault.RETRY_STORM])
def a_repeated_batch_is_acknowledged_at_offset_0() -> None:
    original = LogAppends._repeat

    def repeat(self: LogAppends, base_offset: int, *rest: Any) -> AppendOutcome:
        return original(self, 0, *rest)

    replace_in(LogAppends, "_repeat", repeat)


@RIVALS.breaks("rival 23", GROUPS_COORDINATORS, at_most=GROUP)
def a_new_coordinator_answers_that_nothing_was_committed() -> None:
    """Its consumers begin at their auto.offset.reset, whatever was committed to the coordinator before it."""

    original = GroupKind.decode

    def decode(self: GroupKind, header: Any, record: Any) -> Any:
        change = original(self, header, record)
        return None if isinstance(change, OffsetsCommitted | OffsetsDeleted) else change

    replace_in(GroupKind, "decode", decode)


# --- what one client can do to others ----------------------------------------------------------------------------


@RIVALS.breaks_for("rival 21", f"{_PARSING_CVES}::test_cve_2026_66079_elements_without_bytes_are_bounded_like_others")
def a_count_of_elements_is_believed() -> None:
    decoding.DECODER_NAMES["check_count"] = lambda name, count, element_bytes_min, bytes_left: None


@RIVALS.breaks_for("rival 21", f"{_PARSING_CVES}::test_cve_2026_111115_the_tagged_fields_of_a_header_are_few")
def any_number_of_tagged_fields_will_do() -> None:
    replace_in(primitives, "check_tag_count", lambda count, bytes_left: None)


@RIVALS.breaks_for("rival 21", f"{_PARSING_CVES}::test_cve_2026_83525_an_empty_request_leaves_the_gateway_serving")
def an_array_has_a_first_element() -> None:
    original = ListOffsetsHandler.start

    def start(self: ListOffsetsHandler, pending: Any, request: ListOffsetsRequest) -> Any:
        assert request.topics[0] is not None
        return original(self, pending, request)

    replace_in(ListOffsetsHandler, "start", start)


@RIVALS.breaks_for("rival 21", f"{_COMPRESSION_CVES}::test_cve_2026_111073_a_bomb_that_a_topic_wants_opened_is_refused")
def what_a_batch_is_decompressed_to_has_no_limit() -> None:
    replace_in(batch_opening, "DECOMPRESSED_BYTES_MAX", 1 << 40)


@RIVALS.breaks_for("rival 24", f"{_SLOW_READS}::test_it_is_waited_for_and_not_begun_again")
def a_read_is_given_up_when_its_clients_wait_is_over() -> None:
    original = PendingFetch._read

    def read(self: PendingFetch) -> None:
        original(self)
        if self.reads_unanswered:
            self.handler.deadlines.schedule(self, self.deadline_ms)

    replace_in(PendingFetch, "_read", read)
