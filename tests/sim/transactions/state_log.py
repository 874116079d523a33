"""What is committed in one partition of `__transaction_state`: only what Kafka's state machine allows.

```
            +----------------------------------------- next transaction, or InitProducerId ------------------+
            v                                                                                                |
 EMPTY --> ONGOING --+--> PREPARE_COMMIT --> COMPLETE_COMMIT -------------------------------------------------+
   |        ^  |     +--> PREPARE_ABORT  --> COMPLETE_ABORT  -------------------------------------------------+
   +--------+--+  (version 2: EMPTY and COMPLETE also go to PREPARE_ABORT)
```

Further: an epoch never decreases, and rises by one with each end of version 2, and where a coordinator aborts on its
own; behind the last epoch another producer id follows; what a client decides it has asked for; and a transaction is
complete only when each of its partitions has its marker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from barnabas.wire.record_batch import decode_payload
from barnabas_logstore.core.coordinator.transactions.records import read_record
from barnabas_logstore.core.coordinator.transactions.transaction import Transaction, TransactionState
from tests.sim.replica_logs import Batch
from tests.sim.scheduler import InvariantViolation
from tests.sim.transactions.history import TransactionHistory

_S = TransactionState
_COMPLETE = (_S.COMPLETE_COMMIT, _S.COMPLETE_ABORT)
_OVER = (_S.EMPTY, *_COMPLETE)
_AFTER: dict[TransactionState | None, tuple[TransactionState, ...]] = {
    None: (_S.EMPTY,),
    _S.EMPTY: (_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT),
    _S.ONGOING: (_S.ONGOING, _S.PREPARE_COMMIT, _S.PREPARE_ABORT),
    _S.PREPARE_COMMIT: (_S.COMPLETE_COMMIT,),
    _S.PREPARE_ABORT: (_S.COMPLETE_ABORT,),
    _S.COMPLETE_COMMIT: (_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT),
    _S.COMPLETE_ABORT: (_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT),
}
_VERSION_2 = 2
_LAST_EPOCH = 2**15 - 2
"""The last one that clients get."""
_NONE = -1

Decision = tuple[int, int, bool, str, int]
"""Producer id and epoch of the markers, commit, topic, partition."""


class StateLog:
    """`lacks_marker` tells whether a partition still has a transaction of that producer open."""

    def __init__(self, name: str, history: TransactionHistory, lacks_marker: Callable[[str, int, int], bool]) -> None:
        self._name = name
        self._history = history
        self._lacks_marker = lacks_marker
        self.transactions: dict[str, Transaction] = {}
        """By transactional id."""
        self.decisions: dict[Decision, int] = {}
        """How often each was committed."""
        self.is_cut = False
        """Records were lost that may be: what follows has gaps."""
        self._lost_epochs: dict[tuple[str, int], int] = {}
        """By transactional id and producer id: the highest of those records."""
        self._entries: list[tuple[int, str, Transaction | None]] = []
        """Offset, transactional id and state of each record; None: forgotten."""
        self._completed: list[tuple[str, Transaction]] = []
        """In this turn: what each transaction was before, by where it is complete."""

    def cut(self, end: int) -> None:
        """What is there from `end` on is lost, as it may be: no coordinator knows of it any more."""
        self.is_cut = True
        for offset, transactional_id, state in self._entries:
            if offset < end:
                continue
            self._history.state_lost(transactional_id)
            if state is not None:
                producer = (transactional_id, state.producer_id)
                self._lost_epochs[producer] = max(self.lost_epoch(*producer), state.producer_epoch)
        self._entries = [each for each in self._entries if each[0] < end]
        self.transactions = {}
        for _, transactional_id, state in self._entries:
            self._note(transactional_id, state)

    def lost_epoch(self, transactional_id: str, producer_id: int) -> int:
        """Return the highest epoch that a lost record gave it; -1: none is lost."""
        return self._lost_epochs.get((transactional_id, producer_id), _NONE)

    def _note(self, transactional_id: str, state: Transaction | None) -> None:
        if state is None:
            self.transactions.pop(transactional_id, None)
        else:
            self.transactions[transactional_id] = state

    def add(self, batches: Iterable[Batch]) -> None:
        for batch in batches:
            for record in decode_payload(batch.header, batch.payload):
                entry = read_record(record.key, record.value)
                assert entry is not None, "it is written by these coordinators alone"
                self._add(record.offset, *entry)

    def _add(self, offset: int, transactional_id: str, after: Transaction | None) -> None:
        before = self.transactions.get(transactional_id)
        self._entries.append((offset, transactional_id, after))
        where = f"{self._name} at {offset}: {transactional_id}"
        if after is None:
            if before is not None and before.state not in _OVER and not self.is_cut:
                raise InvariantViolation(f"{where} is forgotten, and {before.state.name}")
            self._note(transactional_id, None)
            return
        if not self.is_cut:
            self._check(where, before, after)
        self._note(transactional_id, after)
        if after.state in (_S.PREPARE_COMMIT, _S.PREPARE_ABORT):
            for topic, partition in after.partitions:
                decision = (
                    after.producer_id,
                    after.producer_epoch,
                    after.state is _S.PREPARE_COMMIT,
                    topic,
                    partition,
                )
                self.decisions[decision] = self.decisions.get(decision, 0) + 1

    def _check(self, where: str, before: Transaction | None, after: Transaction) -> None:
        known = None if before is None else before.state
        if after.state not in _AFTER[known]:
            raise InvariantViolation(f"{where} goes from {known and known.name} to {after.state.name}")
        if before is None:
            return
        is_same = before.producer_id == after.producer_id
        if is_same and after.producer_epoch < before.producer_epoch:
            raise InvariantViolation(
                f"17: {where} goes from epoch {before.producer_epoch} back to {after.producer_epoch}"
            )
        self._check_producer_id(where, before, after)
        if after.state is _S.ONGOING and before.state is _S.ONGOING and not before.partitions <= after.partitions:
            raise InvariantViolation(f"{where} forgets {before.partitions - after.partitions}")
        if after.state in (_S.PREPARE_COMMIT, _S.PREPARE_ABORT):
            self._check_decision(where, before, after)
        if after.state in _COMPLETE:
            self._history.counts.completed += 1
            self._completed.append((where, before))

    def _check_producer_id(self, where: str, before: Transaction, after: Transaction) -> None:
        """It changes behind the last epoch: to the one that the end has named, or by InitProducerId."""
        is_due = after.state is _S.EMPTY and before.producer_epoch >= _LAST_EPOCH
        named = before.next_producer_id if after.state in _COMPLETE else _NONE
        if named != _NONE and after.producer_id != named:
            raise InvariantViolation(f"17: {where} was to have producer id {named}, and has {after.producer_id}")
        if after.producer_id == before.producer_id:
            return
        self._history.counts.rotated += 1
        if (named == _NONE and not is_due) or after.producer_epoch:
            raise InvariantViolation(
                f"17: {where} goes from producer {before.producer_id}, epoch {before.producer_epoch}, to "
                f"{after.producer_id}, epoch {after.producer_epoch}"
            )

    def _check_decision(self, where: str, before: Transaction, after: Transaction) -> None:
        """The coordinator aborts by an epoch that no client has."""
        is_commit = after.state is _S.PREPARE_COMMIT
        raised = after.producer_epoch - before.producer_epoch
        is_clients = self._history.was_end_asked(before.producer_id, before.producer_epoch, commit=is_commit)
        if not is_clients and (is_commit or not raised):
            raise InvariantViolation(
                f"{where} goes to {after.state.name} in epoch {after.producer_epoch}, and its client, of epoch "
                f"{before.producer_epoch}, has not asked for that"
            )
        is_version_2 = after.version >= _VERSION_2
        if raised > 1 or (is_version_2 and raised != 1):
            raise InvariantViolation(f"17: {where} goes to {after.state.name}, and its epoch rises by {raised}")
        if is_commit and raised and not is_version_2:
            raise InvariantViolation(f"{where} is committed, and its producer fenced")
        if is_version_2 and before.producer_epoch >= _LAST_EPOCH and after.next_producer_id == _NONE:
            raise InvariantViolation(
                f"17: {where} ends in epoch {before.producer_epoch}, and names no next producer id"
            )
        if not is_clients or (raised and not is_version_2):
            self._history.counts.timed_out += 1
        if after.partitions != before.partitions:
            raise InvariantViolation(f"{where} has {after.partitions} at its end, it had {before.partitions}")

    def turn_over(self) -> None:
        """Check that what is complete has its markers: one turn may commit the last marker and what follows from it."""
        completed, self._completed = self._completed, []
        for where, before in completed:
            for topic, partition in sorted(before.partitions):
                if self._lacks_marker(topic, partition, before.producer_id):
                    raise InvariantViolation(f"{where} is complete, and {topic}-{partition} has no marker of it")
