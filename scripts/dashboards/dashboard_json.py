"""The dashboard as Grafana reads it: `scripts/dashboard` writes it to `deploy/observability/dashboard.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scripts.dashboards.dashboard import ROWS, Panel

FILE = Path(__file__).parents[2] / "deploy" / "observability" / "dashboard.json"
UID = "barnabas-overview"
_WIDTH = 24
_HEIGHT = 8


def document() -> dict[str, Any]:
    panels: list[dict[str, Any]] = []
    top = 0
    for row, members in ROWS.items():
        panels.append({"type": "row", "title": row, "collapsed": False, "id": len(panels) + 1,
                       "gridPos": {"h": 1, "w": _WIDTH, "x": 0, "y": top}, "panels": []})  # fmt: skip
        top += 1
        for number, panel in enumerate(members):
            place = {"h": _HEIGHT, "w": _WIDTH // 2, "x": _WIDTH // 2 * (number % 2), "y": top + number // 2 * _HEIGHT}
            panels.append(_panel_json(panel, len(panels) + 1, place))
        top += -(-len(members) // 2) * _HEIGHT
    return {
        "uid": UID,
        "title": "Barnabas",
        "description": "Written by scripts/dashboard; what each metric is, is in docs/reference/metrics.md.",
        "tags": ["barnabas", "kafka"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {
            "list": [
                {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
                _variable("namespace", "label_values(barnabas_build_info, namespace)"),
                _variable("job", 'label_values(barnabas_build_info{namespace=~"$namespace"}, job)'),
            ]
        },
        "annotations": {"list": []},
        "links": [],
        "panels": panels,
    }


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": name,
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def _panel_json(panel: Panel, panel_id: int, place: dict[str, int]) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "id": panel_id,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": source,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": {"fillOpacity": 8}}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + number), "datasource": source, "expr": query.expression,
             "legendFormat": query.legend}
            for number, query in enumerate(panel.queries)
        ],
    }  # fmt: skip


def page() -> str:
    return json.dumps(document(), indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(page())
