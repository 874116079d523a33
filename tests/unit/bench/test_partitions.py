"""The bench of many partitions: what becomes of a side that fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.apache_kafka import VERSION
from bench.partitions import __main__ as bench
from bench.partitions.measurements import Change, Measured
from bench.partitions.report import PartitionsRun
from bench.sides import Side

MACHINE = {"cpu": "2 × CPU", "memory": "4 GiB", "kernel": "6", "python": "3.11", "load average before": "0.10"}


def measured(name: str) -> Measured:
    change = Change([0.04], [0.03])
    return Measured(name, 10_000, [2.4], 17.0, 8.0, 4.9, 2.5, 6.9, [5.8], change, change, 775_000_000)


@pytest.mark.parametrize("fails", ["Apache Kafka", "both"])
def test_what_one_side_has_taken_is_saved_when_the_other_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    """All was lost, and the run takes minutes."""
    page, saved = tmp_path / "page.md", list[PartitionsRun]()
    page.write_text("<!-- made by bench.partitions: begin -->\n<!-- made by bench.partitions: end -->\n")

    def measure(side: Side, *_: object) -> Measured:
        if fails in ("both", *side.name.split(" 4")):
            raise TimeoutError("too many open files")
        return measured(side.name)

    def save(run: PartitionsRun) -> Path:
        saved.append(run)
        return bench.ROOT / "x.json"

    monkeypatch.setattr(bench, "_measure", measure)
    monkeypatch.setattr(bench, "save", save)
    monkeypatch.setattr(bench, "need_apache_kafka", lambda: None)
    monkeypatch.setattr(bench, "describe_machine", lambda: MACHINE)
    write = bench.write_section
    monkeypatch.setattr(bench, "write_section", lambda _, begin, end, text: write(page, begin, end, text))
    result = CliRunner().invoke(bench.main, [])
    assert result.exit_code == 1
    if fails == "both":
        assert saved == []
    else:
        assert [each.side for each in saved[0].measured] == ["Barnabas"]
        assert "| 2.5 s, **4.9 s**, 6.9 s of CPU |" in page.read_text()
        assert f"**Not measured**: Apache Kafka {VERSION}: TimeoutError: too many open files" in page.read_text()
