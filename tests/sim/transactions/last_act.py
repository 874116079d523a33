"""Obligations of transactions when all processes are alive and nothing is cut: each ends, by its client or by its
timeout, no last stable offset stays behind, and what read_committed consumers get is what was committed, all of it and
each record once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas_logstore.core.coordinator.transactions.transaction import TransactionState
from tests.sim.clients.consumer import Consumer, Taste
from tests.sim.clients.transactions.transactional_producer import TransactionalProducer
from tests.sim.process import WALL_START_MS
from tests.sim.scheduler import MS, SECOND, InvariantViolation
from tests.sim.transactions.anomalies import anomalies_in

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster

# An abort by timeout is looked for every second; its markers and their commit take moments.
MARGIN_US = 20 * SECOND
# A transaction's slow application, its deliveries, and the requests under way.
CLIENT_US_MAX = 90 * SECOND
LOOK_US = 100 * MS
ABANDONED_SHARE = 0.4
"""Of the runs, those that end with a producer that leaves its transaction open."""


class LastActOfTransactions:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._transactions = cluster.transactions

    @property
    def _timeout_us(self) -> int:
        shape = self._transactions.shape
        return max(each.timeout_ms for each in (*shape.producers, *shape.loop_habits)) * MS + MARGIN_US

    def end_producers(self) -> None:
        """They end what they have begun; what others left behind ends by its timeout."""
        transactions, cluster = self._transactions, self._cluster
        if not transactions.shape.is_used:
            return
        producers = [*transactions.producers, *transactions.twins]
        if transactions.producers and cluster.scheduler.random.random() < ABANDONED_SHARE:
            self._abandon(transactions.producers[0])
        for producer in producers:
            producer.is_stopping = True

        def have_ended() -> bool:
            return all(each.is_idle or transactions.is_given_up(each.transactional_id) for each in producers)

        cluster.wait_until(have_ended, "transactions end", CLIENT_US_MAX)
        ids = [each.transactional_id for each in transactions.producers]
        what = "transactions that no client ends are aborted"
        cluster.wait_until(lambda: not transactions.unfinished(ids), what, self._timeout_us + self._ahead_us(ids))

    def _ahead_us(self, ids: list[str]) -> int:
        """Return how far the wall clocks of coordinators have been ahead as transactions began that are still open: by
        a clock that is right they end so much later, in Kafka, too.
        """
        states = [self._transactions.state_of(each) for each in self._transactions.unfinished(ids)]
        now_ms = WALL_START_MS + self._cluster.scheduler.now_us // MS
        return max([0, *(state.start_ms - now_ms for state in states if state is not None)]) * MS

    def _abandon(self, producer: TransactionalProducer) -> None:
        """Kill it while its transaction is open: only the timeout ends that."""
        pair = [each for each in (producer, producer.twin) if each is not None]

        def is_open() -> bool:
            state = self._transactions.state_of(producer.transactional_id)
            is_ongoing = state is not None and state.state is TransactionState.ONGOING
            return is_ongoing and any(each.alive for each in pair)

        def is_open_or_never() -> bool:
            return is_open() or self._transactions.is_given_up(producer.transactional_id)

        self._cluster.wait_until(is_open_or_never, f"{producer.transactional_id} begins a transaction", CLIENT_US_MAX)
        for each in pair:
            each.is_stopping = True
            if each.alive:
                each.kill()

    def play(self) -> None:
        """The members of the loop are gone too."""
        transactions, cluster = self._transactions, self._cluster
        if not transactions.shape.is_used:
            return
        ids = [each.name for each in transactions.members]
        what = "transactions of members that are gone are aborted"
        cluster.wait_until(lambda: not transactions.unfinished(ids), what, self._timeout_us)
        for _ in range(MARGIN_US // LOOK_US):
            if not self._what_is_unstable():
                return
            cluster.run_for(LOOK_US)
        if transactions.history.has_lost_states:
            return  # an administrator has to abort it (KIP-664): its coordinator may have lost that it was begun
        raise InvariantViolation(f"liveness: a transaction hangs: {self._what_is_unstable()}")

    def _what_is_unstable(self) -> str:
        for node in self._cluster.logstores:
            for partition in node.partitions:
                if partition.leading and partition.last_stable_offset < partition.high_watermark:
                    return (
                        f"{partition.topic}-{partition.partition} at {node.name} is stable up to "
                        f"{partition.last_stable_offset} of {partition.high_watermark}"
                    )
        return ""

    # --- what was read ------------------------------------------------------------------------------------------------

    def read_committed(self) -> None:
        """A new read_committed consumer gets everything that it may."""
        cluster = self._cluster
        if not self._transactions.shape.is_used or self._what_is_unstable():
            return
        taste = Taste(12, 100, 1, 1, uses_sessions=cluster.scheduler.random.random() < 0.5)
        environment = cluster.client_environment
        reader = _Reader("committed-reader", environment, cluster.shape.partition_counts, taste)
        reader.start()
        cluster.wait_until(reader.has_caught_up, "a read_committed consumer reads everything")
        reader.is_stopping = True
        reader.kill()
        anomalies = anomalies_in(self._transactions.history, reader.logs)
        if anomalies:
            raise InvariantViolation(f"anomaly: {anomalies[0]}, and {len(anomalies) - 1} more")
        self._check_fates(reader)
        self._check_effects()

    def _check_fates(self, reader: _Reader) -> None:
        """All of a committed transaction is read, nothing of any other."""
        history, history_of_states = self._cluster.history, self._transactions.history
        for transaction in history_of_states.all:
            if history_of_states.may_lack_state(transaction.transactional_id):
                continue
            is_committed = transaction.fate is True
            if transaction.outcome is True and transaction.values and not is_committed:
                raise InvariantViolation(f"{transaction} is acknowledged as committed, its fate is {transaction.fate}")
            for value, (topic, partition) in transaction.values.items():
                if is_committed != (value in reader.values) and not history.may_jump(topic, partition):
                    raise InvariantViolation(
                        f"all or nothing: {value!r} of {transaction}, of fate {transaction.fate}, "
                        f"{'is' if value in reader.values else 'is not'} read from {topic}-{partition}"
                    )

    def _check_effects(self) -> None:
        """Every input of the loop that was readable has had its effect."""
        loop = self._transactions.shape.loop
        if loop is None or any(
            self._transactions.history.may_lack_state(each.name) for each in self._transactions.members
        ):
            return
        cluster, elections = self._cluster, self._cluster.promises.elections
        for topic, count in (loop.topics or {}).items():
            for partition in range(count):
                key = (elections.ids_of(topic)[-1], partition)
                spans = self._transactions.observer.spans_of(key)
                if cluster.history.may_jump(topic, partition) or spans.is_cut:
                    continue
                for offset in cluster.history.of(key).consumed:
                    span = spans.at(offset)
                    is_readable = span is None or span.is_commit
                    has_effect = (loop.group_id, (topic, partition, offset)) in self._transactions.history.effects
                    if is_readable and not has_effect:
                        raise InvariantViolation(
                            f"exactly once: {topic}-{partition} at {offset} has no effect by {loop.group_id}"
                        )


class _Reader(Consumer):
    """Keeps what it is given."""

    def boot(self) -> None:
        self.values: dict[bytes, int] = {}
        self.logs: dict[tuple[str, int], dict[int, bytes]] = {each: {} for each in self.wanted}
        super().boot()

    def given(self, key: tuple[str, int], offset: int, value: bytes) -> None:
        self.values[value] = offset
        self.logs[key][offset] = value
