"""Which answers of OUT_OF_ORDER_SEQUENCE_NUMBER a broker of Kafka would give, too, while nothing but leaders moves.

It reads the requests of a connection one after the other, and the next only when it has decided the one before. So what
follows a batch on the same connection is written behind it, or fails as it did. But a client may send a batch where the
ones before it are not: Java's sends to a new leader at once, though earlier ones are still in flight at the old one or
wait to be sent again. Then the gap is of its own making, and so are those behind what it costs. A leader that does not
know the producer yet takes such a batch at any sequence; the ones before it are out of order there from then on.
"""

from __future__ import annotations

from barnabas.wire.errors import ErrorCode
from tests.sim.clients.producers.calls import Answer, ProduceCall, SentBatch, TopicPartition

_NOWHERE = -1


class Gaps:
    """Of one producer, from its start to its end."""

    def __init__(self) -> None:
        # By partition, epoch and first sequence: what is not acknowledged, and the broker at which it is in flight.
        self._open: dict[TopicPartition, dict[tuple[int, int], int]] = {}
        # What was sent where something before it was not.
        self._own: dict[tuple[TopicPartition, int, int], None] = {}
        # What was not acknowledged when the leader took such a batch.
        self._overtaken: dict[tuple[TopicPartition, int, int], None] = {}
        # What was answered with OUT_OF_ORDER_SEQUENCE_NUMBER the last time.
        self._refused: dict[tuple[TopicPartition, int, int], None] = {}

    def sent(self, call: ProduceCall) -> None:
        for batch in call.batches:
            epoch, sequence = batch.producer.epoch, batch.base_sequence
            of_partition = self._open.setdefault(batch.partition, {})
            key = (batch.partition, epoch, sequence)
            self._own.pop(key, None)
            before = [each for each in of_partition if each[0] == epoch and each[1] < sequence]
            is_overtaken = key in self._overtaken
            if is_overtaken or any(
                of_partition[each] != call.node_id or (batch.partition, *each) in self._own for each in before
            ):
                self._own[key] = None
            of_partition[epoch, sequence] = call.node_id

    def answered(self, batch: SentBatch, answer: Answer) -> None:
        key = (batch.producer.epoch, batch.base_sequence)
        self._refused.pop((batch.partition, *key), None)
        if answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            self._refused[batch.partition, *key] = None
        if answer.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            of_partition = self._open[batch.partition]
            of_partition.pop(key, None)
            self._overtaken.pop((batch.partition, *key), None)
            if self.is_own(batch):
                for epoch, sequence in of_partition:
                    if epoch == key[0] and sequence < key[1]:
                        self._overtaken[batch.partition, epoch, sequence] = None
        else:
            self._open[batch.partition][key] = _NOWHERE

    def lost(self, node_id: int) -> None:
        """The connection to a broker."""
        for of_partition in self._open.values():
            for key, at in of_partition.items():
                if at == node_id:
                    of_partition[key] = _NOWHERE

    @property
    def sends_in_vain(self) -> bool:
        """Whether a batch of the present epoch is out of order."""
        epoch = max((epochs for of_partition in self._open.values() for epochs, _ in of_partition), default=-1)
        return any(refused == epoch for _, refused, _ in self._refused)

    def is_own(self, batch: SentBatch) -> bool:
        """Whether a gap before this batch is the client's own doing."""
        return (batch.partition, batch.producer.epoch, batch.base_sequence) in self._own
