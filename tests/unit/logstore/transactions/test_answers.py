"""What each request makes of a transaction, in each state and at each epoch, is what Kafka 4.4's own coordinator makes
of it: each row of the golden file is one of them, and `DIFFERENCES` says where the answer is another one on purpose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import pytest

from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.coordinator.transactions.rules import (
    Fenced,
    Producer,
    abort_timed_out,
    add_partitions,
    end_transaction,
    init_producer_id,
    verify_partitions,
)
from barnabas_logstore.core.coordinator.transactions.transaction import (
    ENDING,
    EPOCH_MAX,
    TopicPartition,
    Transaction,
    TransactionState,
)
from tests.unit.logstore.transactions.golden import ANSWERS_FILE, kafka_answers
from tests.unit.wire.golden import HAS_KAFKA, WITHOUT_KAFKA

FRESH: Final = 99
NOW_MS: Final = 100_000
TIMEOUT_MS: Final = 60_000
PARTITION, OTHER = TopicPartition("t", 0), TopicPartition("u", 0)
S = TransactionState
Answers = Transaction | Fenced | ErrorCode | None


class Row(NamedTuple):
    """`at`: producer id, epoch, last epoch, previous producer id. `producer`: None if the request has none."""

    cluster_version: int
    state: TransactionState
    at: tuple[int, ...]
    request: str
    producer: Producer | None
    expected: str


def row_of(line: str) -> Row:
    version, state, at, request, expected = line.split("\t")
    what, _, producer = request.rpartition(" ")
    found = Producer(*map(int, producer.split("/"))) if what else None
    return Row(int(version), S[state], tuple(map(int, at.split("/"))), what or request, found, expected)


ROWS: Final = [row_of(line) for line in ANSWERS_FILE.read_text().splitlines()]


def transaction_of(row: Row) -> Transaction:
    producer_id, epoch, last_epoch, previous_id = row.at
    return Transaction(
        "id",
        producer_id,
        TIMEOUT_MS,
        1,
        previous_producer_id=previous_id,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        state=row.state,
        partitions=frozenset((PARTITION,) if row.state in (S.ONGOING, *ENDING) else ()),
        start_ms=1,
        version=2,
    )


def ask(row: Row) -> Answers:
    known, producer = transaction_of(row), row.producer
    match row.request:
        case "init":
            return init_producer_id(known, producer, TIMEOUT_MS, row.cluster_version, FRESH, NOW_MS)
        case "timeout":
            return abort_timed_out(known, row.cluster_version, FRESH, NOW_MS)
    assert producer is not None
    match row.request.split():
        case ["add", _]:
            return add_partitions(known, producer, {OTHER}, 2, NOW_MS)
        case ["verify"]:
            verified = verify_partitions(known, producer, [PARTITION])
            return verified if isinstance(verified, ErrorCode) else verified[PARTITION]
        case [end, version]:
            return end_transaction(known, producer, int(version[1:]), FRESH, NOW_MS, commit=end == "commit")
    raise AssertionError(row.request)


def spelled(row: Row, answer: Answers) -> str:
    """As in the file."""
    if answer is None:
        return "nothing"
    if isinstance(answer, ErrorCode):
        repeats = row.request.endswith(" v2") and row.request != "add v2"
        next_producer = f"{row.at[0]}/{row.at[1]}" if repeats else "-1/-1"
        return f"NONE {next_producer}" if answer is ErrorCode.NONE else answer.name
    after = answer.transaction if isinstance(answer, Fenced) else answer
    became = (
        f"{after.state.name} {after.producer_id}/{after.producer_epoch}/{after.last_producer_epoch}"
        f"/{after.previous_producer_id} next {after.next_producer_id} version {after.version}"
    )
    if isinstance(answer, Fenced):
        return f"{became} CONCURRENT_TRANSACTIONS"
    ended = after.completed(NOW_MS) if after.state in ENDING else after
    is_told = row.request in ("init", "timeout") or (row.request.endswith("v2") and row.request != "add v2")
    if after.version < 2 and after.state in ENDING:
        is_told = False
    return f"{became} NONE {ended.producer_id}/{ended.producer_epoch}" if is_told else f"{became} NONE -1/-1"


def is_late_commit(row: Row) -> bool:
    """A commit of what the coordinator has aborted: Kafka's answer after 4.4.0 (KAFKA-20785)."""
    before = (6, EPOCH_MAX - 1) if row.at[1] == 0 else (7, row.at[1] - 1)
    return row.request == "commit v2" and row.state is S.COMPLETE_ABORT and row.producer == before


def is_init_of_another_epoch_at_the_end(row: Row) -> bool:
    """It asks for the last epoch once more, or is fenced. Kafka finds that the epochs are used up, and fails."""
    is_used_up = row.at[1] >= EPOCH_MAX - 1 and row.state not in (S.ONGOING, *ENDING)
    is_another = row.producer is not None and row.producer[0] == 7 and row.producer.epoch != row.at[1]
    return row.request == "init" and is_used_up and is_another


def is_commit_behind_last_epoch(row: Row) -> bool:
    """No client should have this epoch; earlier releases gave it to some. Kafka lets them only abort."""
    return row.request == "commit v2" and row.state is S.ONGOING and row.producer == (7, row.at[1]) == (7, EPOCH_MAX)


DIFFERENCES: Final[dict[Callable[[Row], bool], str]] = {
    is_late_commit: "INVALID_TXN_STATE",
    is_init_of_another_epoch_at_the_end: "UNKNOWN_SERVER_ERROR",
    is_commit_behind_last_epoch: "UNKNOWN_SERVER_ERROR",
}


@pytest.mark.parametrize("state", sorted({row.state for row in ROWS}))
def test_each_request_is_answered_as_kafka_answers_it(state: TransactionState) -> None:
    for row in (each for each in ROWS if each.state is state):
        answered = spelled(row, ask(row))
        others = [kafkas for is_other, kafkas in DIFFERENCES.items() if is_other(row)]
        if others:
            assert row.expected in others, row
            assert answered != row.expected, row
        else:
            assert answered == row.expected, row


def test_the_table_has_every_difference() -> None:
    assert [sum(map(is_other, ROWS)) for is_other in DIFFERENCES] == [6, 15, 1]
    assert {row.request for row in ROWS} == {
        *("init", "timeout", "add v2", "verify"),
        *("commit v0", "commit v2", "abort v0", "abort v2"),
    }


def test_what_answers_differently_goes_on_or_is_fenced() -> None:
    last = Transaction("id", 7, TIMEOUT_MS, 1, producer_epoch=EPOCH_MAX - 1, last_producer_epoch=EPOCH_MAX - 2)
    again = init_producer_id(last, Producer(7, EPOCH_MAX - 2), TIMEOUT_MS, 2, FRESH, NOW_MS)
    assert isinstance(again, Transaction)
    assert (again.producer_id, again.producer_epoch) == (7, EPOCH_MAX - 1)
    for fenced in (EPOCH_MAX - 3, EPOCH_MAX):
        refused = init_producer_id(last, Producer(7, fenced), TIMEOUT_MS, 2, FRESH, NOW_MS)
        assert refused is ErrorCode.PRODUCER_FENCED
    aborted = last._replace(state=S.COMPLETE_ABORT)
    late = end_transaction(aborted, Producer(7, EPOCH_MAX - 2), 2, FRESH, NOW_MS, commit=True)
    assert late is ErrorCode.PRODUCER_FENCED


@pytest.mark.java
@pytest.mark.skipif(not HAS_KAFKA, reason=WITHOUT_KAFKA)
def test_kafka_still_answers_so() -> None:
    assert kafka_answers() == ANSWERS_FILE.read_text()
