"""A purgatory pod: Kafka's DelayedOperationPurgatory, whose operations are called entries here."""

from __future__ import annotations

from typing import Final

from barnabas.metrics.family import Family, Kind

_PREFIX: Final = "kafka_server_delayedoperationpurgatory_"

PURGATORY_SIZE = Family(
    f"{_PREFIX}purgatorysize",
    Kind.GAUGE,
    "Conditions of entries that wait: one for each partition or group that an entry waits for.",
    ("delayedoperation",),
)
DELAYED_OPERATIONS = Family(
    f"{_PREFIX}numdelayedoperations", Kind.GAUGE, "Entries that wait to be completed.", ("delayedoperation",)
)
PARKED = Family("barnabas_purgatory_parked", Kind.COUNTER, "Entries that had to wait.", ("delayedoperation",))
COMPLETED = Family(
    "barnabas_purgatory_completed",
    Kind.COUNTER,
    "Entries answered, by outcome: satisfied, expired or fenced; including those that did not have to wait.",
    ("delayedoperation", "outcome"),
)
DROPPED = Family(
    "barnabas_purgatory_dropped",
    Kind.COUNTER,
    "Entries that ended without an answer: cancelled, or their stream was lost.",
)
REFUSED = Family(
    "barnabas_purgatory_refused", Kind.COUNTER, "Entries answered at once as expired: purgatory.entries.max is reached."
)
CAPACITY = Family("barnabas_purgatory_entries_max", Kind.GAUGE, "Maximum number of conditions in the pod.")
WAKE_UPS = Family(
    "barnabas_purgatory_wake_ups", Kind.COUNTER, "States of partitions and groups that an entry waited for."
)
WATCHED_PARTITIONS = Family(
    "barnabas_purgatory_watched_partitions", Kind.GAUGE, "Partitions whose state is watched at logstores."
)
WATCHED_GROUPS = Family("barnabas_purgatory_watched_groups", Kind.GAUGE, "Groups whose state is watched at logstores.")
TIMER_SIZE = Family("barnabas_purgatory_timer_size", Kind.GAUGE, "Deadlines in the timing wheel.")
TIMER_LATENESS = Family(
    "barnabas_purgatory_timer_lateness_ms", Kind.HISTOGRAM, "How late the timing wheel was turned after a deadline."
)
GATEWAY_STREAMS = Family("barnabas_purgatory_gateway_streams", Kind.GAUGE, "Processors that park here.")
LOGSTORE_STREAMS = Family("barnabas_purgatory_logstore_streams", Kind.GAUGE, "Logstores that are watched, and answer.")
LOGSTORE_STREAMS_LOST = Family(
    "barnabas_purgatory_logstore_streams_lost", Kind.COUNTER, "Watch streams that ended: they are reopened."
)
