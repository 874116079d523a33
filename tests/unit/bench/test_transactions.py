"""What the bench of transactions makes of its client's output and of its figures."""

from __future__ import annotations

import pytest

from bench.report import ROOT
from bench.transactions.measurements import LOADS, Comparison, Sample, parse_report, transaction_version
from bench.transactions.report import TransactionsRun, table

MACHINE = {"cpu": "2 × CPU", "memory": "4 GiB", "kernel": "6", "python": "3.11", "load average before": "0.10"}
SMALL, LARGE, MANY, VISIBLE = LOADS


def sample(per_second: float, p99_ms: float) -> Sample:
    return Sample(per_second, p99_ms / 2, p99_ms, cpu_ms=1.5)


def table_of(comparison: Comparison, replicas: int) -> str:
    run = TransactionsRun("command", "commit", "now", MACHINE, "Ours", "Theirs", replicas, {}, {}, [2, 1], [comparison])
    return table(run, ROOT / "x.json")


def test_what_the_client_says_is_read() -> None:
    said = "warning: something\ntransactions 812 seconds 4.000 p50 1.250 p99 20.500\n"
    assert parse_report(said) == (812, 4.0, 1.25, 20.5)
    with pytest.raises(ValueError, match="broken pipe"):
        parse_report("broken pipe")


def test_the_level_is_that_of_its_own_feature() -> None:
    metadata = "Feature: metadata.version\tSupportedMaxVersion: 29\tFinalizedVersionLevel: 27\tEpoch: 1\n"
    transactions = "Feature: transaction.version\tSupportedMaxVersion: 2\tFinalizedVersionLevel: 1\tEpoch: 1\n"
    assert transaction_version(metadata + transactions) == transaction_version(transactions + metadata) == 1
    assert transaction_version("Feature: transaction.version\tSupportedMaxVersion: 2\n" + metadata) == 0
    assert transaction_version("") == 0


def test_rates_are_compared_pair_by_pair() -> None:
    comparison = Comparison(SMALL, [sample(100, 9), sample(400, 7)], [sample(100, 20), sample(200, 10)])
    assert comparison.ratios == [1.0, 2.0]
    text = table_of(comparison, 1)
    assert (
        "| 1 record × 1 partition, one producer | ≥ 1.0 | 250 /s (100–400) | 150 /s (100–200) "
        "| **1.50** (1.00–2.00), 2 pairs | 8.0 ms, 15.0 ms | 1.50 ms, 1.50 ms |" in text.splitlines()
    )
    assert "topics have one replica" in text
    assert "`transaction.version` is 2 and 1" in text


def test_of_the_time_until_a_record_is_visible_the_p99_is_compared() -> None:
    comparison = Comparison(VISIBLE, [sample(50, 5), sample(50, 8)], [sample(90, 10), sample(90, 10)])
    assert comparison.ratio == pytest.approx(0.65)
    text = table_of(comparison, 3)
    assert "| commit to visible, p99 | ≤ 1.0 | 6.5 ms (5.0–8.0) | 10.0 ms (10.0–10.0) | **0.65**" in text
    assert "topics have 3 replicas" in text


def test_the_loads_are_those_of_the_goals() -> None:
    assert [(each.records, each.partitions, each.producers) for each in (SMALL, LARGE)] == [(1, 1, 1), (100, 10, 1)]
    assert MANY.producers == 50
    assert VISIBLE.is_latency
