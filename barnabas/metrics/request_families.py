"""Requests: how many, how large, how they failed, and where their time went.

Counters count every request. Times are taken of some (`barnabas_gateway.core.timing.request_metrics` says which), so
the `_count` of a histogram of times is of these. RequestQueueTimeMs, LocalTimeMs, RemoteTimeMs, ResponseQueueTimeMs and
ResponseSendTimeMs of a request add up to its TotalTimeMs, as its hops do.

`request` is Kafka's name of the API. Fetches of consumers come to gateways and are `FetchConsumer`; those of followers
go from logstore to logstore and are told there, as `FetchFollower`. There is no sum of both called `Fetch`.
"""

from __future__ import annotations

from barnabas.metrics.family import Family, Kind

_PREFIX = "kafka_network_requestmetrics_"


def _time(name: str, help_text: str) -> Family:
    return Family(f"{_PREFIX}{name}", Kind.HISTOGRAM, help_text, ("request",))


REQUESTS_PER_SEC = Family(
    f"{_PREFIX}requestspersec", Kind.COUNTER, "Requests received, by the version that they came in.",
    ("request", "version"),
)  # fmt: skip
ERRORS_PER_SEC = Family(
    f"{_PREFIX}errorspersec",
    Kind.COUNTER,
    "Errors in answers, each partition's counted; NONE counts answers without any.",
    ("request", "error"),
)
REQUEST_BYTES_TOTAL = Family(
    "barnabas_request_bytes", Kind.COUNTER, "Bytes of requests, without their size fields.", ("request",)
)
REQUEST_BYTES = Family(f"{_PREFIX}requestbytes", Kind.HISTOGRAM, "Size of the timed requests, in bytes.", ("request",))
TOTAL_TIME_MS = _time("totaltimems", "From a request's last byte until the socket has taken its answer.")
REQUEST_QUEUE_TIME_MS = _time("requestqueuetimems", "From a request's last byte until it is begun.")
LOCAL_TIME_MS = _time("localtimems", "Gateway, channel, logstore and controller: all that is no waiting below.")
REMOTE_TIME_MS = _time("remotetimems", "Parked in purgatory: until replicas or new records have come.")
THROTTLE_TIME_MS = _time("throttletimems", "By how much the client was told to wait.")
RESPONSE_QUEUE_TIME_MS = _time("responsequeuetimems", "Answered, until the answers before it had left.")
RESPONSE_SEND_TIME_MS = _time("responsesendtimems", "Until the socket had taken the whole answer.")
MESSAGE_CONVERSIONS_TIME_MS = _time("messageconversionstimems", "Conversion of an old message format, once begun.")
TEMPORARY_MEMORY_BYTES = Family(
    f"{_PREFIX}temporarymemorybytes", Kind.HISTOGRAM, "Memory that a conversion took, in bytes.", ("request",)
)
HOP_MS = Family(
    "barnabas_request_hop_ms",
    Kind.HISTOGRAM,
    "Where the time of a request went, hop by hop; of one request the hops add up to TotalTimeMs.",
    ("request", "hop"),
)

REQUEST_QUEUE_SIZE = Family(
    "kafka_network_requestchannel_requestqueuesize",
    Kind.GAUGE,
    "Whole requests that have not been begun.",
    ("processor",),
)
RESPONSE_QUEUE_SIZE = Family(
    "kafka_network_requestchannel_responsequeuesize",
    Kind.GAUGE,
    "Answers that wait for those before them.",
    ("processor",),
)
PROCESSOR_IDLE = Family(
    "kafka_network_socketserver_networkprocessoravgidlepercent",
    Kind.GAUGE,
    "Part of the time (0 to 1) in which a processor waited for something to do.",
    ("processor",),
)
HANDLER_IDLE = Family(
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent",
    Kind.GAUGE,
    "Part of the time (0 to 1) in which the data loop, or its IO workers, waited for something to do.",
    ("handler",),
)

LOGSTORE_REQUEST_MS = Family(
    "barnabas_logstore_request_ms",
    Kind.HISTOGRAM,
    "What gateways' timed requests spent at this logstore: in its queue, and worked on until the answer left.",
    ("request", "part"),
)
