"""What a client has asked the controller or a broker to change, and what came of it, for records of the audit.

Names of keys are recorded, not values: a broker's config can be a password, a credential is one. ACLs have records of
their own, which say what an ACL allows; elections change nothing that is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from barnabas.cluster.acls import describe_acl
from barnabas.cluster.administration import AlterBrokerLoggersRequest, AlterBrokerLoggersResponse
from barnabas.cluster.delegation_tokens import AlterDelegationTokenRequest, AlterDelegationTokenResponse
from barnabas.cluster.features import UpdateFeaturesRequest, UpdateFeaturesResponse
from barnabas.cluster.messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterReassignmentsRequest,
    AlterReassignmentsResponse,
    CreateAclsRequest,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteAclsRequest,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from barnabas.cluster.quotas.entities import AlterClientQuotasRequest, AlterClientQuotasResponse, QuotaAlteration
from barnabas.cluster.scram import AlterScramCredentialsRequest, AlterScramCredentialsResponse
from barnabas_gateway.core.model.outputs import ControllerAnswer, ControllerRequest

AuditedRequest: TypeAlias = ControllerRequest | AlterBrokerLoggersRequest
AuditedAnswer: TypeAlias = ControllerAnswer | AlterBrokerLoggersResponse

_RESOURCES = {2: "TOPIC", 4: "BROKER", 32: "GROUP"}


@dataclass(slots=True, frozen=True)
class Change:
    """One thing that was to be changed; `error_code` 0: it was. `resource` says which, `detail` what of it."""

    event: str
    resource: str
    error_code: int
    detail: str = ""


def changes_of(request: AuditedRequest, answer: AuditedAnswer) -> Iterator[Change]:
    """Yield a change for each element of the request, in its order; nothing for what is only validated."""
    match request:
        case CreateTopicsRequest(validate_only=False):
            assert isinstance(answer, CreateTopicsResponse)
            for created in answer.results:
                yield Change("topic created", created.topic, created.error_code)
        case DeleteTopicsRequest():
            assert isinstance(answer, DeleteTopicsResponse)
            for asked, deleted in zip(request.topics, answer.results, strict=False):
                yield Change("topic deleted", deleted.topic or asked.topic, deleted.error_code)
        case CreatePartitionsRequest(validate_only=False):
            assert isinstance(answer, CreatePartitionsResponse)
            for grown, result in zip(request.topics, answer.results, strict=False):
                yield Change("partitions created", grown.topic, result.error_code, str(grown.count))
        case AlterConfigsRequest(validate_only=False):
            assert isinstance(answer, AlterConfigsResponse)
            for altered, outcome in zip(request.resources, answer.results, strict=False):
                kind = _RESOURCES.get(altered.resource_type, str(altered.resource_type))
                keys = ",".join(change.name for change in altered.changes)
                yield Change("config changed", f"{kind} {altered.resource_name}", outcome.error_code, keys)
        case AlterBrokerLoggersRequest(validate_only=False):
            assert isinstance(answer, AlterBrokerLoggersResponse)
            loggers = ",".join(change.name for change in request.changes)
            yield Change("config changed", f"BROKER_LOGGER {request.node_id}", answer.error_code, loggers)
        case AlterReassignmentsRequest():
            assert isinstance(answer, AlterReassignmentsResponse)
            for moved, decided in zip(request.partitions, answer.results, strict=False):
                replicas = ",".join(map(str, moved.replicas))
                yield Change("replicas moved", f"{moved.topic}-{moved.partition}", decided.error_code, replicas)
        case AlterScramCredentialsRequest():
            assert isinstance(answer, AlterScramCredentialsResponse)
            deleted_users = {each.user for each in request.deletions}
            for user in answer.results:
                event = "credential deleted" if user.user in deleted_users else "credential set"
                yield Change(event, user.user, user.error_code)
        case AlterClientQuotasRequest(validate_only=False):
            assert isinstance(answer, AlterClientQuotasResponse)
            for alteration, done in zip(request.alterations, answer.results, strict=False):
                keys = ",".join(change.key for change in alteration.changes)
                yield Change("quota changed", _entity(alteration), done.error_code, keys)
        case AlterDelegationTokenRequest():
            assert isinstance(answer, AlterDelegationTokenResponse)
            yield _token_change(request, answer.error_code)
        case UpdateFeaturesRequest(validate_only=False):
            assert isinstance(answer, UpdateFeaturesResponse)
            for update in request.updates:
                yield Change("feature changed", update.feature, answer.error_code, str(update.level))


def changes_asked_for(request: AuditedRequest) -> Iterator[tuple[str, str]]:
    """Yield event and resource of each element of a request whose answer is lost; nothing for what changes nothing."""
    match request:
        case CreateTopicsRequest(validate_only=False):
            yield from (("topic created", new.topic) for new in request.topics)
        case DeleteTopicsRequest():
            yield from (("topic deleted", each.topic or each.topic_id.hex()) for each in request.topics)
        case CreatePartitionsRequest(validate_only=False):
            yield from (("partitions created", grown.topic) for grown in request.topics)
        case AlterConfigsRequest(validate_only=False):
            for altered in request.resources:
                kind = _RESOURCES.get(altered.resource_type, str(altered.resource_type))
                yield "config changed", f"{kind} {altered.resource_name}"
        case AlterBrokerLoggersRequest(validate_only=False):
            yield "config changed", f"BROKER_LOGGER {request.node_id}"
        case AlterReassignmentsRequest():
            yield from (("replicas moved", f"{each.topic}-{each.partition}") for each in request.partitions)
        case AlterScramCredentialsRequest():
            yield from (("credential deleted", deletion.user) for deletion in request.deletions)
            yield from (("credential set", upsertion.user) for upsertion in request.upsertions)
        case AlterClientQuotasRequest(validate_only=False):
            yield from (("quota changed", _entity(alteration)) for alteration in request.alterations)
        case AlterDelegationTokenRequest():
            change = _token_change(request, 0)
            yield change.event, change.resource
        case UpdateFeaturesRequest(validate_only=False):
            yield from (("feature changed", update.feature) for update in request.updates)
        case CreateAclsRequest():
            yield from (("ACL created", describe_acl(acl)) for acl in request.acls)
        case DeleteAclsRequest():
            yield from (("ACL deleted", str(filter_)) for filter_ in request.filters)


def _entity(alteration: QuotaAlteration) -> str:
    return ",".join(f"{part.entity_type}={part.entity_name or '<default>'}" for part in alteration.entity)


def _token_change(request: AlterDelegationTokenRequest, error_code: int) -> Change:
    if request.creation is not None:
        token = request.creation.token
        return Change("delegation token created", token.token_id if token is not None else "", error_code)
    event = "delegation token renewed" if request.renewal is not None else "delegation token expired"
    return Change(event, "", error_code)
