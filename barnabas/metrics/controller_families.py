"""The controller: Kafka's KafkaController. Gauges of the cluster are the active one's; standbys report zeros."""

from __future__ import annotations

from typing import Final

from barnabas.metrics.family import Family, Kind

_PREFIX: Final = "kafka_controller_kafkacontroller_"

ACTIVE_CONTROLLERS = Family(f"{_PREFIX}activecontrollercount", Kind.GAUGE, "1 at the active controller, 0 at others.")
OFFLINE_PARTITIONS = Family(f"{_PREFIX}offlinepartitionscount", Kind.GAUGE, "Partitions without a leader.")
PREFERRED_REPLICA_IMBALANCE = Family(
    f"{_PREFIX}preferredreplicaimbalancecount", Kind.GAUGE, "Partitions not led by their preferred replica."
)
TOPICS = Family(f"{_PREFIX}globaltopiccount", Kind.GAUGE, "Topics of the cluster.")
PARTITIONS = Family(f"{_PREFIX}globalpartitioncount", Kind.GAUGE, "Partitions of the cluster.")
ACTIVE_BROKERS = Family(f"{_PREFIX}activebrokercount", Kind.GAUGE, "Logstores that are registered.")
FENCED_BROKERS = Family(
    f"{_PREFIX}fencedbrokercount", Kind.GAUGE, "Logstores that were registered once and are not now."
)
CLUSTER_UNDER_REPLICATED = Family(
    "barnabas_controller_under_replicated_partitions",
    Kind.GAUGE,
    "Partitions of the whole cluster that have a leader, and replicas that are not in sync.",
)
REASSIGNING_PARTITIONS = Family(
    "barnabas_controller_reassigning_partitions", Kind.GAUGE, "Partitions whose replicas are being moved."
)
TOPICS_TO_DELETE = Family(f"{_PREFIX}topicstodeletecount", Kind.GAUGE, "Deleted topics that still have replicas.")
METADATA_REVISION = Family(
    "barnabas_controller_metadata_revision", Kind.GAUGE, "etcd's revision of the controller's image."
)
CONTROLLER_EPOCH = Family("barnabas_controller_epoch", Kind.GAUGE, "The epoch of the active controller.")
UNREADABLE_KEYS = Family("barnabas_controller_unreadable_keys", Kind.GAUGE, "Keys in etcd whose values can't be read.")

LEADER_ELECTIONS = Family(
    "kafka_controller_controllerstats_leaderelectionrateandtimems",
    Kind.COUNTER,
    "Partitions for which a leader was elected.",
)
UNCLEAN_ELECTIONS = Family(
    "kafka_controller_controllerstats_uncleanleaderelectionspersec",
    Kind.COUNTER,
    "Elections of a leader that was not in sync: records may be lost.",
)
ISR_CHANGES = Family(
    "barnabas_controller_isr_changes",
    Kind.COUNTER,
    "ISR changes that were written, for any reason.",
    ("kind",),
)
NODE_CHANGES = Family(
    "barnabas_controller_node_changes", Kind.COUNTER, "Nodes that were registered or lost.", ("role", "change")
)
BECAME_ACTIVE = Family(
    "barnabas_controller_elections", Kind.COUNTER, "How often this controller has become the active one."
)

REQUEST_TIME = Family(
    "barnabas_controller_request_time_ms",
    Kind.HISTOGRAM,
    "Time from a member's request to its answer, until logstores and gateways have applied it.",
    ("request",),
)
PENDING_REQUESTS = Family("barnabas_controller_pending_requests", Kind.GAUGE, "Unanswered requests.")
CONTROL_TIME = Family(
    "barnabas_controller_control_time_ms",
    Kind.HISTOGRAM,
    "Time from a command to a logstore to its answer.",
    ("logstore",),
)
CONTROL_UNANSWERED = Family(
    "barnabas_controller_control_unanswered", Kind.GAUGE, "Unanswered commands to a logstore.", ("logstore",)
)
CONTROL_STREAMS_LOST = Family(
    "barnabas_controller_control_streams_lost", Kind.COUNTER, "Control streams that ended.", ("logstore",)
)
SUBSCRIBERS = Family(
    "barnabas_controller_subscribers", Kind.GAUGE, "Gateways and purgatory pods with a metadata subscription."
)
