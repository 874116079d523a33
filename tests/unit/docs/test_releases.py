"""Every place that states a version agrees: both distributions, the chart, RELEASES, the changelog and the tags."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from barnabas import __version__
from tests.releases import ROOT, Release, releases

_HEADING = re.compile(r"^## (\d+\.\d+\.\d+), (unreleased|\d{4}-\d{2}-\d{2})$")


def project(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads(path.read_text())["project"]
    return found


def headings() -> list[tuple[str, str]]:
    """Version and date, the newest first."""
    lines = [line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")]
    found = [_HEADING.match(line) for line in lines]
    assert all(found), f"a heading is no version with its date: {lines}"
    return [(each.group(1), each.group(2)) for each in found if each is not None]


def git(*arguments: str) -> str:
    """Return what git prints; empty where there is no git or no history."""
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip()


def test_both_distributions_have_one_version() -> None:
    broker, pipeline = project(ROOT / "pyproject.toml"), project(ROOT / "pipeline/pyproject.toml")
    assert broker["version"] == pipeline["version"] == __version__
    assert f"barnabas[logstore]=={__version__}" in pipeline["dependencies"]


def test_the_chart_has_it_too() -> None:
    chart = (ROOT / "deploy/k8s/chart/Chart.yaml").read_text().splitlines()
    assert f"version: {__version__}" in chart
    assert f'appVersion: "{__version__}"' in chart


def test_the_changelog_has_one_heading_for_each_release_and_one_for_the_present_version() -> None:
    released = [release.version for release in reversed(releases())]
    present = [] if __version__ in released else [__version__]
    assert [version for version, _ in headings()] == present + released


def test_only_the_present_version_can_be_unreleased() -> None:
    undated = [version for version, date in headings() if date == "unreleased"]
    assert undated in ([], [__version__])
    assert not set(undated) & {release.version for release in releases()}


@pytest.mark.parametrize("release", releases(), ids=lambda release: release.version)
def test_a_release_is_dated_as_its_commit_is(release: Release) -> None:
    reason = release.why_not_here()
    if reason is not None:
        pytest.skip(reason)
    assert dict(headings())[release.version] == git("show", "--no-patch", "--format=%cs", release.commit)


@pytest.mark.parametrize("release", releases(), ids=lambda release: release.version)
def test_a_tag_names_the_commit_of_its_release(release: Release) -> None:
    """A clone without tags has nothing to compare."""
    commit = git("rev-parse", "--verify", "--quiet", f"v{release.version}^{{commit}}")
    assert commit in ("", release.commit)


def test_no_tag_is_of_a_version_that_was_not_released() -> None:
    known = {f"v{release.version}" for release in releases()} | {f"v{__version__}"}
    assert set(filter(re.compile(r"v\d+\.\d+\.\d+").fullmatch, git("tag").splitlines())) <= known
