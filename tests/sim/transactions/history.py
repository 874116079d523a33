"""What clients have done in transactions, and what became of it in the logs.

A transaction has one fate: that of its first marker in any partition. From then on every other marker has to agree, no
batch of it may follow, and a client's answer may not contradict it. An input of a loop that commits its offsets within
transactions has one committed effect.

One rule is weaker at transaction version 0, as in Kafka (KIP-890): all transactions of an epoch look alike, so a copy
of an EndTxn that was sent twice may end the next one. Such a transaction is `may_be_ended_by_a_copy`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tests.sim.history import History
from tests.sim.scheduler import InvariantViolation

TopicPartition = tuple[str, int]
Input = tuple[str, int, int]
"""Topic, partition, offset."""


class Poll(NamedTuple):
    """What a read_committed reader was given of a partition at once: everything from `begin` on, by offset."""

    reader: str
    partition: TopicPartition
    begin: int
    records: list[tuple[int, bytes]]


@dataclass(slots=True, eq=False)
class ClientTransaction:
    """`outcome`: what its client was answered; `fate`: what the markers say. True is commit."""

    client: str
    number: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str = ""
    values: dict[bytes, TopicPartition] = field(default_factory=dict)
    inputs: list[Input] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)
    """What its client has read before, and made it of."""
    ends_asked: dict[bool, bool] = field(default_factory=dict)
    """By commit: whether it was asked before a successor of the producer was initialized."""
    outcome: bool | None = None
    fate: bool | None = None
    may_be_ended_by_a_copy: bool = False

    def __str__(self) -> str:
        return f"transaction {self.number} of {self.client} ({self.producer_id}, {self.producer_epoch})"


@dataclass(slots=True)
class TransactionCounts:
    begun: int = 0
    committed: int = 0
    aborted: int = 0
    fenced: int = 0
    timed_out: int = 0
    rotated: int = 0
    """Producer ids whose epochs were used up."""
    effects: int = 0
    """Inputs of loops whose effect is committed."""
    reads: int = 0
    """Records of transactions that read_committed consumers were given."""
    filtered: int = 0
    """Records of aborted transactions that they were not given."""
    completed: int = 0
    """Transactions that a coordinator has completed."""

    def __str__(self) -> str:
        return (
            f"{self.begun} transactions: {self.committed} committed, {self.aborted} aborted, {self.timed_out} timed "
            f"out, {self.fenced} producers fenced, {self.rotated} producer ids used up, {self.effects} inputs "
            f"transformed, {self.reads} records of transactions read, {self.filtered} filtered"
        )


class TransactionHistory:
    def __init__(self, history: History) -> None:
        self.history = history
        self.counts = TransactionCounts()
        self.all: list[ClientTransaction] = []
        self.polls: list[Poll] = []
        """Those of read_committed consumers that had records of transactions."""
        self._of_value: dict[bytes, ClientTransaction] = {}
        """By value, or by the id of a commit of offsets."""
        self._initialized: dict[str, tuple[int, int]] = {}
        """By transactional id: the producer id and epoch that the newest instance was given."""
        self._producer_ids: dict[str, list[int]] = {}
        """By transactional id, in their order: another one follows when all epochs are used up."""
        self._instances: dict[str, int] = {}
        """By transactional id: producers that have asked for it, each as the first thing it did."""
        self.has_lost_states = False
        """Something that was committed of transactional ids is lost, as it may be."""
        self._ids_lost: dict[str, None] = {}
        """Those of whom it was."""
        self._asked: dict[tuple[int, int, bool], int] = {}
        """EndTxn requests sent, by producer id, epoch and commit."""
        self.effects: dict[tuple[str, Input], ClientTransaction] = {}

    # --- clients ------------------------------------------------------------------------------------------------------

    def initialized(self, transactional_id: str, producer_id: int, producer_epoch: int) -> None:
        """InitProducerId is answered."""
        self._know(transactional_id, producer_id)
        before = self._initialized.get(transactional_id)
        if before is not None and self._is_before(transactional_id, (producer_id, producer_epoch), before):
            # An answer that was overtaken by that of the next instance: its producer finds itself fenced.
            return
        self._initialized[transactional_id] = (producer_id, producer_epoch)

    def instance_begins(self, transactional_id: str) -> int:
        """A producer is about to ask for a producer id. Return its number, from 1 on."""
        number = self._instances[transactional_id] = self._instances.get(transactional_id, 0) + 1
        return number

    def is_last_instance(self, transactional_id: str, number: int) -> bool:
        """Whether no other producer can have fenced this one."""
        return self._instances[transactional_id] == number and not self.has_lost_states

    def state_lost(self, transactional_id: str) -> None:
        """The newest state of it is lost, as it may be: its coordinator goes on from an earlier one, or none."""
        self._ids_lost[transactional_id] = None

    def may_lack_state(self, transactional_id: str) -> bool:
        """Whether its coordinator may decide again what was decided, or not at all."""
        return transactional_id in self._ids_lost

    def rotated(self, transactional_id: str, producer_id: int) -> None:
        """EndTxn is answered with another producer id."""
        self._know(transactional_id, producer_id)

    def _know(self, transactional_id: str, producer_id: int) -> None:
        known = self._producer_ids.setdefault(transactional_id, [])
        if producer_id not in known:
            known.append(producer_id)

    def _is_before(self, transactional_id: str, producer: tuple[int, int], other: tuple[int, int]) -> bool:
        order = self._producer_ids[transactional_id].index
        return (order(producer[0]), producer[1]) < (order(other[0]), other[1])

    def begun(self, client: str, transactional_id: str, producer: tuple[int, int]) -> ClientTransaction:
        self.counts.begun += 1
        transaction = ClientTransaction(client, self.counts.begun, transactional_id, *producer)
        self.all.append(transaction)
        return transaction

    def sending(self, transaction: ClientTransaction, partition: TopicPartition, value: bytes) -> None:
        self.history.sending(*partition, value)
        transaction.values[value] = partition
        self._of_value[value] = transaction

    def polled(self, poll: Poll) -> None:
        """A read_committed consumer was given these records."""
        if any(self.transaction_of(value) is not None for _, value in poll.records):
            self.polls.append(poll)

    def sending_offsets(self, transaction: ClientTransaction, commit_id: str) -> None:
        self._of_value[commit_id.encode()] = transaction

    def transaction_of(self, value: bytes) -> ClientTransaction | None:
        return self._of_value.get(value)

    def ending(self, transaction: ClientTransaction, *, commit: bool) -> None:
        """EndTxn is sent."""
        key = (transaction.producer_id, transaction.producer_epoch, commit)
        self._asked[key] = self._asked.get(key, 0) + 1
        newest = self._initialized.get(transaction.transactional_id)
        own = (transaction.producer_id, transaction.producer_epoch)
        is_current = newest is None or not self._is_before(transaction.transactional_id, own, newest)
        transaction.ends_asked[commit] = transaction.ends_asked.get(commit, False) or is_current

    def was_end_asked(self, producer_id: int, producer_epoch: int, *, commit: bool) -> bool:
        return (producer_id, producer_epoch, commit) in self._asked

    def ended(self, transaction: ClientTransaction, *, commit: bool) -> None:
        """EndTxn is answered with success."""
        if commit:
            self.counts.committed += 1
        else:
            self.counts.aborted += 1
        if not transaction.ends_asked.get(commit):
            raise InvariantViolation(
                f"17: {transaction} is ended by a zombie: {transaction.transactional_id} was initialized as "
                f"{self._initialized.get(transaction.transactional_id)} before it asked"
            )
        if transaction.fate not in (None, commit) and not self.may_lack_state(transaction.transactional_id):
            raise InvariantViolation(
                f"{transaction} is answered {_word(commit)}, and its markers have it {_word(not commit)}"
            )
        transaction.outcome = commit

    # --- logs ---------------------------------------------------------------------------------------------------------

    def decided(self, transaction: ClientTransaction, where: str, *, commit: bool) -> None:
        """A marker in a partition has ended it."""
        if transaction.fate is None:
            transaction.fate = commit
            self._check_fate(transaction, where, commit=commit)
        elif transaction.fate != commit and not self.may_lack_state(transaction.transactional_id):
            raise InvariantViolation(
                f"all or nothing: {transaction} is {_word(commit)} in {where}, and elsewhere {_word(not commit)}"
            )

    def _check_fate(self, transaction: ClientTransaction, where: str, *, commit: bool) -> None:
        if transaction.outcome not in (None, commit) and not self.may_lack_state(transaction.transactional_id):
            raise InvariantViolation(
                f"{transaction} is {_word(commit)} in {where}, and its client was answered {_word(not commit)}"
            )
        if not commit:
            return
        if not transaction.ends_asked.get(True) and not transaction.may_be_ended_by_a_copy:
            asked = "after its successor was there" if True in transaction.ends_asked else "never"
            raise InvariantViolation(
                f"{transaction} is committed in {where}, and its client has asked for that {asked}"
            )
        for each in transaction.inputs:
            first = self.effects.setdefault((transaction.group_id, each), transaction)
            if first is not transaction and not self.may_lack_state(first.transactional_id):
                raise InvariantViolation(
                    f"exactly once: {each} has effects in {first} and in {transaction}, both of {transaction.group_id}"
                )
        self.counts.effects += len(transaction.inputs)

    def late(self, transaction: ClientTransaction, where: str) -> None:
        """A batch of a transaction comes after a marker of it."""
        raise InvariantViolation(f"{where}: a batch of {transaction} comes after its marker")


def _word(commit: bool) -> str:
    return "committed" if commit else "aborted"
