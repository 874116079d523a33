"""Traffic by topic: Kafka's BrokerTopicMetrics, of a logstore.

As in Kafka the same families have sums over all topics, with an empty label `topic`, which Prometheus treats as no
label; a sum over a family counts everything twice. A logstore reports its first `metrics.topics.max` topics separately;
all others are `__other__`. Requests are counted by partition, as in Kafka.
"""

from __future__ import annotations

from typing import Final

from barnabas.metrics.family import Family, Kind

_PREFIX: Final = "kafka_server_brokertopicmetrics_"


def _counter(name: str, help_text: str) -> Family:
    return Family(f"{_PREFIX}{name}", Kind.COUNTER, f"{help_text}; topic is empty for the sum.", ("topic",))


BYTES_IN = _counter("bytesinpersec", "Bytes of records appended by producers")
MESSAGES_IN = _counter("messagesinpersec", "Records appended on the leader")
BYTES_OUT = _counter("bytesoutpersec", "Bytes of records sent to consumers")
PRODUCE_REQUESTS = _counter("totalproducerequestspersec", "Appends answered")
FAILED_PRODUCE_REQUESTS = _counter("failedproducerequestspersec", "Appends refused")
FETCH_REQUESTS = _counter("totalfetchrequestspersec", "Fetches, per partition")
FAILED_FETCH_REQUESTS = _counter("failedfetchrequestspersec", "Reads refused")
REPLICATION_BYTES_IN = _counter("replicationbytesinpersec", "Bytes of records fetched from leaders")
REPLICATION_BYTES_OUT = _counter("replicationbytesoutpersec", "Bytes of records sent to followers")

TOPICS_WITHOUT_LABEL = Family(
    "barnabas_metrics_topics_without_label",
    Kind.COUNTER,
    "Topics beyond metrics.topics.max, which have no label of their own and are reported as __other__.",
)

LOG_SIZE = Family(
    "barnabas_log_size_bytes", Kind.GAUGE, "Bytes of the logs of a topic's replicas on this logstore.", ("topic",)
)
LOG_SEGMENTS = Family(
    "barnabas_log_segments", Kind.GAUGE, "Segments of the logs of a topic's replicas on this logstore.", ("topic",)
)
