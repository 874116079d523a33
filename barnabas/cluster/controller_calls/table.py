"""The calls to the active controller, one row for each.

`MembershipClient` sends a request by its row. Gateways pass it between their processes and audit it by the row, the
controller serves it, charges for it and refuses it by the row, and `service_permissions` takes the callers from there.
Only the decision about a request (the controller's `request_decisions`) and the handler that asks are elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from barnabas.cluster.acls import describe_acl
from barnabas.cluster.controller_calls.method import GATEWAY, LOGSTORE, Change, ControllerMethod, no_changes
from barnabas.cluster.delegation_tokens import AlterDelegationTokenRequest, AlterDelegationTokenResponse
from barnabas.cluster.features import UpdateFeaturesRequest, UpdateFeaturesResponse
from barnabas.cluster.messages import (
    AclResult,
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterConfigsResult,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterReassignmentsRequest,
    AlterReassignmentsResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    CreateAclsRequest,
    CreateAclsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsResult,
    CreateTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DeletedAcls,
    DeleteTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    ElectionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ReassignmentResult,
)
from barnabas.cluster.quotas.entities import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    QuotaAlteration,
    QuotaAlterationResult,
)
from barnabas.cluster.quotas.shares import LEASE_MS, ShareQuotasRequest, ShareQuotasResponse
from barnabas.cluster.scram import AlterScramCredentialsRequest, AlterScramCredentialsResponse, ScramUserResult
from barnabas.wire.errors import ErrorCode

ClusterRequest: TypeAlias = (
    CreateTopicsRequest
    | DeleteTopicsRequest
    | AllocateProducerIdsRequest
    | AlterConfigsRequest
    | CreatePartitionsRequest
    | ElectLeadersRequest
    | AlterReassignmentsRequest
    | CreateAclsRequest
    | DeleteAclsRequest
    | AlterScramCredentialsRequest
    | AlterClientQuotasRequest
    | AlterDelegationTokenRequest
    | UpdateFeaturesRequest
)
"""Requests of gateways for their clients; the classes below answer them, in the same order."""

ClusterResponse: TypeAlias = (
    CreateTopicsResponse
    | DeleteTopicsResponse
    | AllocateProducerIdsResponse
    | AlterConfigsResponse
    | CreatePartitionsResponse
    | ElectLeadersResponse
    | AlterReassignmentsResponse
    | CreateAclsResponse
    | DeleteAclsResponse
    | AlterScramCredentialsResponse
    | AlterClientQuotasResponse
    | AlterDelegationTokenResponse
    | UpdateFeaturesResponse
)

LogstoreRequest: TypeAlias = AlterPartitionRequest | ControlledShutdownRequest
"""Requests of logstores for themselves."""

MembershipRequest: TypeAlias = ClusterRequest | LogstoreRequest | ShareQuotasRequest

MembershipResponse: TypeAlias = (
    ClusterResponse | AlterPartitionResponse | ControlledShutdownResponse | ShareQuotasResponse
)

_LATE: Final = ErrorCode.REQUEST_TIMED_OUT
_NO_TOPIC_ID: Final = bytes(16)
_NOT_WRITTEN: Final = -1
"""The revision of an answer to what was not done."""
_RESOURCES: Final = {2: "TOPIC", 4: "BROKER", 32: "GROUP"}


def _in_steps(_: object) -> int:
    return 0


CREATE_TOPICS: Final = ControllerMethod(
    CreateTopicsRequest,
    CreateTopicsResponse,
    lambda request, why: CreateTopicsResponse(
        [CreateTopicResult(each.topic, _NO_TOPIC_ID, _LATE, why) for each in request.topics], _NOT_WRITTEN
    ),
    cost=_in_steps,
    asked=lambda request: (Change("topic created", each.topic) for each in request.topics),
    changed=lambda _, answer: (Change("topic created", each.topic, each.error_code) for each in answer.results),
)
"""Answered when leaders and gateways know the topics."""


def _deleted_topics(request: DeleteTopicsRequest, answer: DeleteTopicsResponse) -> Iterator[Change]:
    for asked, deleted in zip(request.topics, answer.results, strict=False):
        yield Change("topic deleted", deleted.topic or asked.topic, deleted.error_code)


DELETE_TOPICS: Final = ControllerMethod(
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    lambda request, why: DeleteTopicsResponse(
        [DeleteTopicResult(each.topic, each.topic_id, _LATE, why) for each in request.topics], _NOT_WRITTEN
    ),
    cost=lambda request: len(request.topics),
    asked=lambda request: (Change("topic deleted", each.topic or each.topic_id.hex()) for each in request.topics),
    changed=_deleted_topics,
)
"""Answered when gateways have removed the topics."""

ALLOCATE_PRODUCER_IDS: Final = ControllerMethod(
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    lambda _, __: AllocateProducerIdsResponse(_LATE, first_producer_id=-1, length=0),
    callers=GATEWAY | LOGSTORE,
    is_repeatable=True,
    timeout_ms=5000,
)
"""Answered with a unique block of producer ids: one whose answer is lost stays unused."""


def _altered_configs(request: AlterConfigsRequest) -> Iterator[Change]:
    for altered in request.resources:
        kind = _RESOURCES.get(altered.resource_type, str(altered.resource_type))
        keys = ",".join(change.name for change in altered.changes)
        yield Change("config changed", f"{kind} {altered.resource_name}", detail=keys)


ALTER_CONFIGS: Final = ControllerMethod(
    AlterConfigsRequest,
    AlterConfigsResponse,
    lambda request, why: AlterConfigsResponse(
        [AlterConfigsResult(_LATE, why) for _ in request.resources], _NOT_WRITTEN
    ),
    cost=lambda request: sum(1 + len(each.changes) for each in request.resources),
    asked=_altered_configs,
)
"""Answered when all affected services have the configs."""

CREATE_PARTITIONS: Final = ControllerMethod(
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    lambda request, why: CreatePartitionsResponse(
        [CreatePartitionsResult(_LATE, why) for _ in request.topics], _NOT_WRITTEN
    ),
    cost=_in_steps,
    asked=lambda request: (Change("partitions created", each.topic, detail=str(each.count)) for each in request.topics),
)
"""Answered when leaders and gateways know the partitions."""

ELECT_LEADERS: Final = ControllerMethod(
    ElectLeadersRequest,
    ElectLeadersResponse,
    lambda request, why: ElectLeadersResponse(
        [ElectionResult(each.topic, each.partition, _LATE, why) for each in request.partitions], _NOT_WRITTEN, _LATE
    ),
    cost=lambda request: len(request.partitions),
)
"""Answered when the new leaders lead. It changes nothing that is kept, so the audit has no record of it."""


def _moved_replicas(request: AlterReassignmentsRequest) -> Iterator[Change]:
    for each in request.partitions:
        replicas = ",".join(map(str, each.replicas))
        yield Change("replicas moved", f"{each.topic}-{each.partition}", detail=replicas)


ALTER_REASSIGNMENTS: Final = ControllerMethod(
    AlterReassignmentsRequest,
    AlterReassignmentsResponse,
    lambda request, why: AlterReassignmentsResponse(
        [ReassignmentResult(_LATE, why) for _ in request.partitions], _NOT_WRITTEN
    ),
    cost=lambda request: sum(1 + len(each.replicas) // 10 for each in request.partitions),
    asked=_moved_replicas,
)
"""Answered when the moves have begun."""

CREATE_ACLS: Final = ControllerMethod(
    CreateAclsRequest,
    CreateAclsResponse,
    lambda request, why: CreateAclsResponse([AclResult(_LATE, why) for _ in request.acls], _NOT_WRITTEN),
    cost=lambda request: len(request.acls),
    asked=lambda request: (Change("ACL created", describe_acl(acl)) for acl in request.acls),
    changed=no_changes,
)
"""Answered when gateways decide by the ACLs. Not repeatable: they may have been deleted since. Those of an answer have
audit records of their own, which say what they allow.
"""

DELETE_ACLS: Final = ControllerMethod(
    DeleteAclsRequest,
    DeleteAclsResponse,
    lambda request, why: DeleteAclsResponse([DeletedAcls(_LATE, why) for _ in request.filters], _NOT_WRITTEN),
    cost=_in_steps,
    asked=lambda request: (Change("ACL deleted", str(each)) for each in request.filters),
    changed=no_changes,
)
"""Answered when gateways decide without the ACLs. Not repeatable: the answer names what was deleted, and another one
would find nothing.
"""


def _altered_credentials(request: AlterScramCredentialsRequest) -> Iterator[Change]:
    yield from (Change("credential deleted", each.user) for each in request.deletions)
    yield from (Change("credential set", each.user) for each in request.upsertions)


def _answered_credentials(
    request: AlterScramCredentialsRequest, answer: AlterScramCredentialsResponse
) -> Iterator[Change]:
    deleted = {each.user for each in request.deletions}
    for each in answer.results:
        yield Change("credential deleted" if each.user in deleted else "credential set", each.user, each.error_code)


ALTER_SCRAM_CREDENTIALS: Final = ControllerMethod(
    AlterScramCredentialsRequest,
    AlterScramCredentialsResponse,
    lambda request, why: AlterScramCredentialsResponse(
        [ScramUserResult(user, _LATE, why) for user in request.users()], _NOT_WRITTEN
    ),
    cost=lambda request: len(request.deletions) + len(request.upsertions),
    asked=_altered_credentials,
    changed=_answered_credentials,
)
"""Answered when all gateways know the credentials."""


def _altered_quotas(request: AlterClientQuotasRequest) -> Iterator[Change]:
    for each in request.alterations:
        yield Change("quota changed", _entity(each), detail=",".join(change.key for change in each.changes))


def _entity(alteration: QuotaAlteration) -> str:
    return ",".join(f"{part.entity_type}={part.entity_name or '<default>'}" for part in alteration.entity)


ALTER_CLIENT_QUOTAS: Final = ControllerMethod(
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    lambda request, why: AlterClientQuotasResponse(
        [QuotaAlterationResult(_LATE, why) for _ in request.alterations], _NOT_WRITTEN
    ),
    cost=lambda request: sum(1 + len(each.changes) for each in request.alterations),
    asked=_altered_quotas,
)
"""Answered when all gateways know the quotas."""


def _altered_token(request: AlterDelegationTokenRequest) -> Iterator[Change]:
    if request.creation is not None:
        token = request.creation.token
        yield Change("delegation token created", token.token_id if token is not None else "")
    else:
        yield Change("delegation token renewed" if request.renewal is not None else "delegation token expired", "")


ALTER_DELEGATION_TOKEN: Final = ControllerMethod(
    AlterDelegationTokenRequest,
    AlterDelegationTokenResponse,
    lambda _, why: AlterDelegationTokenResponse(_LATE, why),
    asked=_altered_token,
)
"""Answered when all gateways know the change."""

UPDATE_FEATURES: Final = ControllerMethod(
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    lambda _, why: UpdateFeaturesResponse(_LATE, why, _NOT_WRITTEN),
    asked=lambda request: (Change("feature changed", each.feature, detail=str(each.level)) for each in request.updates),
)
"""Answered when all gateways know the levels."""

ALTER_PARTITION: Final = ControllerMethod(
    AlterPartitionRequest,
    AlterPartitionResponse,
    lambda _, __: AlterPartitionResponse(_LATE),
    callers=LOGSTORE,
    timeout_ms=5000,
)
"""Answered when the ISRs are committed. Its leader repeats a request that has timed out."""

CONTROLLED_SHUTDOWN: Final = ControllerMethod(
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    lambda _, __: ControlledShutdownResponse(_LATE),
    callers=LOGSTORE,
    is_repeatable=True,
    timeout_ms=10_000,
)
"""Answered when others lead what they can lead. It requests the same every time."""

SHARE_QUOTAS: Final = ControllerMethod(
    ShareQuotasRequest, ShareQuotasResponse, lambda _, __: ShareQuotasResponse(), timeout_ms=LEASE_MS
)
"""Answered at once with the shares that are granted. It is asked once, since another report follows anyway."""

CONTROLLER_CALLS: Final[tuple[ControllerMethod[Any, Any], ...]] = (
    CREATE_TOPICS,
    DELETE_TOPICS,
    ALLOCATE_PRODUCER_IDS,
    ALTER_CONFIGS,
    CREATE_PARTITIONS,
    ELECT_LEADERS,
    ALTER_REASSIGNMENTS,
    CREATE_ACLS,
    DELETE_ACLS,
    ALTER_SCRAM_CREDENTIALS,
    ALTER_CLIENT_QUOTAS,
    ALTER_DELEGATION_TOKEN,
    UPDATE_FEATURES,
    ALTER_PARTITION,
    CONTROLLED_SHUTDOWN,
    SHARE_QUOTAS,
)
"""All calls, in the order of the unions; a call's place is its number between the processes of a gateway."""

_BY_REQUEST: Final = {each.request: each for each in CONTROLLER_CALLS}


def method_of(request: MembershipRequest) -> ControllerMethod[Any, Any]:
    """Return the row of a request."""
    return _BY_REQUEST[type(request)]
