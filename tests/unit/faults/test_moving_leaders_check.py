"""The checker of `make moving-leaders`: a clean run stays clean, and each planted anomaly is found under its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.faults.moving_leaders.check import Kind, Verdict, check
from tests.faults.moving_leaders.deliveries import (
    NO_OFFSET,
    Deliveries,
    Delivery,
    Sender,
    parse_report,
    parse_value,
    value_of,
)

PRODUCERS, PARTITIONS, RECORDS = 3, 4, 20


@dataclass(slots=True)
class Run:
    deliveries: dict[Sender, Deliveries]
    log: dict[int, list[bytes]]

    def check(self) -> Verdict:
        return check(self.deliveries, self.log)


def clean_run() -> Run:
    """The records of all producers take turns in each partition, and each was acknowledged where it is."""
    run = Run({}, {partition: [] for partition in range(PARTITIONS)})
    for partition, values in run.log.items():
        for sequence in range(RECORDS):
            for producer in range(PRODUCERS):
                sender = Sender(producer, partition)
                of_sender = run.deliveries.setdefault(sender, Deliveries(RECORDS))
                of_sender.reported.append(Delivery(sequence, len(values), "", at_ms=1000 + sequence))
                values.append(value_of(sender, sequence))
    return run


SENDER = Sender(1, 2)
SEQUENCE = 7
OFFSET = SEQUENCE * PRODUCERS + SENDER.producer


def replace_report(run: Run, **changes: object) -> None:
    reported = run.deliveries[SENDER].reported
    reported[SEQUENCE] = reported[SEQUENCE]._replace(**changes)


def lose(run: Run) -> None:
    """The last record of its partition, so that no other one moves."""
    del run.log[SENDER.partition][-1]


def double(run: Run) -> None:
    run.log[SENDER.partition].append(value_of(SENDER, SEQUENCE))


def swap(run: Run) -> None:
    values = run.log[SENDER.partition]
    other = OFFSET + PRODUCERS
    values[OFFSET], values[other] = values[other], values[OFFSET]
    replace_report(run, offset=other)
    reported = run.deliveries[SENDER].reported
    reported[SEQUENCE + 1] = reported[SEQUENCE + 1]._replace(offset=OFFSET)


def report_another_offset(run: Run) -> None:
    replace_report(run, offset=OFFSET + 1)


def report_an_offset_behind_the_end(run: Run) -> None:
    replace_report(run, offset=RECORDS * PRODUCERS + 5)


def fail_though_written(run: Run) -> None:
    replace_report(run, offset=NO_OFFSET, error="TimeoutException")


def fail(run: Run) -> None:
    """The last record of its partition, so that no other one moves."""
    sender = Sender(PRODUCERS - 1, SENDER.partition)
    del run.log[SENDER.partition][-1]
    reported = run.deliveries[sender].reported
    reported[-1] = reported[-1]._replace(offset=NO_OFFSET, error="TimeoutException")


def do_not_report(run: Run) -> None:
    del run.deliveries[SENDER].reported[SEQUENCE]


def report_twice(run: Run) -> None:
    reported = run.deliveries[SENDER].reported
    reported.append(reported[SEQUENCE])


def write_a_strange_value(run: Run) -> None:
    run.log[SENDER.partition].append(b"strange")


def write_to_another_partition(run: Run) -> None:
    run.log[SENDER.partition + 1].append(value_of(SENDER, SEQUENCE))


def write_what_was_never_sent(run: Run) -> None:
    run.log[SENDER.partition].append(value_of(SENDER, RECORDS))


@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (lose, {Kind.LOST: 1}),
        (double, {Kind.DOUBLED: 1}),
        (swap, {Kind.OUT_OF_ORDER: 1}),
        (report_another_offset, {Kind.OTHER_OFFSET: 1}),
        (report_an_offset_behind_the_end, {Kind.OTHER_OFFSET: 1}),
        (fail, {Kind.FAILED: 1}),
        (fail_though_written, {Kind.FAILED: 1, Kind.FAILED_THOUGH_WRITTEN: 1}),
        (do_not_report, {Kind.UNREPORTED: 1}),
        (report_twice, {Kind.REPORTED_TWICE: 1}),
        (write_a_strange_value, {Kind.UNSENT: 1}),
        (write_to_another_partition, {Kind.UNSENT: 1}),
        (write_what_was_never_sent, {Kind.UNSENT: 1}),
    ],
)
def test_a_planted_anomaly_is_found_under_its_name(plant: Callable[[Run], None], found: dict[Kind, int]) -> None:
    run = clean_run()
    plant(run)
    verdict = run.check()
    assert {kind: count for kind, count in verdict.counts.items() if count} == found
    assert not verdict.is_clean
    assert {example.kind for example in verdict.examples} == set(found)


def test_a_clean_run_is_clean() -> None:
    verdict = clean_run().check()
    assert verdict.is_clean
    assert verdict.sent == verdict.acknowledged == verdict.in_log == PRODUCERS * PARTITIONS * RECORDS
    assert verdict.without_offset == 0


def test_an_unknown_offset_and_either_copy_of_a_doubled_record_are_no_other_offset() -> None:
    run = clean_run()
    replace_report(run, offset=NO_OFFSET)
    assert run.check().is_clean
    assert run.check().without_offset == 1

    run = clean_run()
    double(run)
    replace_report(run, offset=RECORDS * PRODUCERS)
    assert {kind for kind, count in run.check().counts.items() if count} == {Kind.DOUBLED}


def test_a_copy_is_doubled_and_not_out_of_order_too() -> None:
    run = clean_run()
    double(run)
    double(run)
    assert run.check().counts[Kind.DOUBLED] == 2
    assert run.check().counts[Kind.OUT_OF_ORDER] == 0


def test_the_place_of_an_example_has_both_copies() -> None:
    run = clean_run()
    double(run)
    (example,) = run.check().examples
    assert example.place == (SENDER.partition, [OFFSET, RECORDS * PRODUCERS])


def test_the_longest_wait_is_between_two_reports_of_one_sender() -> None:
    run = clean_run()
    reported = run.deliveries[SENDER].reported
    reported[SEQUENCE:] = [each._replace(at_ms=each.at_ms + 9000) for each in reported[SEQUENCE:]]
    assert run.check().longest_wait_ms == 9001


def test_a_report_is_read_as_it_is_written() -> None:
    lines = ["5 0 0 17\n", "6 0 1 - TimeoutException\n", "7 1 0 -1001\n", "sent 0 2\n", "sent 1 1\n", "sent 2 0\n"]
    assert parse_report(4, lines) == {
        Sender(4, 0): Deliveries(2, [Delivery(0, 17, "", 5), Delivery(1, NO_OFFSET, "TimeoutException", 6)]),
        Sender(4, 1): Deliveries(1, [Delivery(0, NO_OFFSET, "", 7)]),
        Sender(4, 2): Deliveries(0, []),
    }


def test_a_value_names_its_sender() -> None:
    assert parse_value(value_of(SENDER, SEQUENCE)) == (SENDER, SEQUENCE)
    assert parse_value(b"p1-2") is None
    assert parse_value(b"p1-2-3 4") is None
