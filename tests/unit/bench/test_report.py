from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from bench.measure import LoadResult, Measurement, Pair
from bench.plot import Bar, bar_plot
from bench.report import ROOT, Run, table, without_paths, write_section


def measurement(rate: float) -> Measurement:
    return Measurement(rate, rate / 1000, cpu_seconds=1.0, cpu_us_per_record=20.0, cpu_ms_per_megabyte=3.0)


def run_of(*ratios: float) -> Run:
    pairs = [Pair(measurement(1000 * ratio), measurement(1000)) for ratio in ratios]
    load = LoadResult("single", "one record a request", {}, True, pairs, 300_000_000, 1_000_000_000)
    machine = {"cpu": "2 × CPU", "memory": "4 GiB", "kernel": "6", "python": "3.11", "load average before": "0.10"}
    flags = {"num.io.threads": "8", "node.id": "1"}
    return Run("command", "commit", "now", machine, "client", "Ours", "Theirs", flags, flags, 4.0, [load])


def test_a_ratio_is_taken_pair_by_pair() -> None:
    row = next(line for line in table(run_of(1.0, 4.0, 2.0), ROOT / "x.json").splitlines() if "one record" in line)
    assert row == (
        "| one record a request | 2,000/s | 1,000/s | **2.00** (1.00–4.00), 3 pairs "
        "| 20 µs a request | 20 µs a request |"
    )


def test_only_flags_that_bear_on_speed_are_in_the_table() -> None:
    text = table(run_of(1.0), ROOT / "x.json")
    assert "num.io.threads=8" in text
    assert "node.id" not in text


def test_only_what_is_between_the_marks_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<a>\nold\n<b>\nafter\n")
    write_section(page, "<a>", "<b>", "new")
    write_section(page, "<a>", "<b>", "newer")
    assert page.read_text() == "before\n<a>\nnewer\n<b>\nafter\n"


def test_saved_flags_have_no_paths_of_the_machine() -> None:
    assert without_paths({"log.dirs": f"{ROOT}/.cache/x"}) == {"log.dirs": ".cache/x"}


def test_the_plot_is_an_image_with_a_bar_a_load() -> None:
    image = ElementTree.fromstring(bar_plot("ours < theirs", [Bar("a & b", 0.5, 0.8, 1.2), Bar("c", 1.0, 2.0, 3.0)]))
    bars = image.findall("{http://www.w3.org/2000/svg}rect")
    assert [bar.get("fill") for bar in bars] == ["#c98a1b", "#2a9d5c"]
    assert float(bars[1].get("width", "0")) > float(bars[0].get("width", "0"))
