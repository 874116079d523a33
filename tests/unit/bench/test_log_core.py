"""The bench of the log core runs, at the smallest scale, and what it saves can be read."""

from __future__ import annotations

from pathlib import Path

from bench.log_core.lookups import measure_lookups
from bench.log_core.opening import measure_clean_start, measure_recovery
from bench.log_core.report import Run, section
from bench.log_core.throughput import measure_throughput
from bench.plot import line_plot
from bench.report import ROOT


def test_every_measurement_has_a_line(tmp_path: Path) -> None:
    run = Run(
        command="python -m bench.log_core",
        commit="abc",
        taken="2026-01-01T00:00:00Z",
        machine={"cpu": "1 × cpu", "memory": "1 GiB", "kernel": "6", "python": "3.11", "load average before": "3.00"},
        throughput=measure_throughput({"null": tmp_path / "null", "disk": tmp_path / "disk"}, 0.003, 1),
        lookups=measure_lookups(tmp_path, 1000),
        recovery=measure_recovery(tmp_path, 0.003, 1),
        clean_starts=measure_clean_start(tmp_path, 3, 1),
    )
    text = section(run, ROOT / "bench.json")
    assert "busy" in text
    for line in ("| append, null |", "| read, disk |", "| 1,000 |", "cold", "in the page cache", "of 3 partitions"):
        assert line in text
    assert not [path for path in tmp_path.rglob("*") if path.is_file()], "nothing is left behind"


def test_a_line_plot_has_its_points_and_names() -> None:
    svg = line_plot("Title", {"a": [(100, 1.0), (1000, 2.0)], "b": [(100, 2.0), (1000, 4.0)]}, "ns")
    assert svg.count("<circle") == 4
    assert svg.count("<polyline") == 2
    for text in ("Title", ">a<", ">b<", "1,000"):
        assert text in svg
