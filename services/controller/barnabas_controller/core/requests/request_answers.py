"""Answers to requests that were not done, or not in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias, TypeVar, assert_never

from barnabas.cluster.delegation_tokens import AlterDelegationTokenRequest, AlterDelegationTokenResponse
from barnabas.cluster.features import UpdateFeaturesRequest, UpdateFeaturesResponse
from barnabas.cluster.messages import (
    AclResult,
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterConfigsResult,
    AlterReassignmentsRequest,
    AlterReassignmentsResponse,
    ClusterRequest,
    ClusterResponse,
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
from barnabas.cluster.quotas.entities import AlterClientQuotasRequest, AlterClientQuotasResponse, QuotaAlterationResult
from barnabas.cluster.scram import AlterScramCredentialsRequest, AlterScramCredentialsResponse, ScramUserResult
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.state.operator_requests import (
    DrainNode,
    OperatorRequest,
    OperatorResponse,
    Outcome,
    PauseBalance,
    RemoveNode,
    ReturnNode,
)
from barnabas_controller.core.topics.topic_creation import NO_TOPIC_ID

Request: TypeAlias = ClusterRequest | OperatorRequest
Response: TypeAlias = ClusterResponse | OperatorResponse


def at_revision(response: Response, revision: int) -> Response:
    """Return the answer with the revision at which it holds."""
    if isinstance(response, AllocateProducerIdsResponse):
        return response
    return replace(response, revision=revision)


def elements_of(request: Request) -> int:
    """Estimate how much there is to decide; gateways count in the same way what they put into one request."""
    match request:
        case CreateTopicsRequest() | CreatePartitionsRequest() | DeleteAclsRequest():
            return 0  # they are decided in steps, each with its own cost
        case DeleteTopicsRequest():
            return len(request.topics)
        case CreateAclsRequest():
            return len(request.acls)
        case AlterScramCredentialsRequest():
            return len(request.deletions) + len(request.upsertions)
        case AlterClientQuotasRequest():
            return sum(1 + len(each.changes) for each in request.alterations)
        case AlterConfigsRequest():
            return sum(1 + len(each.changes) for each in request.resources)
        case ElectLeadersRequest():
            return len(request.partitions)
        case AlterReassignmentsRequest():
            return sum(1 + len(each.replicas) // 10 for each in request.partitions)
        case _:
            return 1


def not_done(request: Request, why: str) -> Response:
    """Return the answer to a request that was not begun: it has certainly changed nothing."""
    code = ErrorCode.REQUEST_TIMED_OUT
    match request:
        case CreateTopicsRequest():
            not_created = [CreateTopicResult(each.topic, NO_TOPIC_ID, code, why) for each in request.topics]
            return CreateTopicsResponse(not_created, revision=-1)
        case DeleteTopicsRequest():
            not_deleted = [DeleteTopicResult(each.topic, each.topic_id, code, why) for each in request.topics]
            return DeleteTopicsResponse(not_deleted, revision=-1)
        case AlterConfigsRequest():
            return AlterConfigsResponse([AlterConfigsResult(code, why) for _ in request.resources], revision=-1)
        case CreatePartitionsRequest():
            return CreatePartitionsResponse([CreatePartitionsResult(code, why) for _ in request.topics], revision=-1)
        case ElectLeadersRequest():
            not_elected = [ElectionResult(each.topic, each.partition, code, why) for each in request.partitions]
            return ElectLeadersResponse(not_elected, revision=-1, error_code=code)
        case AlterReassignmentsRequest():
            return AlterReassignmentsResponse([ReassignmentResult(code, why) for _ in request.partitions], revision=-1)
        case CreateAclsRequest():
            return CreateAclsResponse([AclResult(code, why) for _ in request.acls], revision=-1)
        case DeleteAclsRequest():
            return DeleteAclsResponse([DeletedAcls(code, why) for _ in request.filters], revision=-1)
        case AlterScramCredentialsRequest():
            not_altered = [ScramUserResult(user, code, why) for user in request.users()]
            return AlterScramCredentialsResponse(not_altered, revision=-1)
        case AlterClientQuotasRequest():
            return AlterClientQuotasResponse(
                [QuotaAlterationResult(code, why) for _ in request.alterations], revision=-1
            )
        case AlterDelegationTokenRequest():
            return AlterDelegationTokenResponse(code, why)
        case UpdateFeaturesRequest():
            return UpdateFeaturesResponse(code, why, revision=-1)
        case AllocateProducerIdsRequest():
            return AllocateProducerIdsResponse(code, first_producer_id=-1, length=0)
        case DrainNode() | ReturnNode() | RemoveNode() | PauseBalance():
            return OperatorResponse(Outcome.TIMED_OUT, why)
        case _:
            assert_never(request)


def timed_out(response: Response, revision: int, are_led: Sequence[bool]) -> Response:
    """What has not taken effect by the deadline, but still may, has timed out; a gateway that lags does not count.

    `revision`: of the last write, -1 if something is not written yet. `are_led`: by position of the result, whether the
    leaders that it waits for lead.
    """
    # A logstore that has not heard of a config yet will: that is no reason to report what is done as not done.
    is_written = [revision >= 0] * _count(response)
    match response:
        case CreateTopicsResponse():
            return CreateTopicsResponse(_late(response.results, are_led), revision)
        case DeleteTopicsResponse():
            return DeleteTopicsResponse(_late(response.results, is_written), revision)
        case AlterConfigsResponse():
            return AlterConfigsResponse(_late(response.results, is_written), revision)
        case CreatePartitionsResponse():
            return CreatePartitionsResponse(_late(response.results, are_led), revision)
        case ElectLeadersResponse():
            return ElectLeadersResponse(_late(response.results, are_led), revision)
        case AlterReassignmentsResponse():
            return AlterReassignmentsResponse(_late(response.results, is_written), revision)
        case CreateAclsResponse():
            return CreateAclsResponse(_late(response.results, is_written), revision)
        case DeleteAclsResponse():
            return DeleteAclsResponse(_late(response.results, is_written), revision)
        case AlterScramCredentialsResponse():
            return AlterScramCredentialsResponse(_late(response.results, is_written), revision)
        case AlterClientQuotasResponse():
            return AlterClientQuotasResponse(_late(response.results, is_written), revision)
        case AlterDelegationTokenResponse():
            if revision >= 0:
                return response
            return AlterDelegationTokenResponse(ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT.message)
        case UpdateFeaturesResponse():
            if revision >= 0:
                return response
            return UpdateFeaturesResponse(ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT.message, -1)
        case AllocateProducerIdsResponse():
            return AllocateProducerIdsResponse(ErrorCode.REQUEST_TIMED_OUT, first_producer_id=-1, length=0)
        case OperatorResponse():
            # What is written is done, although a gateway may not have heard of it.
            return response if revision >= 0 else OperatorResponse(Outcome.TIMED_OUT, "it is not written yet")
        case _:
            assert_never(response)


def _count(response: Response) -> int:
    if isinstance(
        response, AllocateProducerIdsResponse | OperatorResponse | AlterDelegationTokenResponse | UpdateFeaturesResponse
    ):
        return 0
    return len(response.results)


Result = TypeVar(
    "Result",
    CreateTopicResult,
    DeleteTopicResult,
    AlterConfigsResult,
    CreatePartitionsResult,
    ElectionResult,
    ReassignmentResult,
    AclResult,
    DeletedAcls,
    ScramUserResult,
    QuotaAlterationResult,
)


def _late(results: Sequence[Result], are_true: Sequence[bool]) -> list[Result]:
    code = ErrorCode.REQUEST_TIMED_OUT
    return [
        result if result.error_code or is_true else replace(result, error_code=code, error_message=code.message)
        for result, is_true in zip(results, are_true, strict=True)
    ]
