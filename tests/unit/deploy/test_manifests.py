from __future__ import annotations

from tests.unit.deploy.chart import render_files
from tests.unit.deploy.manifests import differing, manifests


def test_the_manifests_are_the_chart_as_it_renders_by_default() -> None:
    assert differing() == [], "make manifests"


def test_no_manifest_says_that_helm_made_it() -> None:
    assert "Helm" not in "".join(manifests().values())
    assert len(manifests()) == len(render_files()) + 1
