"""The dashboard and the alert rules name nothing that is not declared, and every alert has its page in the runbook."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from barnabas.metrics.catalogue import FAMILIES
from barnabas.metrics.conditions import ConditionKind
from barnabas.metrics.family import Family, Kind
from bench.slow_hop.expressions import Aggregation, Binary, Call, Expression, Number, Selector, parse, selectors
from scripts.dashboards import dashboard, dashboard_json

ROOT = Path(__file__).parents[3]
RUNBOOK = ROOT / "docs" / "operate" / "runbook.md"

TARGET_LABELS = {"namespace", "job", "instance", "pod"}
"""Prometheus' own, of every series."""


def exposed_names() -> dict[str, Family]:
    names: dict[str, Family] = {}
    for family in FAMILIES.values():
        match family.kind:
            case Kind.COUNTER:
                names[f"{family.name}_total"] = family
            case Kind.GAUGE:
                names[family.name] = family
            case Kind.HISTOGRAM:
                names |= {f"{family.name}_{part}": family for part in ("bucket", "sum", "count")}
    return names


EXPOSED = exposed_names()


def rules() -> list[dict[str, Any]]:
    document = yaml.safe_load((ROOT / "deploy" / "observability" / "alerts.yaml").read_text())
    return [rule for group in document["groups"] for rule in group["rules"]]


def rule_names() -> list[str]:
    return [rule["alert"] for rule in rules()]


def panel_expressions() -> list[str]:
    return [
        query.expression.replace("$__rate_interval", "1m").replace('"$namespace"', '".*"').replace('"$job"', '".*"')
        for panels in dashboard.ROWS.values()
        for panel in panels
        for query in panel.queries
    ]


def labels_of(selector: Selector) -> set[str]:
    if selector.name == "up":
        return TARGET_LABELS
    family = EXPOSED[selector.name]
    return {*family.labels, *TARGET_LABELS, *({"le"} if selector.name.endswith("_bucket") else set())}


def undeclared(expression: Expression) -> list[str]:
    """Metrics that there are not, and labels that they do not have."""
    problems = []
    for selector in selectors(expression):
        if selector.name != "up" and selector.name not in EXPOSED:
            problems.append(selector.name)
            continue
        problems += [
            f"{selector.name}: {matcher.label}"
            for matcher in selector.matchers
            if matcher.label not in labels_of(selector)
        ]
    return problems + ([] if problems else undeclared_groups(expression))


def undeclared_groups(expression: Expression) -> list[str]:
    """Labels that something is summed by, and that what is summed does not have."""
    match expression:
        case Number() | Selector():
            return []
        case Call():
            return [problem for argument in expression.arguments for problem in undeclared_groups(argument)]
        case Binary():
            return undeclared_groups(expression.left) + undeclared_groups(expression.right)
        case Aggregation():
            own = [
                f"by {label}: {selector.name}"
                for selector in selectors(expression.argument)
                for label in expression.labels
                if label not in labels_of(selector)
            ]
            return own + undeclared_groups(expression.argument)


def is_right(expression: Expression) -> list[str]:
    """Counters are never looked at but by their rates, and rates are never taken of anything else."""
    problems: list[str] = []

    def look(each: Expression, in_rate: bool) -> None:
        match each:
            case Selector():
                family = EXPOSED.get(each.name)
                grows = family is not None and family.kind is not Kind.GAUGE
                if grows is not in_rate:
                    problems.append(each.name)
            case Call():
                for argument in each.arguments:
                    look(argument, each.function in ("rate", "increase"))
            case Aggregation():
                look(each.argument, False)
            case Binary():
                look(each.left, False)
                look(each.right, False)
            case Number():
                pass

    look(expression, False)
    return problems


# --- the dashboard ---------------------------------------------------------------------------------------------------


def test_the_file_is_what_is_declared() -> None:
    assert dashboard_json.FILE.read_text() == dashboard_json.page(), "run scripts/dashboard"


@pytest.mark.parametrize("text", panel_expressions())
def test_panels_name_what_there_is(text: str) -> None:
    assert undeclared(parse(text)) == []
    assert is_right(parse(text)) == []


def test_the_dashboard_has_its_rows_and_no_two_panels_in_one_place() -> None:
    document = dashboard_json.document()
    rows = [panel["title"] for panel in document["panels"] if panel["type"] == "row"]
    assert rows[:3] == ["Health", "Requests by hop", "Logstores"]
    assert {"Replication", "Purgatory", "Controller and etcd", "Groups", "Transactions"} <= {*rows}
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in document["panels"]]
    assert len({*places}) == len(places)
    ids = [panel["id"] for panel in document["panels"]]
    assert len({*ids}) == len(ids)
    assert document["uid"] == "barnabas-overview"


def test_legends_name_labels_that_the_expression_keeps() -> None:
    for panels in dashboard.ROWS.values():
        for panel in panels:
            for query in panel.queries:
                kept = set(re.findall(r"by \(([^)]*)\)", query.text))
                labels = {label.strip() for text in kept for label in text.split(",")}
                assert {*re.findall(r"{{(\w+)}}", query.legend)} <= labels, panel.title


# --- alerts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", rules(), ids=rule_names())
def test_alerts_name_what_there_is(rule: dict[str, Any]) -> None:
    expression = parse(rule["expr"])
    assert undeclared(expression) == []
    assert is_right(expression) == []
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert {"summary", "description", "runbook_url"} == set(rule["annotations"])


@pytest.mark.parametrize("rule", rules(), ids=rule_names())
def test_alerts_tell_labels_that_they_have(rule: dict[str, Any]) -> None:
    reported = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
    grouped = re.findall(r"by \(([^)]*)\)", rule["expr"])
    if grouped:
        kept = set.intersection(*({label.strip() for label in text.split(",")} for text in grouped))
    else:
        kept = set.union(*(labels_of(selector) for selector in selectors(parse(rule["expr"]))))
    assert reported <= kept


def test_every_alert_has_its_entry_and_every_entry_its_alert() -> None:
    entries = re.findall(r"^### (\w+)$", RUNBOOK.read_text(), flags=re.MULTILINE)
    assert sorted(entries) == sorted(rule_names())
    assert len({*entries}) == len(entries)


@pytest.mark.parametrize("rule", rules(), ids=rule_names())
def test_links_lead_to_the_entry(rule: dict[str, Any]) -> None:
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    assert (ROOT / page).exists()
    assert anchor == rule["alert"].lower()


def test_every_entry_says_what_it_is_how_to_see_it_and_what_to_do() -> None:
    for entry in RUNBOOK.read_text().split("\n### ")[1:]:
        name = entry.split("\n", 1)[0]
        for part in ("*Means*", "*See*", "*Do*", "*Worry*"):
            assert part in entry, f"{name}: {part}"


@pytest.mark.parametrize("kind", ConditionKind)
def test_each_kind_of_condition_has_an_alert_and_is_explained(kind: ConditionKind) -> None:
    (entry,) = re.findall(rf"^\| `{kind.value}` \| \[(\w+)\]", RUNBOOK.read_text(), flags=re.MULTILINE)
    assert entry in rule_names()
    if kind is not ConditionKind.UNCLEANABLE_PARTITION:  # Kafka has a metric of its own for these
        (rule,) = [rule for rule in rules() if f'barnabas_health_conditions{{kind="{kind.value}"}}' in rule["expr"]]
        assert rule["alert"] == entry


def test_what_the_runbook_names_is_there() -> None:
    text = RUNBOOK.read_text()
    known = {*EXPOSED, *FAMILIES}
    named = set(re.findall(r"`(barnabas_\w+|kafka_\w+)[`{]", text))
    assert named - known == set()
    titles = {panel.title for panels in dashboard.ROWS.values() for panel in panels}
    titles |= {title.rpartition(", ")[0] for title in titles}
    quoted = {" ".join(each.split()) for each in re.findall(r'(?<!=)"([A-Z][^"]+)"', text)}
    assert quoted - titles == set()
