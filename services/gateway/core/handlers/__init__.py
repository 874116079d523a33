"""One file per API key, named by its number: this directory is the index of what a gateway speaks.

Each opens as a contract: API key, versions, behaviour, known deviations. Each handler asks `authorize` before it acts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.primitives import Steps
from services.gateway.core.fetch import PendingFetch
from services.gateway.core.handlers import (
    api_00_produce,
    api_01_fetch,
    api_02_list_offsets,
    api_03_metadata,
    api_08_offset_commit,
    api_09_offset_fetch,
    api_10_find_coordinator,
    api_11_join_group,
    api_12_heartbeat,
    api_13_leave_group,
    api_14_sync_group,
    api_15_describe_groups,
    api_16_list_groups,
    api_18_api_versions,
    api_19_create_topics,
    api_20_delete_topics,
    api_21_delete_records,
    api_22_init_producer_id,
    api_23_offset_for_leader_epoch,
    api_29_describe_acls,
    api_30_create_acls,
    api_31_delete_acls,
    api_32_describe_configs,
    api_33_alter_configs,
    api_34_alter_replica_log_dirs,
    api_35_describe_log_dirs,
    api_37_create_partitions,
    api_38_create_delegation_token,
    api_39_renew_delegation_token,
    api_40_expire_delegation_token,
    api_41_describe_delegation_token,
    api_42_delete_groups,
    api_43_elect_leaders,
    api_44_incremental_alter_configs,
    api_45_alter_partition_reassignments,
    api_46_list_partition_reassignments,
    api_47_offset_delete,
    api_48_describe_client_quotas,
    api_50_describe_user_scram_credentials,
    api_57_update_features,
    api_60_describe_cluster,
    api_61_describe_producers,
    api_66_list_transactions,
    api_74_list_config_resources,
    api_75_describe_topic_partitions,
)
from services.gateway.core.produce import PendingProduce
from services.gateway.core.slots import Slot

Start: TypeAlias = Callable[[Any, Any], Steps[None] | None]


class Handler(NamedTuple):
    slot: type[Slot]
    """What a request of this key needs while it is worked on."""
    start: Start
    """Called with that slot and the decoded request; ends in `RequestRoom.respond` or `answered`, now or later. What
    grows with the request is returned, to be done in steps."""
    version_min: int
    version_max: int
    takes_body: bool
    """Whether `start` gets the request `WithBody`."""


def _handler(api_key: ApiKey, slot: type[Slot], start: Start, *, takes_body: bool = False) -> Handler:
    return Handler(slot, start, min(api_key.version_min, api_key.advertised_min), api_key.version_max, takes_body)


_HANDED_ON: Final = {
    int(api_key): _handler(api_key, slot, start, takes_body=True)
    for api_key, slot, start in (
        (ApiKey.OFFSET_COMMIT, api_08_offset_commit.PendingOffsetCommit, api_08_offset_commit.start),
        (ApiKey.JOIN_GROUP, api_11_join_group.PendingJoinGroup, api_11_join_group.start),
        (ApiKey.HEARTBEAT, api_12_heartbeat.PendingHeartbeat, api_12_heartbeat.start),
        (ApiKey.LEAVE_GROUP, api_13_leave_group.PendingLeaveGroup, api_13_leave_group.start),
        (ApiKey.SYNC_GROUP, api_14_sync_group.PendingSyncGroup, api_14_sync_group.start),
    )
}
"""Whose bodies go to coordinators of groups as they came."""

HANDLERS: Final[dict[int, Handler]] = _HANDED_ON | {
    int(api_key): _handler(api_key, slot, start)
    for api_key, slot, start in (
        (ApiKey.PRODUCE, PendingProduce, api_00_produce.start),
        (ApiKey.FETCH, PendingFetch, api_01_fetch.start),
        (ApiKey.LIST_OFFSETS, api_02_list_offsets.PendingListOffsets, api_02_list_offsets.start),
        (ApiKey.METADATA, api_03_metadata.PendingMetadata, api_03_metadata.start),
        (ApiKey.OFFSET_FETCH, api_09_offset_fetch.PendingOffsetFetch, api_09_offset_fetch.start),
        (ApiKey.FIND_COORDINATOR, Slot, api_10_find_coordinator.start),
        (ApiKey.DESCRIBE_GROUPS, api_15_describe_groups.PendingDescribeGroups, api_15_describe_groups.start),
        (ApiKey.LIST_GROUPS, api_16_list_groups.PendingListGroups, api_16_list_groups.start),
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
        (ApiKey.DESCRIBE_ACLS, Slot, api_29_describe_acls.start),
        (ApiKey.CREATE_ACLS, Slot, api_30_create_acls.start),
        (ApiKey.DELETE_ACLS, Slot, api_31_delete_acls.start),
        (ApiKey.DESCRIBE_CONFIGS, api_32_describe_configs.PendingDescribeConfigs, api_32_describe_configs.start),
        (ApiKey.ALTER_CONFIGS, api_33_alter_configs.PendingFullAlterConfigs, api_33_alter_configs.start),
        (
            ApiKey.ALTER_REPLICA_LOG_DIRS,
            api_34_alter_replica_log_dirs.PendingAlterReplicaLogDirs,
            api_34_alter_replica_log_dirs.start,
        ),
        (ApiKey.DESCRIBE_LOG_DIRS, api_35_describe_log_dirs.PendingDescribeLogDirs, api_35_describe_log_dirs.start),
        (ApiKey.CREATE_PARTITIONS, api_37_create_partitions.PendingCreatePartitions, api_37_create_partitions.start),
        (ApiKey.CREATE_DELEGATION_TOKEN, Slot, api_38_create_delegation_token.start),
        (ApiKey.RENEW_DELEGATION_TOKEN, Slot, api_39_renew_delegation_token.start),
        (ApiKey.EXPIRE_DELEGATION_TOKEN, Slot, api_40_expire_delegation_token.start),
        (ApiKey.DESCRIBE_DELEGATION_TOKEN, Slot, api_41_describe_delegation_token.start),
        (ApiKey.DELETE_GROUPS, api_42_delete_groups.PendingDeleteGroups, api_42_delete_groups.start),
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
        (ApiKey.OFFSET_DELETE, api_47_offset_delete.PendingOffsetDelete, api_47_offset_delete.start),
        (ApiKey.DESCRIBE_CLIENT_QUOTAS, Slot, api_48_describe_client_quotas.start),
        (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, Slot, api_50_describe_user_scram_credentials.start),
        (ApiKey.UPDATE_FEATURES, Slot, api_57_update_features.start),
        (ApiKey.DESCRIBE_CLUSTER, Slot, api_60_describe_cluster.start),
        (
            ApiKey.DESCRIBE_PRODUCERS,
            api_61_describe_producers.PendingDescribeProducers,
            api_61_describe_producers.start,
        ),
        (ApiKey.LIST_TRANSACTIONS, Slot, api_66_list_transactions.start),
        (ApiKey.LIST_CONFIG_RESOURCES, Slot, api_74_list_config_resources.start),
        (ApiKey.DESCRIBE_TOPIC_PARTITIONS, Slot, api_75_describe_topic_partitions.start),
    )
}
