"""Quotas: what clients use of them, and how long they are throttled."""

from __future__ import annotations

from typing import Final

from barnabas.metrics.family import Family, Kind

_LABELS: Final = ("quota", "user", "client_id")

QUOTA_USED = Family(
    "barnabas_quota_used",
    Kind.COUNTER,
    "What clients with a quota have used of it: bytes, percent of a second, or partitions created and deleted.",
    _LABELS,
)
QUOTA_THROTTLED = Family("barnabas_quota_throttled", Kind.COUNTER, "Answers with a throttle time.", _LABELS)
QUOTA_THROTTLE_TIME = Family(
    "barnabas_quota_throttle_time_ms", Kind.COUNTER, "Sum of the throttle times answered to clients.", _LABELS
)
CONNECTIONS_THROTTLED = Family(
    "barnabas_gateway_connections_throttled",
    Kind.COUNTER,
    "Connections that were accepted later because of a limit of their creation rate, by what it limits.",
    ("limit",),
)
