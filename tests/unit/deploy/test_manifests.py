from __future__ import annotations

import json

import pytest
import yaml

from scripts.kubernetes.chart import ROOT, find, render, render_files
from scripts.kubernetes.manifests import differing, manifests, stale_copies

pytestmark = pytest.mark.deep


def test_the_manifests_are_the_chart_as_it_renders_by_default() -> None:
    assert differing() == [], "make manifests"


def test_no_manifest_says_that_helm_made_it() -> None:
    assert "Helm" not in "".join(manifests().values())
    assert len(manifests()) == len(render_files()) + 1


def test_the_charts_alerts_and_dashboard_are_those_of_deploy() -> None:
    assert stale_copies() == [], "make manifests"
    objects = render({"metrics": {"prometheusRule": {"enabled": True}, "dashboard": {"enabled": True}}})
    (rules,) = [each for each in objects if each["kind"] == "PrometheusRule"]
    assert rules["spec"] == yaml.safe_load((ROOT / "deploy/observability/alerts.yaml").read_text())
    reported = find(objects, "ConfigMap", "barnabas-dashboard")["data"]["barnabas.json"]
    assert json.loads(reported) == json.loads((ROOT / "deploy/observability/dashboard.json").read_text())
