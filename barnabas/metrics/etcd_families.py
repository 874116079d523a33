"""etcd, as each service that uses it sees it; and the lease that keeps the service registered there."""

from __future__ import annotations

from barnabas.metrics.family import Family, Kind

REQUEST_TIME = Family(
    "barnabas_etcd_request_time_ms",
    Kind.HISTOGRAM,
    "Time from a request to etcd to its answer or failure, for each attempt.",
    ("operation",),
)
ERRORS = Family(
    "barnabas_etcd_request_errors",
    Kind.COUNTER,
    "Requests to etcd that failed, by gRPC's status; a transaction that failed may have been applied.",
    ("operation", "status"),
)
WATCH_EVENTS = Family("barnabas_etcd_watch_events", Kind.COUNTER, "Changes that the watch has delivered.")
WATCH_RESTARTS = Family("barnabas_etcd_watch_restarts", Kind.COUNTER, "Watches that ended and were restarted.")
LEASE_AGE = Family(
    "barnabas_etcd_lease_renewal_age_ms",
    Kind.GAUGE,
    "Time since the last successful renewal of the service's lease was sent.",
)
LEASE_TTL = Family("barnabas_etcd_lease_ttl_ms", Kind.GAUGE, "The time to live of the service's lease.")
REGISTRATIONS = Family(
    "barnabas_etcd_registrations",
    Kind.COUNTER,
    "Registrations of the service: more than one means that a lease was lost.",
)
