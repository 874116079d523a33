"""Authorization: what is denied, and how many ACLs decide it."""

from __future__ import annotations

from barnabas.metrics.family import Family, Kind

DENIED = Family(
    "barnabas_authorizations_denied",
    Kind.COUNTER,
    "Operations that were denied to clients, by resource type and operation.",
    ("resource_type", "operation"),
)
AUDIT_RECORDS = Family(
    "barnabas_audit_records",
    Kind.COUNTER,
    "Records for the topic of the audit, by outcome: written, handed over (by a controller) or dropped.",
    ("outcome",),
)
ACLS = Family("barnabas_acls", Kind.GAUGE, "ACLs that the gateway knows.")
