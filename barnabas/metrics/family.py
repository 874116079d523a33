"""What a metric is: its family, declared once, and the samples that a process has of it.

Families are declared in the modules beside this one, by what they measure; nothing may report a sample of a family that
is not declared, and dashboards, alerts and docs/reference/metrics.md are held to the same declarations. Names are
Kafka's MBean names, as Prometheus' JMX exporter writes them (`kafka.network:type=RequestMetrics,name=TotalTimeMs`
becomes `kafka_network_requestmetrics_totaltimems`); what only Barnabas has begins with `barnabas_`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from barnabas.metrics.histogram import Histogram


class Kind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(slots=True, frozen=True)
class Family:
    """`name` is without the `_total` that exposition puts behind counters; `labels` are names, in order."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


@dataclass(slots=True, frozen=True)
class Sample:
    """One value at one time. `labels` are values, in the order of the family's names; counters only ever grow."""

    family: Family
    labels: tuple[str, ...]
    value: float | Histogram


class Measured(Protocol):
    """A part of a service that has something to report. Called at a scrape, never in the path of a request."""

    def samples(self) -> Iterable[Sample]: ...
