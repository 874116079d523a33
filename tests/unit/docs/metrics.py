"""Write the declarations of families for readers: `docs/metrics.md`.

`scripts/metrics` writes it; `test_metrics.py` compares it with the declarations.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from barnabas.metrics.catalogue import FAMILIES_BY_MODULE
from barnabas.metrics.family import Family, Kind
from barnabas.metrics.kafka_names import KAFKA_NAMES

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"

HEAD = """# Metrics

Written by `scripts/metrics` from the declarations in `barnabas/metrics`; change those, not this page.

Each pod serves Prometheus' text format at `http://HOST:PORT/metrics` where `metrics.listeners` says so (`barnabas up`
and the Helm chart do); its address is in `barnabas status --json` and in the operators' API. A pod is one target,
however many processes it has: a gateway's acceptor asks its processors, a logstore's control process its data process.
Counters are sums over them that do not fall when one dies. One that does not answer within two seconds is left out and
counted (`barnabas_metrics_silent_processes_total`).

Names are those of Kafka's MBeans as Prometheus' JMX exporter writes them, so that queries for Kafka's work; what only
Barnabas has begins with `barnabas_`. A counter's rate is Prometheus' to take: what Kafka calls `…PerSec` is a counter
here, and ends in `_total`. Times and sizes are histograms (`_bucket`, `_sum`, `_count`), where Kafka has quantiles that
can't be added up. No label has a value for every partition, and none takes more than `metrics.topics.max` topics.

What is measured costs little enough to be left on: counters are plain numbers of the process, everything else is
computed when somebody scrapes, in slices of well under a millisecond on the data path. What to look at first is in the
dashboard, `deploy/observability/dashboard.json`; what to be woken by in `deploy/observability/alerts.yaml`, with a page
for each in [runbook.md](runbook.md).

## What it costs

CPU of all services per single-record produce (`make bench-metrics`), two clusters side by side, pairs of measurements
in turn, everything scraped every 15 s:

| beside | pairs | more | 95 % | `metrics-2026-11-22…` in bench/results |
|---|---|---|---|---|
| itself with `metrics.enable=false` | 68 | +2.0 % | +1.1 to +2.8 % | `T030838Z.json`, `T033546Z.json` |
| 0.1.0, which had no metrics | 48 | +5.6 % | +4.5 to +6.8 % | `T034413Z.json`, `T050653Z.json` |

In the second is all else that changed since 0.1.0. The first is the price of having them on, and
`tests/unit/gateway/test_what_measuring_costs.py` holds it as a count of instructions. Times are of part of the requests
under load (ADR 0017).

"""


def exposed(family: Family) -> str:
    """The name that queries use; a histogram's have `_bucket`, `_sum` and `_count` behind it."""
    return f"{family.name}_total" if family.kind is Kind.COUNTER else family.name


def _row(family: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    kafka = KAFKA_NAMES.get(family.name)
    told = f"`{kafka}`" if kafka is not None else ""
    return f"| `{exposed(family)}` | {family.kind.value} | {labels} | {family.help} | {told} |\n"


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
