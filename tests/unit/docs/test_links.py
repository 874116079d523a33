"""Every relative link of a page leads somewhere, every page that the sources name exists, the index has every page."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
_TOPS = ("barnabas", "bench", "cli", "deploy", "docs", "pipeline", "protos", "scripts", "services", "tests")
_SOURCES = frozenset({".py", ".sh", ".md", ".yaml", ".tpl", ".toml", ".proto", ".service", ".properties", ""})
_FOREIGN = frozenset({"node_modules", "target", "__pycache__"})

_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?P<path>[^)\s#]*)(?:#(?P<anchor>[^)\s]+))?\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_MENTION = re.compile(r"(?<![\w./-])docs/[\w./-]*\w\.(?:md|svg)")


@cache
def _files() -> list[Path]:
    found = [path for top in _TOPS for path in (ROOT / top).rglob("*") if not _FOREIGN.intersection(path.parts)]
    return sorted(path for path in [*ROOT.iterdir(), *found] if path.is_file())


PAGES = [path for path in _files() if path.suffix == ".md"]


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")


@cache
def anchors(page: Path) -> frozenset[str]:
    return frozenset(slug(heading) for heading in _HEADING.findall(_FENCE.sub("", page.read_text())))


def broken_links(page: Path, text: str) -> list[str]:
    broken = []
    for link in _LINK.finditer(_FENCE.sub("", text)):
        path, anchor = link.group("path"), link.group("anchor")
        if re.match(r"[a-z]+:", path):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link.group(0)[2:-1])
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page, page.read_text()) == []


def test_pages_that_sources_name_exist() -> None:
    texts = {path: path.read_text(errors="ignore") for path in _files() if path.suffix in _SOURCES}
    missing = {
        f"{path.relative_to(ROOT)}: {mention}"
        for path, text in texts.items()
        if "docs/" in text
        for mention in _MENTION.findall(text)
        if not (ROOT / mention).exists()
    }
    assert missing == set()


def test_the_index_has_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / path).resolve() for path, _ in _LINK.findall(index.read_text())}
    pages = {page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "adr"} - {index}
    assert sorted(str(page.relative_to(ROOT)) for page in pages - linked) == []


def test_every_decision_is_in_the_list_of_decisions() -> None:
    index = ROOT / "docs" / "adr" / "README.md"
    linked = {path for path, _ in _LINK.findall(index.read_text())}
    assert sorted({page.name for page in index.parent.glob("0*.md")} - linked) == []


def test_a_broken_link_is_seen() -> None:
    page = ROOT / "docs" / "skipped.md"
    text = "[a](glossary.md) [b](nowhere.md) [c](glossary.md#nowhere) [d](https://example.com/x)"
    assert broken_links(page, text) == ["nowhere.md", "glossary.md#nowhere"]
