"""Alerts reach those whom they are for: targets have the job by which they are known, and runbooks can be opened."""

from __future__ import annotations

import re
from typing import Any

import helm_python
import pytest
import yaml

from bench.slow_hop.expressions import parse, selectors
from scripts.kubernetes.chart import ROOT, Object, Values, find, render

pytestmark = pytest.mark.deep

OBSERVABILITY = ROOT / "deploy/observability"
RULES_AND_MONITOR: Values = {"serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}}


def alerts(rules: Any) -> dict[str, Any]:
    return {rule["alert"]: rule for group in rules["groups"] for rule in group["rules"]}


def job_pattern() -> re.Pattern[str]:
    """What BarnabasTargetDown asks of a target's job; Prometheus anchors it."""
    rules = yaml.safe_load((OBSERVABILITY / "alerts.yaml").read_text())
    found = re.search(r'up\{job=~"([^"]+)"\}', alerts(rules)["BarnabasTargetDown"]["expr"])
    assert found is not None
    return re.compile(found[1])


def job_of(objects: list[Object]) -> str:
    """The job that Prometheus' operator gives the ServiceMonitor's targets: the Service's name, unless relabelled."""
    (monitor,) = [each for each in objects if each["kind"] == "ServiceMonitor"]
    assert "jobLabel" not in monitor["spec"]
    selected = monitor["spec"]["selector"]["matchLabels"].items()
    (service,) = [
        each for each in objects if each["kind"] == "Service" and selected <= each["metadata"]["labels"].items()
    ]
    (endpoint,) = monitor["spec"]["endpoints"]
    jobs = [each["replacement"] for each in endpoint.get("relabelings", ()) if each["targetLabel"] == "job"]
    return str(jobs[-1] if jobs else service["metadata"]["name"])


NAMES: dict[str, tuple[str, Values]] = {
    "the chart's own": ("barnabas", {}),
    "another release": ("events", {}),
    "a long release": ("r" * 53, {}),
    "fullnameOverride": ("events", {"fullnameOverride": "orders"}),
    "nameOverride": ("events", {"nameOverride": "kafka"}),
    "cut short": ("x", {"fullnameOverride": "a-name-of-forty-one-characters-0-barnabas"}),
}


@pytest.mark.parametrize(("release", "values"), NAMES.values(), ids=NAMES.keys())
def test_a_target_that_is_down_is_seen_whatever_the_release_is_called(release: str, values: Values) -> None:
    assert job_pattern().fullmatch(job_of(render(values | {"metrics": RULES_AND_MONITOR}, release)))


def test_two_releases_of_one_namespace_are_two_jobs() -> None:
    """Alerts add up by job: one controller each is not two of one cluster."""
    values = {"metrics": RULES_AND_MONITOR}
    names = ("orders", "payments")
    jobs = {job_of(render(values | {"fullnameOverride": name}, "events")) for name in names}
    assert len(jobs) == 2


def test_the_scrape_config_for_hosts_gives_the_job_and_finds_every_service() -> None:
    config = yaml.safe_load((OBSERVABILITY / "prometheus.yml").read_text())
    (scraped,) = config["scrape_configs"]
    assert job_pattern().fullmatch(scraped["job_name"])
    assert [(OBSERVABILITY / each).exists() for each in config["rule_files"]] == [True]
    targets = [target for each in scraped["static_configs"] for target in each["targets"]]
    served = [
        found[1]
        for path in (ROOT / "deploy/systemd/etc").glob("*.properties")
        if (found := re.search(r"^metrics\.listeners=(\S+)$", path.read_text(), re.MULTILINE))
    ]
    assert sorted(targets) == sorted(served)


def test_a_runbook_that_is_published_is_linked_to() -> None:
    base = "https://wiki.example.com/barnabas/runbook.md"
    values = {"metrics": {"prometheusRule": {"enabled": True, "runbookBaseUrl": base}}}
    linked = alerts(find(render(values), "PrometheusRule", "barnabas")["spec"])
    plain = alerts(yaml.safe_load((OBSERVABILITY / "alerts.yaml").read_text()))
    assert linked.keys() == plain.keys()
    for name, rule in linked.items():
        assert rule["annotations"]["runbook_url"] == f"{base}#{name.lower()}"
        assert rule["expr"] == plain[name]["expr"]
        assert list(selectors(parse(rule["expr"]))), "it is an expression still"


@pytest.mark.parametrize(
    "base", ["docs/operate/runbook.md", "https://example.com/a b", "https://example.com/#a", "ftp://a"]
)
def test_what_is_no_address_of_a_runbook_is_refused(base: str) -> None:
    values = {"metrics": {"prometheusRule": {"enabled": True, "runbookBaseUrl": base}}}
    with pytest.raises(helm_python.HelmError, match="runbookBaseUrl"):
        render(values)
