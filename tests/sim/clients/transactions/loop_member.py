"""A member of a group that reads, writes what it makes of that, and commits its offsets with it, in one transaction
(KIP-447): what Kafka Streams and Flink do. It is fenced by its generation, and by its transactional id after a restart.

After an abort it reads again from what the group has committed, and it waits while offsets of others are undecided
(UNSTABLE_OFFSET_COMMIT). What it reads before the next transaction is bounded, as max.poll.records bounds what Java's
consumer returns: without a bound a transaction grows with what is to be caught up on until it outlasts its timeout, for
ever. The records that go to one partition are sent in batches.
"""

from __future__ import annotations

from tests.sim.clients.client import ClientEnvironment
from tests.sim.clients.group_member import GroupMember
from tests.sim.clients.transactions.offsets import OffsetsToCommit
from tests.sim.clients.transactions.transaction_manager import TransactionManager
from tests.sim.groups.assignments import TopicPartition
from tests.sim.groups.history import GroupHistory
from tests.sim.groups.log import Commit
from tests.sim.groups.shape import GroupShape, MemberBehaviour
from tests.sim.scheduler import MS
from tests.sim.transactions.history import Poll, TransactionHistory
from tests.sim.transactions.shape import TransactionHabits

READ_MAX = 200
"""Records that are read before a transaction begins with them; a fetch may bring some more."""
FETCH_BYTES_MAX = 8 * 1024
BATCH_RECORDS_MAX = 20
WAIT_US = 20 * MS


class LoopMember(GroupMember):
    needs_stable_offsets = True
    partition_bytes_max = FETCH_BYTES_MAX

    def __init__(
        self,
        name: str,
        environment: ClientEnvironment,
        outputs: dict[str, int],
        group: GroupShape,
        behaviour: MemberBehaviour,
        groups: GroupHistory,
        habits: TransactionHabits,
        transactions: TransactionHistory,
    ) -> None:
        assert group.topics is not None
        super().__init__(name, environment, group.topics, group, behaviour, None, groups)
        self._outputs = outputs
        self._habits = habits
        self._transactions = transactions
        self._lives = 0
        self._produced = 0

    def boot(self) -> None:
        self._lives += 1
        self.manager = TransactionManager(self, self.name, self._habits, self._transactions, self._transaction_ended)
        self._read: dict[TopicPartition, list[tuple[int, bytes]]] = {}
        """What was read since the last transaction began."""
        self._in_transaction: dict[TopicPartition, int] = {}
        self._assigned_at: int | None = None
        super().boot()

    def work(self) -> None:
        self.learn_topics(list(self._outputs), self._begin_work)

    def _begin_work(self) -> None:
        self.manager.connected()
        super().work()

    def given(self, key: TopicPartition, offset: int, value: bytes) -> None:
        self._read.setdefault(key, []).append((offset, value))

    def read(self) -> None:
        if sum(map(len, self._read.values())) < READ_MAX:
            super().read()
        else:
            self.meanwhile(WAIT_US, "reads on when what it has read is in a transaction", self.read)

    def let_go(self) -> None:
        super().let_go()
        self._read.clear()

    # --- transactions -------------------------------------------------------------------------------------------------

    def commit_positions(self) -> None:
        """Transform what was read since, and commit how far that was; one transaction at a time."""
        positions = self.uncommitted_positions()
        if not positions or not self.manager.is_ready:
            return
        read, self._read = self._read, {}
        transaction = self.manager.begin(self.group.group_id)
        made: list[bytes] = []
        for key, records in read.items():
            transaction.polls.append(Poll(self.name, key, records[0][0], records))
            for offset, value in records:
                transaction.inputs.append((*key, offset))
                made.append(self._made_of(key, offset, value))
        while made:
            count = self.scheduler.random.randint(1, BATCH_RECORDS_MAX)
            self.manager.send(self._output(), made[:count])
            del made[:count]
        commit_id = self.next_commit_id()
        for key, position in positions.items():
            commit = Commit(position, self.member_id, self.generation_id)
            self._groups.committing(self.group.group_id, key, commit_id, commit)
        self.manager.send_offsets(
            OffsetsToCommit(self.group.group_id, self.generation_id, self.member_id, None, positions, commit_id)
        )
        self._in_transaction = positions
        self._assigned_at = self.generation_id
        if self.scheduler.random.random() < self._habits.abort_share / 4:
            self.manager.abort()
        else:
            self.manager.commit()

    def _output(self) -> TopicPartition:
        topic = self.scheduler.random.choice(sorted(self._outputs))
        return topic, self.scheduler.below(self._outputs[topic])

    def _made_of(self, key: TopicPartition, offset: int, value: bytes) -> bytes:
        self._produced += 1
        return f"{self.name}.{self._lives} {self._produced} {key[0]}-{key[1]} {offset}".encode()

    def _transaction_ended(self, committed: bool | None) -> None:
        """Go on behind it, or read again what it was about."""
        positions, self._in_transaction = self._in_transaction, {}
        if committed is None:
            self.go_away("is fenced")
        elif self.assigned is None or self._assigned_at != self.generation_id:
            return
        elif committed:
            self.committed.update(positions)
        else:
            self._read.clear()
            self.read_again()
