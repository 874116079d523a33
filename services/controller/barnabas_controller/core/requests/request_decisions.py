"""What each request of a member or an operator changes: its answer, and the Txns that make that true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias, assert_never

from barnabas.cluster.delegation_tokens import AlterDelegationTokenRequest
from barnabas.cluster.features import UpdateFeaturesRequest
from barnabas.cluster.keys import ProducerIdsRecord
from barnabas.cluster.messages import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterReassignmentsRequest,
    AlterReassignmentsResponse,
    CreateAclsRequest,
    CreateAclsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from barnabas.cluster.quotas.entities import AlterClientQuotasRequest, AlterClientQuotasResponse
from barnabas.cluster.scram import AlterScramCredentialsRequest, AlterScramCredentialsResponse
from barnabas.wire.errors import ErrorCode
from barnabas.wire.primitives import Steps
from barnabas_controller.core.elections.elections_on_demand import LeadersOnDemand
from barnabas_controller.core.elections.min_isr_changes import MinInsyncReplicasChanges
from barnabas_controller.core.elections.reassignments import Reassignments
from barnabas_controller.core.members.liveness import LogstoreLiveness
from barnabas_controller.core.operations.node_administration import NodeAdministration
from barnabas_controller.core.requests.request_answers import Request, Response, not_done
from barnabas_controller.core.state.chunk_changes import PartitionKey
from barnabas_controller.core.state.image import ControllerImage
from barnabas_controller.core.state.operator_requests import DrainNode, PauseBalance, RemoveNode, ReturnNode
from barnabas_controller.core.state.partition_changes import Liveness
from barnabas_controller.core.state.writes import Step, Write, pack, put, written
from barnabas_controller.core.topics.acl_changes import create_acls, delete_acls
from barnabas_controller.core.topics.config_changes import alter_configs
from barnabas_controller.core.topics.feature_changes import update_features
from barnabas_controller.core.topics.partition_creation import create_partitions
from barnabas_controller.core.topics.quota_changes import alter_client_quotas
from barnabas_controller.core.topics.scram_changes import alter_scram_credentials
from barnabas_controller.core.topics.token_changes import TokenChanges
from barnabas_controller.core.topics.topic_creation import TopicCreation
from barnabas_controller.core.topics.topic_deletion import delete_topics

PRODUCER_ID_BLOCK = 1000
EVERY_PARTITION = -1
"""Of a topic, in the place of a partition's number."""


@dataclass(slots=True)
class Waiting:
    """A request in progress: its future answer, and the conditions under which it is given."""

    request_id: int
    request: Request
    deadline_ms: int
    response: Response
    # By the position of the result: the partition whose leader has to lead it, or EVERY_PARTITION of a topic.
    must_be_led: list[PartitionKey | None] = field(default_factory=list)
    # All logstores that are up, for their own partitions or to describe those of others.
    logstores_must_know: bool = False
    gateways_must_know: bool = True
    # The revision that makes the answer true; -1 until it is written.
    revision: int = -1


CreateTopics: TypeAlias = Callable[[CreateTopicsRequest, Liveness], Steps[TopicCreation]]
Decision: TypeAlias = tuple[Waiting, list[Step]]


class RequestDecisions:
    def __init__(
        self,
        image: ControllerImage,
        create_topics: CreateTopics,
        liveness: LogstoreLiveness,
        elections: LeadersOnDemand,
        reassignments: Reassignments,
        nodes: NodeAdministration,
        min_isr_changes: MinInsyncReplicasChanges,
        tokens: TokenChanges,
    ) -> None:
        self._image = image
        self._create_topics = create_topics
        self._liveness = liveness
        self._elections = elections
        self._reassignments = reassignments
        self._nodes = nodes
        self._min_isr_changes = min_isr_changes
        self._tokens = tokens

    def decide(self, request_id: int, request: Request, deadline_ms: int, known_revision: int) -> Steps[Decision]:
        """Return what is answered, and the Txns that make it true.

        `known_revision` is that of the answer where nothing is written: the gateway waits for it, and must not wait for
        one that it is never sent.
        """
        image, live = self._image, self._liveness.current()
        waiting = partial(Waiting, request_id, request, deadline_ms)
        match request:
            case CreateTopicsRequest():
                creation = yield from self._create_topics(request, live)
                ids = [b"" if request.validate_only or each.error_code else each.topic_id for each in creation.results]
                response = CreateTopicsResponse(creation.results, known_revision)
                return waiting(response, _whole(ids)), _fixed(creation.writes)
            case DeleteTopicsRequest():
                deletion = delete_topics(image, request)
                return waiting(DeleteTopicsResponse(deletion.results, known_revision)), _fixed(deletion.writes)
            case AlterConfigsRequest():
                changes = alter_configs(image, request)
                configs_altered = AlterConfigsResponse(changes.results, known_revision)
                min_isr_steps = self._min_isr_changes.begin(changes.min_isr_topic_ids)
                return waiting(configs_altered, logstores_must_know=True), [*min_isr_steps, *changes.steps]
            case CreatePartitionsRequest():
                growth = yield from create_partitions(image, request, live)
                answer = CreatePartitionsResponse(growth.results, known_revision)
                return waiting(answer, _whole(growth.topic_ids)), growth.steps
            case ElectLeadersRequest():
                elections = self._elections.elect(request)
                elected = ElectLeadersResponse(elections.results, known_revision)
                return waiting(elected, elections.elected), elections.steps
            case AlterReassignmentsRequest():
                moves = self._reassignments.alter(request)
                moved = AlterReassignmentsResponse(moves.results, known_revision)
                return waiting(moved), moves.steps
            case CreateAclsRequest():
                created, writes = create_acls(image, request)
                return waiting(CreateAclsResponse(created, known_revision)), _fixed(writes)
            case DeleteAclsRequest():
                deleted, writes = yield from delete_acls(image, request)
                return waiting(DeleteAclsResponse(deleted, known_revision)), _fixed(writes)
            case AlterScramCredentialsRequest():
                altered, writes = alter_scram_credentials(image, request)
                answered = AlterScramCredentialsResponse(altered, known_revision)
                return waiting(answered), _fixed(writes)
            case AlterClientQuotasRequest():
                limited, writes = alter_client_quotas(image, request)
                quotas_altered = AlterClientQuotasResponse(limited, known_revision)
                return waiting(quotas_altered), _fixed(writes)
            case AlterDelegationTokenRequest():
                changed, writes = self._tokens.alter(request)
                return waiting(replace(changed, revision=known_revision)), _fixed(writes)
            case UpdateFeaturesRequest():
                updated, writes = update_features(image, request, known_revision)
                return waiting(updated), _fixed(writes)
            case AllocateProducerIdsRequest() if image.keys.producer_ids in image.unreadable:
                # From the beginning they would be ids that others have.
                unreadable = f"{image.keys.producer_ids} in etcd is unreadable"
                return waiting(not_done(request, unreadable)), []
            case AllocateProducerIdsRequest():
                first = image.next_producer_id
                block = AllocateProducerIdsResponse(ErrorCode.NONE, first, PRODUCER_ID_BLOCK)
                record = ProducerIdsRecord(first + PRODUCER_ID_BLOCK)
                return waiting(block, gateways_must_know=False), _fixed([put(image.keys.producer_ids, record)])
            case DrainNode() | ReturnNode() | RemoveNode() | PauseBalance():
                outcome, steps = self._nodes.decide(request)
                return waiting(outcome), steps
            case _:
                assert_never(request)


def _whole(topic_ids: list[bytes]) -> list[PartitionKey | None]:
    return [(topic_id, EVERY_PARTITION) if topic_id else None for topic_id in topic_ids]


def _fixed(writes: list[Write]) -> list[Step]:
    return [written(txn) for txn in pack(writes)]
