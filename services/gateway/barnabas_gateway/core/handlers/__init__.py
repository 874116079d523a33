"""One file per API key, named by its number: this directory is the index of the supported APIs.

Each opens with its contract: API key, versions, behaviour, known deviations. Each handler asks the authorizer
before it acts.
"""

from __future__ import annotations

from typing import Final

from barnabas_gateway.core.handlers.api_00_produce import ProduceHandler
from barnabas_gateway.core.handlers.api_01_fetch import FetchHandler
from barnabas_gateway.core.handlers.api_02_list_offsets import ListOffsetsHandler
from barnabas_gateway.core.handlers.api_03_metadata import MetadataHandler
from barnabas_gateway.core.handlers.api_08_offset_commit import OffsetCommitHandler
from barnabas_gateway.core.handlers.api_09_offset_fetch import OffsetFetchHandler
from barnabas_gateway.core.handlers.api_10_find_coordinator import FindCoordinatorHandler
from barnabas_gateway.core.handlers.api_11_join_group import JoinGroupHandler
from barnabas_gateway.core.handlers.api_12_heartbeat import HeartbeatHandler
from barnabas_gateway.core.handlers.api_13_leave_group import LeaveGroupHandler
from barnabas_gateway.core.handlers.api_14_sync_group import SyncGroupHandler
from barnabas_gateway.core.handlers.api_15_describe_groups import DescribeGroupsHandler
from barnabas_gateway.core.handlers.api_16_list_groups import ListGroupsHandler
from barnabas_gateway.core.handlers.api_17_sasl_handshake import SaslHandshakeHandler
from barnabas_gateway.core.handlers.api_18_api_versions import ApiVersionsHandler
from barnabas_gateway.core.handlers.api_19_create_topics import CreateTopicsHandler
from barnabas_gateway.core.handlers.api_20_delete_topics import DeleteTopicsHandler
from barnabas_gateway.core.handlers.api_21_delete_records import DeleteRecordsHandler
from barnabas_gateway.core.handlers.api_22_init_producer_id import InitProducerIdHandler
from barnabas_gateway.core.handlers.api_23_offset_for_leader_epoch import OffsetForLeaderEpochHandler
from barnabas_gateway.core.handlers.api_24_add_partitions_to_txn import AddPartitionsToTxnHandler
from barnabas_gateway.core.handlers.api_25_add_offsets_to_txn import AddOffsetsToTxnHandler
from barnabas_gateway.core.handlers.api_26_end_txn import EndTxnHandler
from barnabas_gateway.core.handlers.api_27_write_txn_markers import WriteTxnMarkersHandler
from barnabas_gateway.core.handlers.api_28_txn_offset_commit import TxnOffsetCommitHandler
from barnabas_gateway.core.handlers.api_29_describe_acls import DescribeAclsHandler
from barnabas_gateway.core.handlers.api_30_create_acls import CreateAclsHandler
from barnabas_gateway.core.handlers.api_31_delete_acls import DeleteAclsHandler
from barnabas_gateway.core.handlers.api_32_describe_configs import DescribeConfigsHandler
from barnabas_gateway.core.handlers.api_33_alter_configs import AlterConfigsHandler
from barnabas_gateway.core.handlers.api_34_alter_replica_log_dirs import AlterReplicaLogDirsHandler
from barnabas_gateway.core.handlers.api_35_describe_log_dirs import DescribeLogDirsHandler
from barnabas_gateway.core.handlers.api_36_sasl_authenticate import SaslAuthenticateHandler
from barnabas_gateway.core.handlers.api_37_create_partitions import CreatePartitionsHandler
from barnabas_gateway.core.handlers.api_38_create_delegation_token import CreateDelegationTokenHandler
from barnabas_gateway.core.handlers.api_39_renew_delegation_token import RenewDelegationTokenHandler
from barnabas_gateway.core.handlers.api_40_expire_delegation_token import ExpireDelegationTokenHandler
from barnabas_gateway.core.handlers.api_41_describe_delegation_token import DescribeDelegationTokenHandler
from barnabas_gateway.core.handlers.api_42_delete_groups import DeleteGroupsHandler
from barnabas_gateway.core.handlers.api_43_elect_leaders import ElectLeadersHandler
from barnabas_gateway.core.handlers.api_44_incremental_alter_configs import IncrementalAlterConfigsHandler
from barnabas_gateway.core.handlers.api_45_alter_partition_reassignments import AlterPartitionReassignmentsHandler
from barnabas_gateway.core.handlers.api_46_list_partition_reassignments import ListPartitionReassignmentsHandler
from barnabas_gateway.core.handlers.api_47_offset_delete import OffsetDeleteHandler
from barnabas_gateway.core.handlers.api_48_describe_client_quotas import DescribeClientQuotasHandler
from barnabas_gateway.core.handlers.api_49_alter_client_quotas import AlterClientQuotasHandler
from barnabas_gateway.core.handlers.api_50_describe_user_scram_credentials import DescribeUserScramCredentialsHandler
from barnabas_gateway.core.handlers.api_51_alter_user_scram_credentials import AlterUserScramCredentialsHandler
from barnabas_gateway.core.handlers.api_57_update_features import UpdateFeaturesHandler
from barnabas_gateway.core.handlers.api_60_describe_cluster import DescribeClusterHandler
from barnabas_gateway.core.handlers.api_61_describe_producers import DescribeProducersHandler
from barnabas_gateway.core.handlers.api_65_describe_transactions import DescribeTransactionsHandler
from barnabas_gateway.core.handlers.api_66_list_transactions import ListTransactionsHandler
from barnabas_gateway.core.handlers.api_74_list_config_resources import ListConfigResourcesHandler
from barnabas_gateway.core.handlers.api_75_describe_topic_partitions import DescribeTopicPartitionsHandler
from barnabas_gateway.core.requests.admin_request import AdminHandler
from barnabas_gateway.core.requests.controller_request import ControllerHandler
from barnabas_gateway.core.requests.group_member_request import MemberHandler
from barnabas_gateway.core.requests.group_request import GroupHandler
from barnabas_gateway.core.requests.handler import Handler
from barnabas_gateway.core.requests.token_request import TokenHandler

SERVED_ALONE: Final[tuple[type[Handler], ...]] = (
    SaslHandshakeHandler,
    ApiVersionsHandler,
    SaslAuthenticateHandler,
    DescribeAclsHandler,
    ListPartitionReassignmentsHandler,
    DescribeClientQuotasHandler,
    DescribeUserScramCredentialsHandler,
    DescribeClusterHandler,
    ListConfigResourcesHandler,
    DescribeTopicPartitionsHandler,
)
"""APIs that a gateway answers from its own state."""
SERVED_BY_CONTROLLER: Final[tuple[type[ControllerHandler], ...]] = (
    MetadataHandler,
    CreateTopicsHandler,
    DeleteTopicsHandler,
    CreateAclsHandler,
    DeleteAclsHandler,
    AlterConfigsHandler,
    CreatePartitionsHandler,
    ElectLeadersHandler,
    AlterPartitionReassignmentsHandler,
    AlterClientQuotasHandler,
    AlterUserScramCredentialsHandler,
    UpdateFeaturesHandler,
)
SERVED_FOR_TOKENS: Final[tuple[type[TokenHandler], ...]] = (
    CreateDelegationTokenHandler,
    RenewDelegationTokenHandler,
    ExpireDelegationTokenHandler,
    DescribeDelegationTokenHandler,
)
"""APIs of delegation tokens, which the controller changes and the gateway has the secret of."""
SERVED_BY_LOGSTORES: Final[tuple[type[AdminHandler], ...]] = (
    DeleteRecordsHandler,
    OffsetForLeaderEpochHandler,
    DescribeConfigsHandler,
    AlterReplicaLogDirsHandler,
    DescribeLogDirsHandler,
    DescribeProducersHandler,
)
SERVED_BY_COORDINATORS: Final[tuple[type[GroupHandler], ...]] = (
    OffsetCommitHandler,
    OffsetFetchHandler,
    HeartbeatHandler,
    LeaveGroupHandler,
    DescribeGroupsHandler,
    ListGroupsHandler,
    DeleteGroupsHandler,
    OffsetDeleteHandler,
)
SERVED_FOR_TRANSACTIONS: Final[tuple[type[GroupHandler], ...]] = (
    AddPartitionsToTxnHandler,
    EndTxnHandler,
    WriteTxnMarkersHandler,
    DescribeTransactionsHandler,
)
"""APIs that the coordinators of transactional ids answer."""
SERVED_AFTER_A_WAIT: Final[tuple[type[MemberHandler], ...]] = (
    JoinGroupHandler,
    SyncGroupHandler,
)
"""APIs that a group's coordinator answers, perhaps after the other members have joined."""

_SERVED: Final[tuple[type[Handler], ...]] = (
    ProduceHandler,
    FetchHandler,
    ListOffsetsHandler,
    FindCoordinatorHandler,
    InitProducerIdHandler,
    AddOffsetsToTxnHandler,
    TxnOffsetCommitHandler,
    IncrementalAlterConfigsHandler,
    ListTransactionsHandler,
    *SERVED_ALONE,
    *SERVED_BY_CONTROLLER,
    *SERVED_FOR_TOKENS,
    *SERVED_BY_LOGSTORES,
    *SERVED_BY_COORDINATORS,
    *SERVED_FOR_TRANSACTIONS,
    *SERVED_AFTER_A_WAIT,
)

HANDLERS: Final[dict[int, type[Handler]]] = {
    int(handler.api_key): handler for handler in sorted(_SERVED, key=lambda handler: handler.api_key)
}
"""The class that serves each API key; its module states the contract."""


def served_versions() -> dict[int, tuple[int, int]]:
    """Return the first and the last supported version, by API key."""
    return {api_key: (handler.version_min, handler.version_max) for api_key, handler in HANDLERS.items()}
