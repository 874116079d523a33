"""Consumer groups, at the logstore that coordinates them: Kafka's GroupMetadataManager and coordinator metrics."""

from __future__ import annotations

from typing import Final

from barnabas.metrics.family import Family, Kind

_MANAGER: Final = "kafka_coordinator_group_groupmetadatamanager_"
_COORDINATOR: Final = "kafka_server_group_coordinator_metrics_"

GROUPS = Family(f"{_MANAGER}numgroups", Kind.GAUGE, "Groups coordinated by this logstore.")
GROUPS_BY_STATE = Family(
    "barnabas_group_count", Kind.GAUGE, "Groups coordinated by this logstore, by state.", ("state",)
)
GROUP_MEMBERS = Family("barnabas_group_members", Kind.GAUGE, "Members of groups coordinated by this logstore.")
GROUP_OFFSETS = Family(f"{_MANAGER}numoffsets", Kind.GAUGE, "Committed offsets stored by this logstore.")
COORDINATED_PARTITIONS = Family(
    "barnabas_group_coordinated_partitions", Kind.GAUGE, "Partitions of __consumer_offsets led by this coordinator."
)
LOADING_PARTITIONS = Family(
    "barnabas_group_loading_partitions",
    Kind.GAUGE,
    "Partitions of __consumer_offsets that are still being loaded: their groups are not served yet.",
)
OFFSET_COMMITS = Family(f"{_COORDINATOR}offset_commit_count", Kind.COUNTER, "Offsets committed.")
OFFSET_EXPIRATIONS = Family(f"{_COORDINATOR}offset_expiration_count", Kind.COUNTER, "Offsets that have expired.")
REBALANCES = Family(f"{_COORDINATOR}group_completed_rebalance_count", Kind.COUNTER, "Completed rebalances of groups.")
GROUP_CALLS_WAITING = Family("barnabas_group_calls_waiting", Kind.GAUGE, "Calls of members that have not been started.")
