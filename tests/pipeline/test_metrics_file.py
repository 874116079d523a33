"""The figures' file: an error in it is reported before a job starts, and is no reason to end one."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the pipeline's environment (make pipeline)")
pytest.importorskip("pyiceberg", reason="needs the pipeline's environment (make pipeline)")

from click.testing import CliRunner

from barnabas_pipeline.cli.__main__ import main
from barnabas_pipeline.core.freshness import BatchFigures
from barnabas_pipeline.tables.running import MetricsFile

FIGURES = BatchFigures(7, 12_000, 3, 1500, 40, 2345)


@pytest.mark.parametrize(
    ("name", "reason"), [("not/there/metrics.json", "No such file or directory"), (".", "Is a directory")]
)
def test_a_place_that_nothing_can_be_written_to_is_reported_before_anything_starts(
    name: str, reason: str, tmp_path: Path
) -> None:
    """The job ended after its first batch, at every start; here it would have ended for want of a cluster."""
    arguments = ("--topics", "t", "--bootstrap-servers", "localhost:1", "--to", str(tmp_path / "lake"))
    result = CliRunner().invoke(main, ["tables", *arguments, "--metrics-file", str(tmp_path / name)])
    assert result.exit_code == 1
    (line,) = result.stderr.strip().splitlines()
    assert line.endswith(f"the metrics file {tmp_path / name} can't be written: {reason}")
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_later_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    place = tmp_path / "figures"
    place.mkdir()
    metrics = MetricsFile(place / "metrics.json", "orders")
    metrics.check()
    assert list(place.iterdir()) == []
    place.rmdir()
    with caplog.at_level(logging.WARNING):
        metrics.write(FIGURES)
        metrics.write(FIGURES)
    assert len(caplog.records) == 1
    assert "the metrics file can't be written" in caplog.text
    place.mkdir()
    metrics.write(FIGURES)
    assert [each.name for each in place.iterdir()] == ["metrics.json"]
    assert json.loads((place / "metrics.json").read_text())["rows"] == 12_000
