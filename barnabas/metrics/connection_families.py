"""Connections: clients' at a gateway, and the streams between services."""

from __future__ import annotations

from typing import Final

from barnabas.metrics.family import Family, Kind

_PREFIX: Final = "kafka_server_socket_server_metrics_"

CONNECTIONS = Family(f"{_PREFIX}connection_count", Kind.GAUGE, "Clients' connections.", ("listener", "processor"))
CONNECTIONS_CREATED = Family(f"{_PREFIX}connection_creation", Kind.COUNTER, "Connections accepted.", ("listener",))
CONNECTIONS_CLOSED = Family(f"{_PREFIX}connection_close", Kind.COUNTER, "Connections that are gone.", ("listener",))
CONNECTIONS_REFUSED = Family(
    "barnabas_gateway_connections_refused",
    Kind.COUNTER,
    "Connections closed at once, for max.connections.per.ip.",
    ("listener",),
)
ACCEPTING_PAUSED = Family(
    "barnabas_gateway_accepting_paused",
    Kind.COUNTER,
    "How often no more connections were accepted: max.connections, no processor that lives, or no descriptors.",
)
PROCESSORS = Family("barnabas_gateway_processors", Kind.GAUGE, "Processors that live and answer.")
PROCESSOR_DEATHS = Family(
    "barnabas_gateway_processor_deaths", Kind.COUNTER, "Processors that died: each was restarted."
)
METADATA_REVISION = Family(
    "barnabas_gateway_metadata_revision", Kind.GAUGE, "The revision that every live processor answers by."
)
CONTROLLER_SILENCE = Family(
    "barnabas_gateway_controller_silence_ms", Kind.GAUGE, "Since the gateway has heard from a controller."
)

STREAMS_OPENED = Family("barnabas_streams_opened", Kind.COUNTER, "Streams to other services that came up.", ("stream",))
STREAMS_LOST = Family(
    "barnabas_streams_lost",
    Kind.COUNTER,
    "Streams that ended; they are opened again.",
    ("stream",),
)
STREAM_ATTEMPTS_FAILED = Family(
    "barnabas_streams_attempts_failed", Kind.COUNTER, "Attempts at a stream that did not come up.", ("stream",)
)

LOGSTORE_ANSWER_MS = Family(
    "barnabas_gateway_logstore_answer_ms",
    Kind.HISTOGRAM,
    "From when an append or a query has left for a logstore until its answer, of the timed ones.",
    ("logstore",),
)
LOGSTORE_UNANSWERED = Family(
    "barnabas_gateway_logstore_unanswered",
    Kind.GAUGE,
    "Requests that a logstore has and has not answered.",
    ("logstore", "kind"),
)
LOGSTORE_WAITING = Family(
    "barnabas_gateway_logstore_waiting",
    Kind.GAUGE,
    "Requests that wait for credit of a logstore.",
    ("logstore", "kind"),
)
LOGSTORE_CREDIT = Family(
    "barnabas_gateway_logstore_credit",
    Kind.GAUGE,
    "What processors may still send to a logstore; negative: more is owed than it has granted.",
    ("logstore", "kind", "resource"),
)
LOGSTORE_STREAMS_UP = Family(
    "barnabas_gateway_logstore_streams_up", Kind.GAUGE, "Processors whose stream to a logstore is up.", ("logstore",)
)
