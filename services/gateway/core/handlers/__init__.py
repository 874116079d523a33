"""One file per API key, named by its number: this directory is the index of what a gateway speaks.

Each opens as a contract: API key, versions, behaviour, known deviations. Each handler asks `authorize` before it acts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from barnabas.wire.api_keys import ApiKey
from services.gateway.core.fetch import PendingFetch
from services.gateway.core.handlers import (
    api_00_produce,
    api_01_fetch,
    api_02_list_offsets,
    api_03_metadata,
    api_10_find_coordinator,
    api_18_api_versions,
    api_19_create_topics,
    api_20_delete_topics,
    api_21_delete_records,
    api_22_init_producer_id,
    api_23_offset_for_leader_epoch,
    api_32_describe_configs,
    api_33_alter_configs,
    api_34_alter_replica_log_dirs,
    api_35_describe_log_dirs,
    api_37_create_partitions,
    api_43_elect_leaders,
    api_44_incremental_alter_configs,
    api_45_alter_partition_reassignments,
    api_46_list_partition_reassignments,
    api_60_describe_cluster,
    api_61_describe_producers,
    api_74_list_config_resources,
    api_75_describe_topic_partitions,
)
from services.gateway.core.produce import PendingProduce
from services.gateway.core.slots import Slot


class Handler(NamedTuple):
    slot: type[Slot]
    """What a request of this key needs while it is worked on."""
    start: Callable[[Any, Any], None]
    """Called with that slot and the decoded request; ends in `RequestRoom.respond` or `answered`, now or later."""
    version_min: int
    version_max: int


def _handler(api_key: ApiKey, slot: type[Slot], start: Callable[[Any, Any], None]) -> Handler:
    return Handler(slot, start, min(api_key.version_min, api_key.advertised_min), api_key.version_max)


HANDLERS: Final[dict[int, Handler]] = {
    int(api_key): _handler(api_key, slot, start)
    for api_key, slot, start in (
        (ApiKey.PRODUCE, PendingProduce, api_00_produce.start),
        (ApiKey.FETCH, PendingFetch, api_01_fetch.start),
        (ApiKey.LIST_OFFSETS, api_02_list_offsets.PendingListOffsets, api_02_list_offsets.start),
        (ApiKey.METADATA, api_03_metadata.PendingMetadata, api_03_metadata.start),
        (ApiKey.FIND_COORDINATOR, Slot, api_10_find_coordinator.start),
        (ApiKey.API_VERSIONS, Slot, api_18_api_versions.start),
        (ApiKey.CREATE_TOPICS, api_19_create_topics.PendingCreateTopics, api_19_create_topics.start),
        (ApiKey.DELETE_TOPICS, api_20_delete_topics.PendingDeleteTopics, api_20_delete_topics.start),
        (ApiKey.DELETE_RECORDS, api_21_delete_records.PendingDeleteRecords, api_21_delete_records.start),
        (ApiKey.INIT_PRODUCER_ID, api_22_init_producer_id.PendingInitProducerId, api_22_init_producer_id.start),
        (
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            api_23_offset_for_leader_epoch.PendingOffsetForLeaderEpoch,
            api_23_offset_for_leader_epoch.start,
        ),
        (ApiKey.DESCRIBE_CONFIGS, api_32_describe_configs.PendingDescribeConfigs, api_32_describe_configs.start),
        (ApiKey.ALTER_CONFIGS, api_33_alter_configs.PendingFullAlterConfigs, api_33_alter_configs.start),
        (
            ApiKey.ALTER_REPLICA_LOG_DIRS,
            api_34_alter_replica_log_dirs.PendingAlterReplicaLogDirs,
            api_34_alter_replica_log_dirs.start,
        ),
        (ApiKey.DESCRIBE_LOG_DIRS, api_35_describe_log_dirs.PendingDescribeLogDirs, api_35_describe_log_dirs.start),
        (ApiKey.CREATE_PARTITIONS, api_37_create_partitions.PendingCreatePartitions, api_37_create_partitions.start),
        (ApiKey.ELECT_LEADERS, api_43_elect_leaders.PendingElectLeaders, api_43_elect_leaders.start),
        (
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            api_44_incremental_alter_configs.PendingIncrementalAlterConfigs,
            api_44_incremental_alter_configs.start,
        ),
        (
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            api_45_alter_partition_reassignments.PendingAlterReassignments,
            api_45_alter_partition_reassignments.start,
        ),
        (ApiKey.LIST_PARTITION_REASSIGNMENTS, Slot, api_46_list_partition_reassignments.start),
        (ApiKey.DESCRIBE_CLUSTER, Slot, api_60_describe_cluster.start),
        (
            ApiKey.DESCRIBE_PRODUCERS,
            api_61_describe_producers.PendingDescribeProducers,
            api_61_describe_producers.start,
        ),
        (ApiKey.LIST_CONFIG_RESOURCES, Slot, api_74_list_config_resources.start),
        (ApiKey.DESCRIBE_TOPIC_PARTITIONS, Slot, api_75_describe_topic_partitions.start),
    )
}
