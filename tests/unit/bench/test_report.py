from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from bench.plot import Bar, bar_plot
from bench.report import ROOT, interpreter, without_paths, write_section


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


def test_a_saved_result_from_before_that_was_noted_can_be_read() -> None:
    assert interpreter({"python": "3.11.7"}) == "Python 3.11.7"
