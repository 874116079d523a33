"""The model of many hosts: what it multiplies, that its unit costs are measured, and what of it reaches the page."""

from __future__ import annotations

import pytest

from bench.scaling.model import Figures, Guesses, Size, StreamCost, chunks_touched, figures, peers_of_logstore
from bench.scaling.report import PAGE, SIZES, ScalingRun, Throughput, text
from bench.scaling.unit_costs import Load, Measurement, UnitCosts
from bench.table.rows import OURS, Row, Sample

MACHINE = {"cpu": "2 × CPU", "memory": "4 GiB", "kernel": "6", "python": "3.11", "load average before": "0.10"}
UNIT = UnitCosts(
    partitions=30_000,
    logstores=30,
    image_bytes=300.0,
    controller_image_bytes=250.0,
    update_bytes=20.0,
    member_cpu_us=4.0,
    controller_load_us=3.0,
    etcd_bytes=100.0,
    death=Load(0.4, 16, 3_000_000, 60_000, 3_000),
    change=Load(0.007, 1, 50_000, 40, 1),
)


def of(size: Size, guesses: Guesses | None = None) -> Figures:
    return figures(size, UNIT, StreamCost(60.0), guesses or Guesses())


def test_unit_costs_are_those_of_real_cores() -> None:
    unit = Measurement(3_000, lambda line: None).take()
    assert unit.partitions == 3_000
    assert unit.death.partitions == pytest.approx(300, abs=100), "a tenth of the replicas' partitions"
    assert unit.change.partitions == 1
    assert unit.change.txns == 1
    assert unit.change.etcd_bytes > 100 * unit.etcd_bytes, "the whole chunk is written again"
    assert unit.death.update_bytes > unit.change.update_bytes > 0
    assert unit.image_bytes > unit.update_bytes > 0
    assert min(unit.member_cpu_us, unit.controller_load_us, unit.death.cpu_seconds, unit.change.cpu_seconds) > 0


def test_in_a_small_cluster_everyone_is_everyones_peer() -> None:
    assert peers_of_logstore(Size(2, 3, 10_000)) == pytest.approx(2)
    assert peers_of_logstore(Size(2, 1, 10_000)) == 0


def test_in_a_large_one_a_logstore_has_no_more_peers_than_its_replicas_have() -> None:
    """Three replicas of its own, with two others each."""
    assert 5 < peers_of_logstore(Size(10, 1_000, 1_000)) <= 6


def test_nearly_every_chunk_is_touched_by_a_logstore_that_dies() -> None:
    assert chunks_touched(Size(2, 3, 10_000), 10_000) == pytest.approx(20)
    assert 1_500 < chunks_touched(Size(300, 1_000, 1_000_000), 3_000) < 1_600


def test_streams_grow_with_the_product_of_gateways_and_logstores() -> None:
    small, large = of(Size(10, 100, 300_000)), of(Size(20, 100, 300_000))
    assert large.streams_of_logstore - small.streams_of_logstore == 10 * 3 * 3
    assert large.beat_ms > small.beat_ms
    assert of(Size(10, 200, 600_000)).streams_of_processor - small.streams_of_processor == 300


def test_a_guess_changes_what_depends_on_it_alone() -> None:
    size = Size(300, 1_000, 1_000_000)
    slower = of(size, Guesses(etcd_txn_ms=20.0))
    assert slower.death_etcd_seconds == pytest.approx(2 * of(size).death_etcd_seconds)
    assert slower.death_controller_seconds == of(size).death_controller_seconds


def test_what_is_over_a_limit_is_bold_and_every_section_is_on_the_page() -> None:
    row = Row("single", "one record a request", "", "requests/s", "µs a request", samples={OURS: [Sample(1000, 50.0)]})
    run = ScalingRun(
        "command",
        "commit",
        "now",
        MACHINE,
        UNIT,
        StreamCost(60.0),
        "lane.json",
        Guesses(),
        [of(size) for size in SIZES],
    )
    sections = text(run, [Throughput("bench.json", "0.1", row, 25.0)])
    beats = next(line for line in sections["sizes"].splitlines() if line.startswith("| one beat"))
    assert beats.startswith("| one beat of the busiest loop | 3 ms | 18 ms | **57 ms** | **")
    # Two gateways have six processors, three logstores three cores, for 25 µs of each request.
    assert "| 120,000 requests/s, logstores first |" in sections["throughput"]
    page = PAGE.read_text()
    for name in sections:
        assert f"<!-- made by bench.scaling, {name}: begin -->" in page
        assert f"<!-- made by bench.scaling, {name}: end -->" in page


def test_every_guess_is_named_beside_the_table() -> None:
    run = ScalingRun("", "", "", MACHINE, UNIT, StreamCost(1.0), "", Guesses(), [])
    for name in Guesses.__dataclass_fields__:
        assert f"`{name}=" in text(run, [])["sizes"]


def test_without_a_table_of_make_bench_the_page_says_so() -> None:
    run = ScalingRun("", "", "", MACHINE, UNIT, StreamCost(1.0), "", Guesses(), [])
    assert "make bench" in text(run, [])["throughput"]
