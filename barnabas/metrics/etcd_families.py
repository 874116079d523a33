"""etcd, as each service that uses it sees it; and the lease that keeps the service registered there."""

from __future__ import annotations

from barnabas.metrics.family import Family, Kind

REQUEST_TIME = Family(
    "barnabas_etcd_request_time_ms",
    Kind.HISTOGRAM,
    "From a request to etcd to its answer or failure, each attempt for itself.",
    ("operation",),
)
ERRORS = Family(
    "barnabas_etcd_request_errors",
    Kind.COUNTER,
    "Requests to etcd that failed, by gRPC's status; of a transaction that was lost nobody knows what became of it.",
    ("operation", "status"),
)
WATCH_EVENTS = Family("barnabas_etcd_watch_events", Kind.COUNTER, "Changes that the watch has brought.")
WATCH_RESTARTS = Family("barnabas_etcd_watch_restarts", Kind.COUNTER, "Watches that ended, and were begun again.")
LEASE_AGE = Family(
    "barnabas_etcd_lease_renewal_age_ms",
    Kind.GAUGE,
    "How long ago the last renewal of the service's lease was sent that etcd has answered.",
)
LEASE_TTL = Family("barnabas_etcd_lease_ttl_ms", Kind.GAUGE, "The time to live of the service's lease.")
REGISTRATIONS = Family(
    "barnabas_etcd_registrations", Kind.COUNTER, "Registrations of the service: more than one, and a lease was lost."
)
