"""Connections: clients' at a gateway, and the streams between services."""

from __future__ import annotations

from typing import Final

from barnabas.metrics.family import Family, Kind

_PREFIX: Final = "kafka_server_socket_server_metrics_"

CONNECTIONS = Family(f"{_PREFIX}connection_count", Kind.GAUGE, "Clients' connections.", ("listener", "processor"))
CONNECTIONS_CREATED = Family(f"{_PREFIX}connection_creation", Kind.COUNTER, "Connections accepted.", ("listener",))
CONNECTIONS_CLOSED = Family(f"{_PREFIX}connection_close", Kind.COUNTER, "Connections closed.", ("listener",))
CONNECTIONS_REFUSED = Family(
    "barnabas_gateway_connections_refused",
    Kind.COUNTER,
    "Connections closed at once because of max.connections.per.ip.",
    ("listener",),
)
ACCEPTING_PAUSED = Family(
    "barnabas_gateway_accepting_paused",
    Kind.COUNTER,
    "How often accepting stopped: max.connections reached, no live processor, or no file descriptors.",
)
AUTHENTICATIONS = Family(
    "barnabas_gateway_authentications",
    Kind.COUNTER,
    "Authentications of clients by SASL, by how they ended: succeeded, failed or timed out.",
    ("listener", "mechanism", "outcome"),
)
UNAUTHENTICATED = Family(
    "barnabas_gateway_connections_unauthenticated",
    Kind.GAUGE,
    "Connections whose clients have yet to authenticate by SASL, or to complete the handshake of TLS.",
)
TLS_HANDSHAKES_FAILED = Family(
    "barnabas_gateway_tls_handshakes_failed", Kind.COUNTER, "Handshakes of TLS that failed.", ("listener",)
)
PROCESSORS = Family("barnabas_gateway_processors", Kind.GAUGE, "Processors that are alive and responsive.")
PROCESSOR_DEATHS = Family(
    "barnabas_gateway_processor_deaths", Kind.COUNTER, "Processors that died: each was restarted."
)
METADATA_REVISION = Family(
    "barnabas_gateway_metadata_revision", Kind.GAUGE, "The metadata revision that every live processor has applied."
)
CONTROLLER_SILENCE = Family(
    "barnabas_gateway_controller_silence_ms", Kind.GAUGE, "Time since the gateway last heard from a controller."
)

STREAMS_OPENED = Family(
    "barnabas_streams_opened", Kind.COUNTER, "Streams to other services that were opened.", ("stream",)
)
STREAMS_LOST = Family(
    "barnabas_streams_lost",
    Kind.COUNTER,
    "Streams that ended; they are opened again.",
    ("stream",),
)
STREAM_ATTEMPTS_FAILED = Family(
    "barnabas_streams_attempts_failed", Kind.COUNTER, "Failed attempts to open a stream.", ("stream",)
)
LANES_OPENED = Family(
    "barnabas_streams_lanes_opened",
    Kind.COUNTER,
    "Streams that went on by a Unix socket, because the other process is on the same host.",
    ("stream",),
)
LANES_REFUSED = Family(
    "barnabas_streams_lanes_refused",
    Kind.COUNTER,
    "Streams that stayed on gRPC, although the other process is on the same host: its socket was not reached.",
    ("stream",),
)
LANES_LOST = Family(
    "barnabas_streams_lanes_lost",
    Kind.COUNTER,
    "Streams that ended because their Unix socket failed; they are opened again, by gRPC.",
    ("stream",),
)

LOGSTORE_ANSWER_MS = Family(
    "barnabas_gateway_logstore_answer_ms",
    Kind.HISTOGRAM,
    "Time from sending an append or a query to a logstore until its answer, for timed requests.",
    ("logstore",),
)
LOGSTORE_UNANSWERED = Family(
    "barnabas_gateway_logstore_unanswered",
    Kind.GAUGE,
    "Requests sent to a logstore and not answered.",
    ("logstore", "kind"),
)
LOGSTORE_WAITING = Family(
    "barnabas_gateway_logstore_waiting",
    Kind.GAUGE,
    "Requests that wait for credit from a logstore.",
    ("logstore", "kind"),
)
LOGSTORE_CREDIT = Family(
    "barnabas_gateway_logstore_credit",
    Kind.GAUGE,
    "Credit that processors have left at a logstore; negative: they have sent more than it granted.",
    ("logstore", "kind", "resource"),
)
LOGSTORE_STREAMS_UP = Family(
    "barnabas_gateway_logstore_streams_up", Kind.GAUGE, "Processors whose stream to a logstore is up.", ("logstore",)
)
