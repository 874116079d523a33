"""The checker of transactional clients: it calls a clean history clean, and each planted anomaly by its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.faults.history import Type
from tests.faults.transactions.check import Kind, Verdict, check
from tests.faults.transactions.history import ALL, IN, OUT, Event, EventRecorder, read_events

PARTITIONS = 2
FINALS = ("final-0", "final-1")


@dataclass
class History:
    """Logs of the three topics at the end, and what the clients recorded of their making."""

    logs: dict[tuple[str, int], dict[int, str]] = field(
        default_factory=lambda: {
            (IN, 0): {0: "0", 1: "2", 2: "4"},
            (IN, 1): {0: "1", 1: "3"},
            # Offset 1 is a marker.
            (OUT, 0): {0: "0", 2: "2", 3: "4"},
            (OUT, 1): {0: "1", 2: "3"},
            (ALL, 0): {0: "writer-0|1|1", 4: "writer-0|1|3", 6: "writer-1|1|1"},
            (ALL, 1): {0: "writer-0|1|1", 3: "writer-1|1|1", 6: "writer-0|1|3"},
        }
    )
    fed: list[str] = field(default_factory=lambda: ["0", "1", "2", "3", "4"])
    outcomes: dict[str, Type] = field(
        default_factory=lambda: {
            "writer-0|1|1": Type.OK,
            "writer-0|1|2": Type.FAIL,
            "writer-0|1|3": Type.OK,
            "writer-1|1|1": Type.INFO,
            "writer-1|1|2": Type.INFO,
        }
    )
    more: list[Event] = field(default_factory=list)
    """Recorded before the end is read."""

    def events(self) -> list[Event]:
        made = [event("feeder", Type.OK, "fed", value=value) for value in self.fed]
        for value, outcome in self.outcomes.items():
            made.append(event("writer", Type.INVOKE, "transaction", value=value))
            made.append(event("writer", outcome, "transaction", value=value))
        made += self.more
        for client in FINALS:
            for (topic, partition), log in self.logs.items():
                made.append(read(client, topic, partition, log))
                made.append(read_to_the_end(client, topic, partition))
        return made

    def verdict(self) -> Verdict:
        return check(self.events(), PARTITIONS)


def event(client: str, outcome: Type, f: str, *, value: str = "") -> Event:
    return Event(client, outcome, f, 0, value)


def read(client: str, topic: str, partition: int, log: dict[int, str]) -> Event:
    return Event(client, Type.OK, "read", 0, topic=topic, partition=partition, reads=list(log.items()))


def read_to_the_end(client: str, topic: str, partition: int) -> Event:
    return Event(client, Type.OK, "final", 0, topic=topic, partition=partition)


def test_a_clean_history_is_clean() -> None:
    history = History(more=[read("reader-0", OUT, 0, {0: "0", 2: "2"}), event("copier-0", Type.OK, "copied")])
    verdict = history.verdict()
    assert verdict.is_clean, str(verdict)
    assert (verdict.fed, verdict.copied) == (5, 5)
    assert (verdict.committed, verdict.aborted, verdict.unknown) == (2, 1, 2)


def lose_a_copy(history: History) -> None:
    del history.logs[OUT, 0][2]


def lose_an_input(history: History) -> None:
    del history.logs[IN, 1][1]
    del history.logs[OUT, 1][2]


def lose_a_transaction(history: History) -> None:
    del history.logs[ALL, 0][4]
    del history.logs[ALL, 1][6]


def copy_twice(history: History) -> None:
    history.logs[OUT, 0][5] = "4"


def write_a_transaction_twice(history: History) -> None:
    history.logs[ALL, 1][8] = "writer-0|1|3"


def commit_what_was_aborted(history: History) -> None:
    for partition in range(PARTITIONS):
        log = history.logs[ALL, partition]
        history.logs[ALL, partition] = dict(sorted({**log, 2: "writer-0|1|2"}.items()))


def read_what_is_not_there(history: History) -> None:
    history.more.append(read("reader-0", ALL, 0, {0: "writer-0|1|1", 2: "writer-0|1|2"}))


def commit_in_one_partition(history: History) -> None:
    history.logs[ALL, 0][8] = "writer-1|1|2"


def swap_copies(history: History) -> None:
    history.logs[OUT, 0] = {0: "2", 2: "0", 3: "4"}


def swap_transactions(history: History) -> None:
    history.logs[ALL, 0] = {0: "writer-0|1|3", 4: "writer-0|1|1", 6: "writer-1|1|1"}


def read_backwards(history: History) -> None:
    history.more.append(read("reader-0", OUT, 0, {2: "2", 0: "0"}))


def read_another_value(history: History) -> None:
    history.more.append(read("reader-0", OUT, 0, {0: "4"}))


def write_what_was_never_sent(history: History) -> None:
    history.logs[OUT, 1][4] = "17"


def write_an_unknown_transaction(history: History) -> None:
    history.logs[ALL, 0][8] = history.logs[ALL, 1][8] = "writer-9|1|1"


def write_what_no_writer_wrote(history: History) -> None:
    history.logs[ALL, 0][8] = history.logs[ALL, 1][8] = "not of this test"


def leave_a_transaction_open(history: History) -> None:
    history.more.append(Event("final-0", Type.INFO, "hanging", 0, topic=ALL, partition=1, error="3 of 5"))


def let_a_zombie_commit(history: History) -> None:
    history.more.append(event("writer-0", Type.OK, "zombie", value="writer-0|1|2"))


PLANTS: list[tuple[Callable[[History], None], Kind]] = [
    (lose_a_copy, Kind.LOST),
    (lose_an_input, Kind.LOST),
    (lose_a_transaction, Kind.LOST),
    (copy_twice, Kind.DOUBLED),
    (write_a_transaction_twice, Kind.DOUBLED),
    (commit_what_was_aborted, Kind.DIRTY),
    (read_what_is_not_there, Kind.DIRTY),
    (commit_in_one_partition, Kind.PARTIAL),
    (swap_copies, Kind.REORDERED),
    (swap_transactions, Kind.REORDERED),
    (read_backwards, Kind.REORDERED),
    (read_another_value, Kind.DIVERGED),
    (write_what_was_never_sent, Kind.UNKNOWN),
    (write_an_unknown_transaction, Kind.UNKNOWN),
    (write_what_no_writer_wrote, Kind.UNKNOWN),
    (leave_a_transaction_open, Kind.HANGING),
    (let_a_zombie_commit, Kind.ZOMBIE),
]


@pytest.mark.parametrize(("plant", "kind"), PLANTS, ids=[plant.__name__ for plant, _ in PLANTS])
def test_a_planted_anomaly_is_found_and_named(plant: Callable[[History], None], kind: Kind) -> None:
    history = History()
    plant(history)
    verdict = history.verdict()
    assert [found for found, count in verdict.counts.items() if count] == [kind], str(verdict)


def test_every_kind_is_planted() -> None:
    assert {kind for _, kind in PLANTS} == set(Kind)


def test_final_readers_that_differ_diverge() -> None:
    history = History()
    events = history.events()
    place = next(number for number, each in enumerate(events) if each.client == "final-1" and each.topic == OUT)
    events[place] = read("final-1", OUT, 0, {0: "0", 2: "2"})
    assert check(events, PARTITIONS).counts[Kind.DIVERGED] == 1


def test_what_was_not_read_to_its_end_gives_no_verdict() -> None:
    events = [each for each in History().events() if not (each.f == "final" and each.topic == IN)]
    verdict = check(events, PARTITIONS)
    assert not verdict.is_clean
    assert len(verdict.incomplete) == PARTITIONS


def test_recorded_events_are_read_in_the_order_of_their_times_without_a_last_half_line(tmp_path: Path) -> None:
    with EventRecorder(tmp_path, "one") as one, EventRecorder(tmp_path, "two") as two:
        one.record(Type.OK, "fed", value="0")
        two.record(Type.OK, "read", topic=OUT, partition=1, reads=[(3, "x")])
        one.record(Type.OK, "fed", value="1")
    with (tmp_path / "two.jsonl").open("ab") as file:
        file.write(b'{"client": "tw')
    events = read_events(tmp_path)
    assert [(each.client, each.value) for each in events] == [("one", "0"), ("two", ""), ("one", "1")]
    assert events[1].reads == [(3, "x")]
