"""Write the declarations of metric families to `docs/reference/metrics.md`.

`scripts/metrics` runs it; `tests/unit/docs/test_metrics.py` holds it to the declarations.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from barnabas.metrics.catalogue import FAMILIES_BY_MODULE
from barnabas.metrics.family import Family, Kind
from barnabas.metrics.kafka_names import KAFKA_NAMES

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"

HEAD = """# Metrics

Written by `scripts/metrics` from the declarations in `barnabas/metrics`; change those, not this page.

Each pod serves Prometheus' text format at `http://HOST:PORT/metrics` if `metrics.listeners` is set, as `barnabas up`
and the Helm chart do. `barnabas status --json` and the operators' API give the address. A pod is one target: a
gateway's acceptor collects from its processors, a logstore's control process from its data process. Counters are sums
over these processes and do not fall when one dies. A process that does not answer within two seconds is left out and
counted (`barnabas_metrics_silent_processes_total`).

Names are those of Kafka's MBeans as Prometheus' JMX exporter writes them, so queries written for Kafka work. Metrics
that only Barnabas has begin with `barnabas_`. What Kafka calls `…PerSec` is a counter here and ends in `_total`; use
Prometheus' `rate()`. Times and sizes are histograms (`_bucket`, `_sum`, `_count`), where Kafka has quantiles, which
can't be added up. No label has a value for every partition, and none has more than `metrics.topics.max` topics.

Measuring is cheap enough to be left on: counters are plain numbers in the process, and everything else is computed
during a scrape, in slices of well under a millisecond on the data path. For a first look use the dashboard,
`deploy/observability/dashboard.json`; the alerts are in `deploy/observability/alerts.yaml`, with an entry for each in
[runbook.md](../operate/runbook.md).

## What measuring costs

CPU of all services per single-record produce (`make bench-metrics`), two clusters side by side, pairs of measurements
in turn, everything scraped every 15 s:

| compared with | pairs | more CPU | 95 % | `metrics-2026-11-22…` in bench/results |
|---|---|---|---|---|
| itself with `metrics.enable=false` | 68 | +2.0 % | +1.1 to +2.8 % | `T030838Z.json`, `T033546Z.json` |
| 0.1.0, which had no metrics | 48 | +5.6 % | +4.5 to +6.8 % | `T034413Z.json`, `T050653Z.json` |

The second row contains everything else that changed since 0.1.0. The first is the cost of the metrics;
`tests/unit/gateway/test_what_measuring_costs.py` bounds it as a count of instructions. Under load, times are measured
for part of the requests ([ADR 0017](../adr/0017-request-metrics.md)).

"""


def exposed(family: Family) -> str:
    """The name that queries use; a histogram's have `_bucket`, `_sum` and `_count` behind it."""
    return f"{family.name}_total" if family.kind is Kind.COUNTER else family.name


def _row(family: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    kafka = KAFKA_NAMES.get(family.name)
    reported = f"`{kafka}`" if kafka is not None else ""
    return f"| `{exposed(family)}` | {family.kind.value} | {labels} | {family.help} | {reported} |\n"


def page() -> str:
    parts = [HEAD]
    for name, families in FAMILIES_BY_MODULE.items():
        about = (importlib.import_module(f"barnabas.metrics.{name}").__doc__ or "").strip()
        title = name.removesuffix("_families").replace("_", " ").capitalize()
        parts.append(f"## {title}\n\n{about}\n\n| name | kind | labels | | Kafka's |\n|---|---|---|---|---|\n")
        parts += [_row(family) for family in families]
        parts.append("\n")
    return "".join(parts).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
