"""Each anomaly, planted by hand in a small history, is found and named; histories without any are clean."""

from __future__ import annotations

import time
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.anomalies.find import KAFKA, Anomaly, Kind, find_anomalies
from tests.anomalies.history import Append, Outcome, Partition, Read, Transaction, TransactionHistory

X: Partition = ("x", 0)
Y: Partition = ("y", 0)


def appends(name: str, *places: tuple[Partition, str], outcome: Outcome = Outcome.COMMITTED) -> Transaction:
    return Transaction(name, [Append(*place) for place in places], outcome=outcome)


def reads(name: str, *some: Read) -> Transaction:
    return Transaction(name, reads=some)


def found(transactions: list[Transaction], logs: dict[Partition, list[str]], **more: dict[Partition, int]) -> set[Kind]:
    return {each.kind for each in anomalies(transactions, logs, **more)}


def anomalies(
    transactions: list[Transaction], logs: dict[Partition, list[str]], **more: dict[Partition, int]
) -> list[Anomaly]:
    numbered = {partition: dict(enumerate(values)) for partition, values in logs.items()}
    return find_anomalies(TransactionHistory(transactions, numbered, **more))


FIRST = appends("first", (X, "a"), (Y, "b"))
SECOND = appends("second", (X, "c"), (Y, "d"))


def test_a_history_without_anomalies() -> None:
    reader = reads("reader", Read(X, 0, ((0, "a"), (1, "c"))), Read(Y, 1, ((1, "d"),)))
    assert found([FIRST, SECOND, reader], {X: ["a", "c"], Y: ["b", "d"]}) == set()


def test_g0() -> None:
    (anomaly,) = anomalies([FIRST, SECOND], {X: ["a", "c"], Y: ["d", "b"]})
    assert anomaly.kind is Kind.G0
    assert anomaly.transactions == ("first", "second", "first")


def test_g1a() -> None:
    aborted = appends("aborted", (X, "z"), outcome=Outcome.ABORTED)
    assert found([aborted, reads("reader", Read(X, 0, ((0, "z"),)))], {X: []}) == {Kind.G1A}


def test_g1b() -> None:
    """What is behind a transaction was read, and only half of it."""
    double = appends("double", (X, "a"), (X, "b"))
    after = appends("after", (X, "c"))
    reader = reads("reader", Read(X, 0, ((0, "a"), (2, "c"))))
    assert found([double, after, reader], {X: ["a", "b", "c"]}) == {Kind.G1B, Kind.SKIPPED}


def test_a_read_that_ends_within_a_transaction_is_no_g1b() -> None:
    """The rest comes with the next answer."""
    double = appends("double", (X, "a"), (X, "b"))
    assert Kind.G1B not in found([double, reads("reader", Read(X, 0, ((0, "a"),)))], {X: ["a", "b"]})


def test_g1c() -> None:
    """Each of two transactions reads what the other writes."""
    one = Transaction("one", [Append(X, "a")], [Read(Y, 0, ((0, "b"),))])
    other = Transaction("other", [Append(Y, "b")], [Read(X, 0, ((0, "a"),))])
    assert found([one, other], {X: ["a"], Y: ["b"]}) == {Kind.G1C}


def test_g_single() -> None:
    """It sees `first` in y and not in x."""
    reader = reads("reader", Read(X, 0, ()), Read(Y, 0, ((0, "b"),)))
    (anomaly,) = anomalies([FIRST, reader], {X: ["a"], Y: ["b"]})
    assert anomaly.kind is Kind.G_SINGLE
    assert anomaly.transactions == ("reader", "first", "reader")


def test_g2_item() -> None:
    """Write skew: each misses what the other writes."""
    one = Transaction("one", [Append(X, "a")], [Read(Y, 0, ())])
    other = Transaction("other", [Append(Y, "b")], [Read(X, 0, ())])
    (anomaly,) = anomalies([one, other], {X: ["a"], Y: ["b"]})
    assert anomaly.kind is Kind.G2_ITEM
    assert anomaly.transactions == ("one", "other", "one")


def test_an_aborted_record_among_what_is_committed() -> None:
    aborted = appends("aborted", (X, "z"), outcome=Outcome.ABORTED)
    assert found([aborted], {X: ["z"]}) == {Kind.ABORTED_IN_LOG}


def test_part_of_a_transaction() -> None:
    unknown = appends("unknown", (X, "a"), (Y, "b"), outcome=Outcome.UNKNOWN)
    assert found([unknown], {X: ["a"], Y: []}) == {Kind.PART_OF_A_TRANSACTION}
    assert found([unknown], {X: [], Y: []}) == set()
    assert found([unknown], {X: ["a"], Y: ["b"]}) == set()


def test_a_lost_record() -> None:
    assert found([FIRST], {X: ["a"], Y: []}) == {Kind.LOST}


def test_a_deleted_record_is_not_lost() -> None:
    assert found([FIRST], {X: ["a"], Y: []}, starts={Y: 1}) == set()


def test_a_record_that_is_there_twice() -> None:
    assert found([FIRST], {X: ["a", "a"], Y: ["b"]}) == {Kind.DOUBLED}


def test_an_effect_that_two_transactions_have() -> None:
    """A loop that writes for each input one value that is made of it."""
    assert Kind.DOUBLED in found([appends("one", (X, "of 7")), appends("other", (X, "of 7"))], {X: ["of 7"]})


def test_a_value_from_nowhere() -> None:
    assert found([FIRST], {X: ["a", "?"], Y: ["b"]}) == {Kind.UNKNOWN_VALUE}
    assert found([FIRST, reads("reader", Read(X, 0, ((1, "?"),)))], {X: ["a"], Y: ["b"]}) >= {Kind.UNKNOWN_VALUE}


def test_an_offset_that_changes() -> None:
    reader = reads("reader", Read(X, 0, ((0, "c"),)))
    assert Kind.CHANGED in found([FIRST, SECOND, reader], {X: ["a", "c"], Y: ["b", "d"]})


def test_a_read_that_leaves_something_out() -> None:
    reader = reads("reader", Read(X, 0, ((1, "c"),)))
    assert found([FIRST, SECOND, reader], {X: ["a", "c"], Y: ["b", "d"]}) == {Kind.SKIPPED}


def test_a_read_that_goes_backwards() -> None:
    reader = reads("reader", Read(X, 0, ((0, "a"), (1, "c"), (0, "a"))))
    assert found([FIRST, SECOND, reader], {X: ["a", "c"], Y: ["b", "d"]}) == {Kind.BACKWARDS}


def test_each_cycle_is_reported_once() -> None:
    third, fourth = appends("third", (X, "e"), (Y, "f")), appends("fourth", (X, "g"), (Y, "h"))
    logs = {X: ["a", "c", "e", "g"], Y: ["d", "b", "h", "f"]}
    assert [each.kind for each in anomalies([FIRST, SECOND, third, fourth], logs)] == [Kind.G0, Kind.G0]


@st.composite
def serial_histories(draw: st.DrawFn) -> TransactionHistory:
    """Transactions one after the other, some aborted, some whose end is not known; consumers read any ranges."""
    partitions = [("t", number) for number in range(draw(st.integers(1, 3)))]
    logs: dict[Partition, dict[int, str]] = {each: {} for each in partitions}
    ends = dict.fromkeys(partitions, 0)
    transactions: list[Transaction] = []
    for number in range(draw(st.integers(0, 12))):
        places = draw(st.lists(st.sampled_from(partitions), max_size=4))
        is_committed = draw(st.booleans())
        outcome = draw(st.sampled_from((Outcome.COMMITTED if is_committed else Outcome.ABORTED, Outcome.UNKNOWN)))
        seen = []
        for partition in draw(st.lists(st.sampled_from(partitions), unique=True)):
            begin = draw(st.integers(0, ends[partition]))
            records = tuple((offset, value) for offset, value in logs[partition].items() if offset >= begin)
            seen.append(Read(partition, begin, records))
        written = [Append(partition, f"{number}.{index}") for index, partition in enumerate(places)]
        transactions.append(Transaction(f"{number}", written, seen, outcome))
        for append in written:
            if is_committed:
                logs[append.partition][ends[append.partition]] = append.value
            ends[append.partition] += 1
        for partition in set(places):
            ends[partition] += 1  # its marker
    return TransactionHistory(transactions, logs)


@given(serial_histories())
def test_serial_histories_are_clean(history: TransactionHistory) -> None:
    assert find_anomalies(history) == []


@given(serial_histories(), st.randoms(use_true_random=False))
def test_interleaved_writes_show_no_more_than_kafka_allows(history: TransactionHistory, random: Random) -> None:
    """The order of what is committed differs between partitions: only cycles come of it."""
    logs = {}
    for partition, log in history.logs.items():
        values = list(log.values())
        random.shuffle(values)
        logs[partition] = dict(enumerate(values))
    without_reads = [Transaction(each.name, each.appends, (), each.outcome) for each in history.transactions]
    kinds = {each.kind for each in find_anomalies(TransactionHistory(without_reads, logs))}
    assert not kinds & KAFKA


def test_it_takes_time_in_proportion() -> None:
    """CPU time of 20,000 transactions, in a chain without cycles."""
    count = 20_000
    transactions = [appends(f"{number}", (X, f"x{number}"), (Y, f"y{number}")) for number in range(count)]
    logs = {X: [f"x{number}" for number in range(count)], Y: [f"y{number}" for number in range(count)]}
    began_s = time.process_time()
    assert anomalies(transactions, logs) == []
    assert time.process_time() - began_s < 10
