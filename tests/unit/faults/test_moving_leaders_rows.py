"""What of a session's rows counts as wrong, what counts as a move, and the page of all rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.moving_leaders.check import Kind, Verdict
from tests.faults.moving_leaders.clusters import KafkaCluster
from tests.faults.moving_leaders.movers import Move, Moves
from tests.faults.moving_leaders.producers import Client
from tests.faults.moving_leaders.report import save, verdict_line
from tests.faults.moving_leaders.rows import Row, row_of, row_without_verdict, wrong
from tests.faults.moving_leaders.run import Outcome, Plan
from tests.faults.rows import Run


def row(client: Client, broker: str, moves: int = 100, **counts: int) -> Row:
    """`counts` by the names of the kinds."""
    verdict = Verdict(acknowledged=1000)
    verdict.counts.update({Kind[name]: count for name, count in counts.items()})
    outcome = Outcome(verdict, moves, rounds=5, refused=0, client_version="1.2.3")
    return row_of(outcome, plan(client), **about(broker))


def plan(client: Client) -> Plan:
    return Plan(client, Move.REASSIGN, seconds=60.0, partitions=24, producers=3, seed=1)


def about(broker: str) -> dict[str, object]:
    return {
        "run": Run("python -m tests.faults.moving_leaders", "abc123", "2026-01-02", "2 cores"),
        "session": "2026-01-02T03:04:05Z",
        "is_interleaved": True,
        "number": 1,
        "broker": broker,
        "is_beside_load": False,
    }


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("client", [Client.JAVA, Client.FRANZ_GO])
@pytest.mark.parametrize("broker", ["barnabas", "kafka"])
def test_nothing_of_java_and_franz_go_may_be_wrong(client: Client, broker: str, kind: Kind) -> None:
    assert wrong([row(client, broker)]) == []
    (line,) = wrong([row(client, broker), row(client, broker, **{kind.name: 3})])
    assert f"{kind} 3" in line


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind not in (Kind.DOUBLED, Kind.OUT_OF_ORDER)])
def test_of_librdkafka_only_what_is_doubled_or_out_of_order_is_held_against_kafka(kind: Kind) -> None:
    kafka = row(Client.LIBRDKAFKA, "kafka", **{kind.name: 9})
    assert len(wrong([kafka])) == 1
    assert len(wrong([row(Client.LIBRDKAFKA, "barnabas", **{kind.name: 1}), kafka])) == 2


@pytest.mark.parametrize("kind", [Kind.DOUBLED, Kind.OUT_OF_ORDER])
def test_librdkafka_is_held_against_kafka_per_move(kind: Kind) -> None:
    kafka = row(Client.LIBRDKAFKA, "kafka", moves=100, **{kind.name: 10})
    assert wrong([kafka]) == []
    assert wrong([row(Client.LIBRDKAFKA, "barnabas", moves=200, **{kind.name: 20}), kafka]) == []
    (line,) = wrong([row(Client.LIBRDKAFKA, "barnabas", moves=200, **{kind.name: 21}), kafka])
    assert f"{kind} 10.50 per 100 moves at Barnabas, 10.00 at Apache Kafka" in line


def test_librdkafka_without_kafka_beside_it_is_held_against_nothing_doubled() -> None:
    assert wrong([row(Client.LIBRDKAFKA, "barnabas")]) == []
    assert len(wrong([row(Client.LIBRDKAFKA, "barnabas", DOUBLED=1)])) == 1


def test_a_run_without_a_verdict_is_wrong() -> None:
    unfinished = row_without_verdict("not ready", plan(Client.JAVA), **about("kafka"))
    (line,) = wrong([unfinished])
    assert "not ready" in line
    assert "no verdict: not ready" in verdict_line(unfinished)


def test_the_page_has_both_brokers_side_by_side_and_keeps_earlier_rows(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    save([row(Client.JAVA, "kafka"), row(Client.LIBRDKAFKA, "kafka", moves=50, DOUBLED=4)], path)
    save([row(Client.JAVA, "barnabas", LOST=2), row(Client.JAVA, "barnabas", LOST=1)], path)
    page = path.read_text()
    sums = [line for line in page.splitlines() if line.startswith(("| java", "| librdkafka"))]
    assert sums == [
        "| java | reassign | nothing | abc123 | Barnabas | 2 | 2000 | 200 | 0 | 0 | 3 | 0 | 0 | 0 | 0.00 | 0.00 |",
        "| java | reassign | nothing | abc123 | Apache Kafka | 1 | 1000 | 100 | 0 | 0 | 0 | 0 | 0 | 0 | 0.00 | 0.00 |",
        "| librdkafka | reassign | nothing | abc123 | Apache Kafka "
        "| 1 | 1000 | 50 | 0 | 0 | 0 | 4 | 0 | 0 | 8.00 | 0.00 |",
    ]
    assert page.count("| 2026-01-02T03:04:05Z |") == 4


def test_moves_are_later_leaders_alone() -> None:
    moves = Moves(KafkaCluster(Path("never-made")), "t")
    moves.look({0: (1, 0), 1: (2, 0)})
    assert moves.count == 0
    moves.look({0: (2, 1), 1: (2, 1)})
    assert moves.count == 1
    moves.look({0: (1, 0), 1: (-1, 2)})
    assert moves.count == 1, "an old view, and a partition without a leader"
    moves.look({0: (2, 1), 1: (3, 3)})
    assert moves.count == 2
