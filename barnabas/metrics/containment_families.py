"""Unexpected exceptions that a service has contained instead of ending by them."""

from __future__ import annotations

from barnabas.metrics.family import Family, Kind

CONTAINED_EXCEPTIONS = Family(
    "barnabas_contained_exceptions",
    Kind.COUNTER,
    "Unexpected exceptions, each a fault of Barnabas, that cost no more than the request, the stream or the partition "
    "at which they were caught; docs/correctness.md lists the places.",
    ("service", "place"),
)
