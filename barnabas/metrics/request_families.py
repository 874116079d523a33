"""Requests: counts, sizes, errors, and where their time was spent.

Counters count every request. Times are measured for some (`barnabas_gateway.core.timing.request_metrics` describes
which), so the `_count` of a histogram of times counts only these. RequestQueueTimeMs, LocalTimeMs, RemoteTimeMs,
ResponseQueueTimeMs and ResponseSendTimeMs of a request add up to its TotalTimeMs, as its hops do.

`request` is Kafka's name of the API. Fetches of consumers come to gateways and are `FetchConsumer`; those of followers
go from logstore to logstore and are reported there, as `FetchFollower`. There is no sum of both called `Fetch`.
"""

from __future__ import annotations

from barnabas.metrics.family import Family, Kind

_PREFIX = "kafka_network_requestmetrics_"


def _time(name: str, help_text: str) -> Family:
    return Family(f"{_PREFIX}{name}", Kind.HISTOGRAM, help_text, ("request",))


REQUESTS_PER_SEC = Family(
    f"{_PREFIX}requestspersec", Kind.COUNTER, "Requests received, by API version.",
    ("request", "version"),
)  # fmt: skip
ERRORS_PER_SEC = Family(
    f"{_PREFIX}errorspersec",
    Kind.COUNTER,
    "Errors in responses, counted per partition; NONE counts responses without errors.",
    ("request", "error"),
)
REQUEST_BYTES_TOTAL = Family(
    "barnabas_request_bytes", Kind.COUNTER, "Bytes of requests, without their size fields.", ("request",)
)
REQUEST_BYTES = Family(f"{_PREFIX}requestbytes", Kind.HISTOGRAM, "Size of the timed requests, in bytes.", ("request",))
TOTAL_TIME_MS = _time("totaltimems", "Time from a request's last byte until its response is written to the socket.")
REQUEST_QUEUE_TIME_MS = _time("requestqueuetimems", "Time from a request's last byte until its processing starts.")
LOCAL_TIME_MS = _time(
    "localtimems", "Processing time in gateway, channel, logstore and controller, without the waits below."
)
REMOTE_TIME_MS = _time("remotetimems", "Time in purgatory, waiting for replicas or new records.")
THROTTLE_TIME_MS = _time("throttletimems", "Throttle time sent to the client.")
RESPONSE_QUEUE_TIME_MS = _time(
    "responsequeuetimems", "Time from the response being ready until earlier responses were sent."
)
RESPONSE_SEND_TIME_MS = _time("responsesendtimems", "Time to write the response to the socket.")
MESSAGE_CONVERSIONS_TIME_MS = _time("messageconversionstimems", "Duration of conversions of old message formats.")
TEMPORARY_MEMORY_BYTES = Family(
    f"{_PREFIX}temporarymemorybytes", Kind.HISTOGRAM, "Temporary memory of a conversion, in bytes.", ("request",)
)
HOP_MS = Family(
    "barnabas_request_hop_ms",
    Kind.HISTOGRAM,
    "Time of a request in each hop; the hops of a request add up to TotalTimeMs.",
    ("request", "hop"),
)

REQUEST_QUEUE_SIZE = Family(
    "kafka_network_requestchannel_requestqueuesize",
    Kind.GAUGE,
    "Complete requests that have not been started.",
    ("processor",),
)
RESPONSE_QUEUE_SIZE = Family(
    "kafka_network_requestchannel_responsequeuesize",
    Kind.GAUGE,
    "Responses that wait for earlier ones.",
    ("processor",),
)
PROCESSOR_IDLE = Family(
    "kafka_network_socketserver_networkprocessoravgidlepercent",
    Kind.GAUGE,
    "Fraction of time (0 to 1) in which a processor was idle.",
    ("processor",),
)
HANDLER_IDLE = Family(
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent",
    Kind.GAUGE,
    "Fraction of time (0 to 1) in which the data loop, or its IO workers, were idle.",
    ("handler",),
)

LOGSTORE_REQUEST_MS = Family(
    "barnabas_logstore_request_ms",
    Kind.HISTOGRAM,
    "Time of gateways' timed requests at this logstore: in its queue, and in processing.",
    ("request", "part"),
)
