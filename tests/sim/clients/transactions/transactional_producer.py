"""A producer with a transactional id: one transaction after the other, committed or aborted, some left open too long.

Its twin is another process with the same transactional id, which is started while this one is taken for gone. Only one
of the two goes on: the other is fenced, and ends.
"""

from __future__ import annotations

from tests.sim.clients.client import Client, ClientEnvironment
from tests.sim.clients.transactions.transaction_manager import TransactionManager
from tests.sim.scheduler import MS, SECOND
from tests.sim.transactions.history import ClientTransaction, TransactionHistory
from tests.sim.transactions.shape import TransactionHabits

REST_US_MAX = 4 * SECOND
PAUSE_US_MAX = 60 * MS
WRITES_ON_SHARE = 0.5
"""Of the transactions that are left open for too long, those to which more is written then: it is refused, and the
producer goes on.
"""


class TransactionalProducer(Client):
    def __init__(
        self,
        name: str,
        environment: ClientEnvironment,
        topics: dict[str, int],
        transactional_id: str,
        habits: TransactionHabits,
        transactions: TransactionHistory,
    ) -> None:
        super().__init__(name, environment)
        self.topics = topics
        self.transactional_id = transactional_id
        self.habits = habits
        self.twin: TransactionalProducer | None = None
        self.is_stopping = False
        self._transactions = transactions
        self._lives = 0
        self._produced = 0

    def boot(self) -> None:
        self._lives += 1
        self.manager = TransactionManager(self, self.transactional_id, self.habits, self._transactions, self._ended)
        self._is_ready = False
        super().boot()
        self._begin_later()

    @property
    def is_there(self) -> bool:
        """It lives, or its twin does."""
        return self.alive or (self.twin is not None and self.twin.alive)

    @property
    def is_idle(self) -> bool:
        """No transaction of it is open, as far as it knows."""
        return not self.alive or not self.manager.is_busy

    def work(self) -> None:
        self.learn_topics(list(self.topics), self._go_on)

    def _go_on(self) -> None:
        self._is_ready = True
        self.manager.connected()

    def connection_lost(self) -> None:
        self._is_ready = False

    def take_its_place(self) -> None:
        if not self.alive and not self.is_stopping:
            self.start()

    def come_back(self) -> None:
        if not self.is_there and not self.is_stopping:
            self.start()

    # --- transactions -------------------------------------------------------------------------------------------------

    def _begin_later(self) -> None:
        self.after(1 + self.scheduler.below(2 * self.habits.interval_us), "may begin a transaction", self._begin)

    def _begin(self) -> None:
        if self.is_stopping:
            return
        if not self._is_ready or not self.manager.is_ready:
            self._begin_later()
            return
        self._write(self.manager.begin(), self.scheduler.random.randint(1, self.habits.bursts_max))

    def _write(self, transaction: ClientTransaction, bursts: int) -> None:
        """Some records, and after a pause the next ones, or the end; nothing once an error has ended it."""
        random, habits = self.scheduler.random, self.habits
        if self.manager.transaction is not transaction:
            return
        for _ in range(random.randint(1, 3)):
            topic = random.choice(sorted(self.topics))
            values = [self._value() for _ in range(random.randint(1, habits.records_max))]
            self.manager.send((topic, random.randrange(self.topics[topic])), values)
        self.manager.pump()
        if bursts > 1:
            self.after(self.scheduler.below(PAUSE_US_MAX), "writes on", lambda: self._write(transaction, bursts - 1))
            return
        pause_us = self.scheduler.below(PAUSE_US_MAX)
        if random.random() < habits.slow_share:
            pause_us += habits.timeout_ms * MS * 3 // 2
            if random.random() < WRITES_ON_SHARE:
                self.after(pause_us, "writes on, late", lambda: self._write(transaction, 1))
                return
        is_abort = random.random() < habits.abort_share
        self.after(pause_us, "ends its transaction", lambda: self._end_transaction(transaction, is_abort=is_abort))

    def _end_transaction(self, transaction: ClientTransaction, *, is_abort: bool) -> None:
        if self.manager.transaction is not transaction:
            return
        if is_abort:
            self.manager.abort()
        else:
            self.manager.commit()

    def _value(self) -> bytes:
        self._produced += 1
        return f"{self.name}.{self._lives} {self._produced} {'.' * self.scheduler.below(60)}".encode()

    def _ended(self, committed: bool | None) -> None:
        if committed is not None:
            self._begin_later()
            return

        def end() -> None:
            self.kill()
            self.scheduler.plan(self.scheduler.below(REST_US_MAX), f"{self.name} comes back", self.come_back)

        self.after(0, "is fenced", end)
