"""Transactions in the simulation: that seeds hold, that a seed is a run, and what the checker takes for wrong."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from barnabas.wire.markers import Marker, build_marker
from barnabas.wire.record_batch import TRANSACTIONAL_BIT, BatchHeader, build_batch
from barnabas_logstore.core.coordinator.transactions.records import transaction_record
from barnabas_logstore.core.coordinator.transactions.transaction import Transaction, TransactionState
from barnabas_logstore.core.storage.log.log_view import LogView
from tests.sim.clients.consumer import Consumer
from tests.sim.faults import Fault
from tests.sim.history import History
from tests.sim.mutants.planting import TRANSACTIONAL
from tests.sim.replica_logs import Batch, BatchRegister
from tests.sim.run import Options, simulate
from tests.sim.scheduler import InvariantViolation
from tests.sim.shapes import Profile, random_shape
from tests.sim.transactions.history import ClientTransaction, TransactionHistory
from tests.sim.transactions.observer import TransactionObserver
from tests.sim.transactions.spans import Spans
from tests.sim.transactions.state_log import StateLog
from tests.tiers import seeds

FAULTS = [
    Fault.KILL_TRANSACTION_COORDINATOR,
    Fault.KILL_COORDINATOR,
    Fault.KILL_LOGSTORE,
    Fault.KILL_CLIENT,
    Fault.ZOMBIE_TRANSACTION,
    Fault.ZOMBIE_MEMBER,
    Fault.RESET,
    Fault.JITTER,
]
OPTIONS = Options(6, faults=FAULTS, at_most=TRANSACTIONAL, profile=Profile.SPARSE, is_transactional=True)
TARGET = ("ledger", 0)
FIRST, SECOND = (7, 0), (7, 1)
INPUT = ("orders", 0, 5)


def test_a_batch_of_a_loop_may_wait_for_two_fetches() -> None:
    """Seeds 1892, 1927, 1943, 1956 and 1958 of an exploration: fetches of 5 s, before which a batch was given up after
    4 s, so that nothing was committed from when nothing new was read.
    """
    for seed in range(300):
        transactions = random_shape(Random(seed), Profile.LONG, is_transactional=True).transactions
        members = transactions.loop.members if transactions.loop is not None else []
        for member, habits in zip(members, transactions.loop_habits, strict=True):
            assert 2 * member.taste.max_wait_ms < min(habits.delivery_timeout_ms, habits.timeout_ms)


@pytest.mark.parametrize("seed", seeds(range(1, 11), quick=1))
def test_a_seed_with_transactions_holds_every_invariant(seed: int) -> None:
    outcome = simulate(seed, OPTIONS)
    assert not outcome.failure, str(outcome)
    assert outcome.transactions > 0, "some were completed"


def test_a_seed_with_transactions_is_a_run() -> None:
    first, again, other = (simulate(seed, replace(OPTIONS, steps=15_000)) for seed in (5, 5, 6))
    assert first.trace == again.trace != other.trace


def test_what_clients_see_is_judged_without_the_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fetch that names no aborted transactions is found by the search for anomalies where the checks of each record
    that is read see nothing.
    """
    monkeypatch.setattr(LogView, "aborted_transactions", lambda self, plan, records: [])
    monkeypatch.setattr(TransactionObserver, "read", lambda self, partition, key, offset: None)
    outcome = simulate(1, replace(OPTIONS, faults=[]))
    assert "anomaly: a record of an aborted transaction" in str(outcome.failure)


class Scene:
    """A transactional id, whose producer has begun a transaction and written a record in it."""

    def __init__(self) -> None:
        self.history = TransactionHistory(History())
        self.history.initialized("id", *FIRST)
        self.transaction = self.begin()

    def begin(self, value: bytes = b"v", group_id: str = "") -> ClientTransaction:
        transaction = self.history.begun("client", "id", FIRST)
        transaction.group_id = group_id
        self.history.sending(transaction, TARGET, value)
        return transaction


@pytest.mark.parametrize("commit", [True, False])
def test_what_is_asked_and_answered_and_in_the_log_agrees(commit: bool) -> None:
    scene = Scene()
    scene.history.ending(scene.transaction, commit=commit)
    scene.history.decided(scene.transaction, "ledger-0 at 3", commit=commit)
    scene.history.ended(scene.transaction, commit=commit)
    scene.history.decided(scene.transaction, "ledger-1 at 9", commit=commit)
    assert scene.transaction.outcome is scene.transaction.fate is commit


@pytest.mark.parametrize("commit", [True, False])
def test_every_partition_has_the_same_fate(commit: bool) -> None:
    scene = Scene()
    scene.history.ending(scene.transaction, commit=True)
    scene.history.decided(scene.transaction, "ledger-0 at 3", commit=commit)
    with pytest.raises(InvariantViolation, match="all or nothing"):
        scene.history.decided(scene.transaction, "ledger-1 at 9", commit=not commit)


def test_an_answer_is_what_the_markers_say() -> None:
    answered_first, marked_first = Scene(), Scene()
    for scene in (answered_first, marked_first):
        scene.history.ending(scene.transaction, commit=True)
    answered_first.history.ended(answered_first.transaction, commit=True)
    with pytest.raises(InvariantViolation, match="its client was answered committed"):
        answered_first.history.decided(answered_first.transaction, "ledger-0 at 3", commit=False)
    marked_first.history.decided(marked_first.transaction, "ledger-0 at 3", commit=False)
    with pytest.raises(InvariantViolation, match="its markers have it aborted"):
        marked_first.history.ended(marked_first.transaction, commit=True)


def test_a_state_that_is_lost_is_unfinished_no_more() -> None:
    """Seeds 509 and 518 with `HANGING`: the client of a transaction was gone and its state lost, and the run waited for
    a coordinator to abort it.
    """
    scene, register = Scene(), BatchRegister()
    log = StateLog("__transaction_state-0", scene.history, lambda *_: False)
    empty = Transaction("id", FIRST[0], 60_000, 0, state=TransactionState.EMPTY)
    states = [empty, empty._replace(state=TransactionState.ONGOING, partitions=frozenset([TARGET]))]
    for offset, state in enumerate(states):
        batch = bytearray(build_batch([transaction_record(state)]))
        batch[:8] = offset.to_bytes(8)
        log.add(register.take(bytes(batch)))
    assert log.transactions["id"].state is TransactionState.ONGOING
    log.cut(2)
    assert not scene.history.may_lack_state("id")
    log.cut(1)
    assert log.transactions["id"].state is TransactionState.EMPTY
    assert scene.history.may_lack_state("id")
    log.cut(0)
    assert not log.transactions


def test_a_coordinator_that_lacks_a_decision_may_decide_again() -> None:
    """Seed 702 of checkpoint_lost, kill_logstore and power_cut: an acknowledged commit was lost with its state, and
    partitions that had no marker yet got an abort, by timeout.
    """
    scene = Scene()
    scene.history.ending(scene.transaction, commit=True)
    scene.history.ended(scene.transaction, commit=True)
    scene.history.state_lost("another id")
    with pytest.raises(InvariantViolation, match="its client was answered committed"):
        scene.history.decided(scene.transaction, "ledger-0", commit=False)
    scene.transaction.fate = None
    scene.history.state_lost("id")
    scene.history.decided(scene.transaction, "ledger-0", commit=False)


HANGING = [
    Fault.CHECKPOINT_LOST,
    Fault.KILL_LOGSTORE,
    Fault.KILL_ALL_LOGSTORES,
    Fault.POWER_CUT,
    Fault.MARKER_LOST,
    Fault.ISOLATE,
]


@pytest.mark.deep
@pytest.mark.parametrize("seed", [505, 518])
def test_a_group_waits_for_no_transaction_that_hangs(seed: int) -> None:
    """One replica in sync was enough for `__transaction_state`, and that one's host had lost power: no coordinator knew
    of a transaction any more. Its group was to read past it, or to get offsets that were in it.
    """
    outcome = simulate(seed, Options(faults=HANGING))
    assert not outcome.failure, str(outcome)


@pytest.mark.parametrize("comes", [True, False])
def test_the_last_marker_may_be_committed_in_the_turn_that_completes_its_transaction(comes: bool) -> None:
    lacking = [TARGET]
    log = StateLog("__transaction_state-0", Scene().history, lambda topic, partition, _: (topic, partition) in lacking)
    prepared = Transaction(
        "id", FIRST[0], 60_000, 0, state=TransactionState.PREPARE_COMMIT, partitions=frozenset([TARGET])
    )
    complete = prepared._replace(state=TransactionState.COMPLETE_COMMIT)
    log.transactions["id"] = prepared
    log.add(BatchRegister().take(build_batch([transaction_record(complete)])))
    if comes:
        lacking.clear()
        log.turn_over()
        return
    with pytest.raises(InvariantViolation, match="has no marker of it"):
        log.turn_over()


def test_nothing_is_committed_that_no_client_has_asked_for() -> None:
    scene = Scene()
    with pytest.raises(InvariantViolation, match="has asked for that never"):
        scene.history.decided(scene.transaction, "ledger-0 at 3", commit=True)


def test_a_zombie_ends_no_transaction() -> None:
    scene = Scene()
    scene.history.initialized("id", *SECOND)
    scene.history.ending(scene.transaction, commit=True)
    with pytest.raises(InvariantViolation, match="is ended by a zombie"):
        scene.history.ended(scene.transaction, commit=True)
    with pytest.raises(InvariantViolation, match="after its successor was there"):
        scene.history.decided(scene.transaction, "ledger-0 at 3", commit=True)


def test_an_input_has_one_committed_effect() -> None:
    scene = Scene()
    twice = [scene.begin(b"effect", "loop"), scene.begin(b"effect again", "loop")]
    for transaction in twice:
        transaction.inputs.append(INPUT)
        scene.history.ending(transaction, commit=True)
    scene.history.decided(twice[0], "ledger-0 at 3", commit=True)
    with pytest.raises(InvariantViolation, match="exactly once"):
        scene.history.decided(twice[1], "ledger-0 at 9", commit=True)


def test_an_aborted_effect_counts_for_nothing() -> None:
    scene = Scene()
    first, second = scene.begin(b"effect", "loop"), scene.begin(b"effect again", "loop")
    for transaction, commit in ((first, False), (second, True)):
        transaction.inputs.append(INPUT)
        scene.history.ending(transaction, commit=commit)
        scene.history.decided(transaction, "ledger-0 at 3", commit=commit)
    assert scene.history.effects == {("loop", INPUT): second}


def test_what_a_cleaner_has_emptied_begins_no_transaction() -> None:
    """Its marker may be gone, too; a log holds its last stable offset back for none of it (I12 did not say so)."""

    def batch(base_offset: int, records_count: int) -> Batch:
        header = BatchHeader(base_offset, 49, 1, 2, 0, TRANSACTIONAL_BIT, 0, 0, 0, 7, 1, 0, records_count)
        return Batch(base_offset, base_offset + 1, 1, 0, header, b"")

    spans = Spans()
    spans.add([batch(5, 0)])
    assert spans.first_unstable(6, 0) == (6, 6)
    spans.add([batch(6, 1), batch(7, 0)])
    assert spans.first_unstable(8, 0) == (6, 6)
    assert len(spans.all[0].batches) == 2


def test_what_a_cleaner_has_emptied_may_hold_back_the_last_stable_offset_until_its_marker_is_committed() -> None:
    """A log that is opened knows of it by a snapshot; another one does not (seed 153 with exceptions)."""
    header = BatchHeader(5, 49, 1, 2, 0, TRANSACTIONAL_BIT, 0, 0, 0, 7, 1, 0, 0)
    marker = bytearray(build_marker(7, 1, Marker(True, 0), 1))
    marker[:8] = (6).to_bytes(8)
    spans = Spans()
    spans.add([Batch(5, 6, 1, 0, header, b""), *BatchRegister().take(bytes(marker))])
    assert spans.first_unstable(6, 0) == (5, 6)
    assert spans.first_unstable(7, 0) == (7, 7)


@pytest.mark.parametrize(("first_offset", "least"), [(7, 6), (6, 8)], ids=["a gap before it", "no gap"])
def test_a_marker_of_what_is_cleaned_away_may_hold_back_the_last_stable_offset(first_offset: int, least: int) -> None:
    """A log that is opened knows where the transaction began by a snapshot (seed 10000163 with exceptions)."""

    def batch(base_offset: int) -> Batch:
        return Batch(
            base_offset, base_offset + 1, 1, 0, BatchHeader(base_offset, 49, 1, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1), b""
        )

    marker = bytearray(build_marker(7, 1, Marker(False, 0), 1))
    marker[:8] = (8).to_bytes(8)
    spans = Spans()
    between = [batch(each) for each in range(first_offset, 8)]
    spans.add([batch(5), *between, *BatchRegister().take(bytes(marker))])
    assert spans.first_unstable(8, 0) == (least, 8)
    assert spans.first_unstable(9, 0) == (9, 9)


def test_a_producer_that_wakes_and_begins_again_fences_the_one_that_has_begun_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The older of two processes asks for a producer id once more: that is its right, and no fence out of nothing."""
    for reader in (Consumer, *Consumer.__subclasses__()):
        monkeypatch.setattr(reader, "partition_bytes_max", 150)
    outcome = simulate(16, Options(8, at_most=TRANSACTIONAL, profile=Profile.SPARSE, is_transactional=True))
    assert not outcome.failure, str(outcome)
    assert outcome.hits[Fault.ZOMBIE_TRANSACTION]
