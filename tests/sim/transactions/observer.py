"""Reads along in every log: what is committed of transactions, and what each replica derives from its own batches.

A marker is checked when a leader has appended it, and when it is committed; a replica's last stable offset whenever
something of the replica has changed (I12: what is kept in memory, and rebuilt from disk, is what the batches say).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.cluster.internal_topics import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.wire.record_batch import decode_payload
from barnabas_logstore.core.coordinator.groups.records import OffsetCommitValue, read_record
from barnabas_logstore.core.replica.partition import Partition
from tests.sim.elections import Elections
from tests.sim.history import Partition as PartitionKey
from tests.sim.history import name
from tests.sim.replica_logs import Batch, ReplicaLog
from tests.sim.scheduler import InvariantViolation
from tests.sim.transactions.history import ClientTransaction, TopicPartition, TransactionHistory
from tests.sim.transactions.spans import CommittedSpans, MarkerBatch, Spans
from tests.sim.transactions.state_log import StateLog

if TYPE_CHECKING:
    from tests.sim.nodes.logstore import LogstoreNode


class TransactionObserver:
    def __init__(self, history: TransactionHistory, elections: Elections) -> None:
        self._history = history
        self._elections = elections
        self._spans: dict[PartitionKey, CommittedSpans] = {}
        self._state_logs: dict[int, StateLog] = {}
        self._ended_in: dict[tuple[PartitionKey, ClientTransaction], None] = {}
        self._appended: list[tuple[str, PartitionKey, MarkerBatch]] = []
        """Markers that leaders have appended in this turn."""

    def spans_of(self, key: PartitionKey) -> CommittedSpans:
        spans = self._spans.get(key)
        if spans is None:
            spans = self._spans[key] = CommittedSpans()
        return spans

    def state_log(self, partition: int) -> StateLog:
        log = self._state_logs.get(partition)
        if log is None:
            name_ = f"{TRANSACTION_STATE_TOPIC}-{partition}"
            log = self._state_logs[partition] = StateLog(name_, self._history, self._lacks_marker)
        return log

    @property
    def state_logs(self) -> list[StateLog]:
        return list(self._state_logs.values())

    def _topic(self, key: PartitionKey) -> str:
        return self._elections.topics[key[0]].topic

    def _lacks_marker(self, topic: str, partition: int, producer_id: int) -> bool:
        ids = self._elections.ids_of(topic)
        if not ids or ids[-1] in self._elections.deleted:
            return False
        spans = self.spans_of((ids[-1], partition))
        return producer_id in spans.open and not spans.is_cut

    # --- what is committed --------------------------------------------------------------------------------------------

    def committed(self, key: PartitionKey, batches: list[Batch]) -> None:
        topic = self._topic(key)
        if topic == TRANSACTION_STATE_TOPIC:
            self.state_log(key[1]).add(batches)
            return
        spans = self.spans_of(key)
        for batch in batches:
            markers = spans.add([batch])
            header = batch.header
            if header.is_transactional and not spans.is_cut:
                highest = spans.producer_epochs.get(header.producer_id, -1)
                if header.producer_epoch < highest:
                    raise InvariantViolation(
                        f"17: {topic}-{key[1]} at {batch.base_offset}: epoch {header.producer_epoch} of producer "
                        f"{header.producer_id} comes after {highest}"
                    )
                spans.producer_epochs[header.producer_id] = header.producer_epoch
                if not header.is_control:
                    self._check_that_it_is_not_late(key, batch)
            for marker in markers:
                self._marker_committed(key, spans, marker)

    def _check_that_it_is_not_late(self, key: PartitionKey, batch: Batch) -> None:
        for transaction in self._transactions_in(key, [batch]):
            if (key, transaction) in self._ended_in:
                self._history.late(transaction, f"{self._topic(key)}-{key[1]} at {batch.base_offset}")

    def _marker_committed(self, key: PartitionKey, spans: CommittedSpans, marker: MarkerBatch) -> None:
        header, where = marker.batch.header, f"{self._topic(key)}-{key[1]} at {marker.batch.base_offset}"
        newest = spans.coordinator_epochs.get(header.producer_id, -1)
        if marker.coordinator_epoch < newest and not spans.is_cut:
            raise InvariantViolation(
                f"17: {where}: a marker of coordinator epoch {marker.coordinator_epoch} comes after one of {newest}"
            )
        spans.coordinator_epochs[header.producer_id] = marker.coordinator_epoch
        if marker.ended is None:
            return
        ending = (header.producer_id, header.producer_epoch, marker.is_commit)
        self._check_that_it_was_decided(key, marker, where)
        spans.endings[ending] = spans.endings.get(ending, 0) + 1
        for transaction in self._transactions_in(key, marker.ended.batches):
            self._ended_in[key, transaction] = None
            self._history.decided(transaction, where, commit=marker.is_commit)

    def _check_that_it_was_decided(self, key: PartitionKey, marker: MarkerBatch, where: str) -> None:
        """Its coordinator has committed the decision, once for each transaction that it ends here."""
        header = marker.batch.header
        topic = self._topic(key)
        decision = (header.producer_id, header.producer_epoch, marker.is_commit, topic, key[1])
        decided = sum(each.decisions.get(decision, 0) for each in self.state_logs)
        ended = self.spans_of(key).endings.get((header.producer_id, header.producer_epoch, marker.is_commit), 0)
        if decided <= ended and not any(each.is_cut for each in self.state_logs):
            raise InvariantViolation(
                f"{where}: a marker of producer {header.producer_id}, epoch {header.producer_epoch}, ends a "
                f"transaction by {'COMMIT' if marker.is_commit else 'ABORT'}, decided are {decided}, ended {ended}"
            )

    def _transactions_in(self, key: PartitionKey, batches: Iterable[Batch]) -> list[ClientTransaction]:
        """Return them in the order of their batches, each once."""
        is_offsets = self._topic(key) == OFFSETS_TOPIC
        found: dict[ClientTransaction, None] = {}
        for batch in batches:
            values = _commit_ids(batch) if is_offsets else list(batch.values().values())
            for value in values:
                transaction = self._history.transaction_of(value)
                if transaction is None:
                    raise InvariantViolation(f"{name(key)} at {batch.base_offset}: {value!r} is of no transaction")
                found[transaction] = None
        return list(found)

    def lost(self, key: PartitionKey, end: int) -> None:
        """What was committed from `end` on is lost, as it may be."""
        if self._topic(key) == TRANSACTION_STATE_TOPIC:
            self.state_log(key[1]).cut(end)
            self._history.has_lost_states = True
        else:
            self.spans_of(key).is_cut = True

    # --- what consumers are given -------------------------------------------------------------------------------------

    def read(self, partition: TopicPartition, key: PartitionKey, offset: int) -> None:
        """A read_committed consumer was given this record."""
        spans = self.spans_of(key)
        span = spans.at(offset)
        if span is None or spans.is_cut:
            return
        self._history.counts.reads += 1
        if span.is_open or not span.is_commit:
            state = "undecided" if span.is_open else "aborted"
            raise InvariantViolation(
                f"G1a: {partition[0]}-{partition[1]} at {offset} is read, and {state}: producer {span.producer_id} "
                f"from {span.first_offset} to {span.marker_offset}"
            )

    def filtered(self, partition: TopicPartition, key: PartitionKey, offset: int) -> None:
        """A read_committed consumer was not given this record, since an answer names its transaction as aborted."""
        spans = self.spans_of(key)
        span = spans.at(offset)
        self._history.counts.filtered += 1
        if not spans.is_cut and (span is None or span.is_open or span.is_commit):
            raise InvariantViolation(f"{partition[0]}-{partition[1]} at {offset} is named as aborted: {span}")

    # --- what replicas derive -----------------------------------------------------------------------------------------

    def look_at(self, node: LogstoreNode, partition: Partition, replica: ReplicaLog) -> None:
        """Something of it has changed in this turn."""
        spans = replica.spans
        if spans is None:
            spans = replica.spans = Spans()
        markers = spans.add(replica.batches[spans.scanned :])
        if partition.leading and markers:
            # What is committed was looked at before.
            end = self.spans_of(partition.key).end
            new = [each for each in markers if each.batch.base_offset >= end]
            own = [each for each in new if each.batch.leader_epoch == partition.leader_epoch]
            self._appended += [(node.name, partition.key, marker) for marker in own]
        if partition.log.is_truncating or (not spans.unstable and partition.log.state.producers.transactions.is_none):
            return
        high_watermark = partition.high_watermark
        least, surely = spans.first_unstable(high_watermark, replica.forgiven_upto)
        start = min(partition.log.log_start_offset, high_watermark)
        stable = partition.last_stable_offset
        if not max(least, start) <= stable <= max(surely, start) and stable != start:
            raise InvariantViolation(
                f"I12: {name(partition.key)} at {node.name} has last stable offset {stable}, its batches say {least} "
                f"to {surely}, at a high watermark of {high_watermark}"
            )

    def turn_over(self) -> None:
        """All partitions of a logstore have been looked at."""
        for state_log in self._state_logs.values():
            state_log.turn_over()
        if not self._appended:
            return
        appended, self._appended = self._appended, []
        for node_name, key, marker in appended:
            if marker.ended is not None:
                where = f"{self._topic(key)}-{key[1]} at {marker.batch.base_offset}, appended by {node_name}"
                self._check_that_it_was_decided(key, marker, where)


def _commit_ids(batch: Batch) -> list[bytes]:
    ids: list[bytes] = []
    for record in decode_payload(batch.header, batch.payload):
        entry = read_record(record.key, record.value)
        assert entry is not None
        if isinstance(entry[1], OffsetCommitValue):
            ids.append(entry[1].metadata.encode())
    return ids
