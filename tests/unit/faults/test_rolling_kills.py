"""What a run of rolling kills says of itself."""

from __future__ import annotations

from tests.faults.checker import Silences, Verdict
from tests.faults.rolling_kills import Kill, Victim, one_of_each_role, summary, table

MS = 1_000_000


def test_a_silence_belongs_to_the_kill_during_which_it_was() -> None:
    """Two partitions; one is silent for 30 ms under the first kill, the other for 50 ms under the last."""
    verdict = Verdict()
    acknowledged_ms = {0: [*range(20), *range(50, 300)], 1: [*range(210), *range(260, 300)]}
    verdict.silences = Silences(
        {partition: [each * MS for each in times] for partition, times in acknowledged_ms.items()},
        {0: [0, 300 * MS], 1: [0, 300 * MS]},
    )
    logstore, etcd = Victim("logstore", "logstore-0"), Victim("etcd", "etcd")
    kills = [Kill(logstore, 10 * MS, 2.0, 60 * MS), Kill(etcd, 100 * MS, 1.0, 150 * MS)]
    kills += [Kill(logstore, 200 * MS, 4.0, 290 * MS)]
    assert table(kills, verdict)[2:] == ["| logstore | 2 | 51 | 41 | 4.0 | 3.0 |", "| etcd | 1 | 1 | 1 | 1.0 | 1.0 |"]


def test_the_last_line() -> None:
    verdict = Verdict()
    verdict.figures.acknowledged = 4711
    assert summary(130, verdict) == "130 kills, 4711 acknowledged, lost 0, duplicated 0, reordered 0"


def test_one_of_each_role() -> None:
    victims = [Victim("logstore", "logstore-0"), Victim("etcd", "etcd"), Victim("logstore", "logstore-1")]
    assert [each.role for each in one_of_each_role(victims)] == ["logstore", "etcd"]
