"""TxnOffsetCommit, API key 28, versions 0 to 5.

- Needs WRITE of the transactional id, READ of the group, and READ of each topic; topics and partitions that the cluster
  does not have are UNKNOWN_TOPIC_OR_PARTITION. The rest goes to the group's coordinator, which keeps it pending until
  the transaction ends.
- The first one of a transaction in a partition of `__consumer_offsets` is written when the transaction's coordinator
  has confirmed that partition, or from v5 on (`transaction.version` 2) has added it (KIP-890). Errors of that
  coordinator: NETWORK_EXCEPTION and CONCURRENT_TRANSACTIONS become COORDINATOR_LOAD_IN_PROGRESS, which each client
  retries; before v4 TRANSACTION_ABORTABLE is INVALID_TXN_STATE. Before v2 COORDINATOR_LOAD_IN_PROGRESS is
  COORDINATOR_NOT_AVAILABLE.
- An error of the whole group is returned in each partition.

Deviations: a request of more than 500 partitions is INVALID_REQUEST, since it has to be one batch.
"""

from __future__ import annotations

from dataclasses import replace

from barnabas.channel.messages import GroupAnswer
from barnabas.cluster.acls import Operation, ResourceType
from barnabas.cluster.internal_topics import OFFSETS_TOPIC
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import encode_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from barnabas.wire.primitives import Buffer, Steps
from barnabas_gateway.core.backends.coordinator_client import CoordinatorClient, PendingAsk
from barnabas_gateway.core.backends.group_routing import GroupRouting
from barnabas_gateway.core.backends.transaction_verifier import TransactionVerifier, VerifiedTransaction
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.model.containment import end_by
from barnabas_gateway.core.model.topic_names import partitions_of
from barnabas_gateway.core.requests.group_request import (
    GROUP_CALL_BYTES_MAX,
    GROUP_CALL_ELEMENTS_MAX,
    GroupHandler,
    PendingGroupRequest,
    decode_answer,
    group_call,
)
from barnabas_gateway.core.requests.handler import RequestEnvironment

_LOADING_FROM = 2
_ABORTABLE_FROM = 4
_ADDS_FROM = 5
_RETRIED = (ErrorCode.NETWORK_EXCEPTION, ErrorCode.CONCURRENT_TRANSACTIONS)


class PendingTxnOffsetCommit(PendingGroupRequest):
    __slots__ = ("asked", "is_ended", "refused")

    def __init__(self, handler: GroupHandler, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.asked = TxnOffsetCommitRequest()
        """What the coordinator is sent."""
        self.refused: list[TxnOffsetCommitResponseTopic] = []
        self.is_ended = False
        """Nothing waits for the answer of the transaction's coordinator any more."""

    def call(self, verification_guard: int = 0) -> None:
        """Ask the group's coordinator; `verification_guard` is of the coordinator that was asked last."""
        handler, version = self.handler, self.header.api_version
        body = encode_body(self.asked, version)
        if len(body) > GROUP_CALL_BYTES_MAX:
            self.refuse(ErrorCode.INVALID_REQUEST)
            return
        guarded_by = self._coordinator
        self._coordinator = coordinator = handler.group_routing.coordinator_of(self.asked.group_id)
        if coordinator is not None:
            message = group_call(self, coordinator.partition, version, body)
            if coordinator == guarded_by:
                # Another coordinator knows nothing of it, and asks for a confirmation of its own.
                message.verification_guard = verification_guard
            self._ask = handler.coordinators.submit_ask(self, coordinator.node_id, message)
        if self._ask is None:
            self.refuse(ErrorCode.NOT_COORDINATOR)
        else:
            handler.deadlines.schedule(self, handler.clock.now_ms + handler.config.group_call_ms_max)

    def group_answered(self, ask: PendingAsk, answer: GroupAnswer) -> None:
        if not answer.verification_guard or self._coordinator is None:
            super().group_answered(ask, answer)
            return
        handler = self.handler
        assert isinstance(handler, TxnOffsetCommitHandler)
        self._ask = None
        handler.deadlines.unschedule(self)
        guard, asked = answer.verification_guard, self.asked
        transaction = VerifiedTransaction(
            asked.transactional_id,
            asked.producer_id,
            asked.producer_epoch,
            adds=self.header.api_version >= _ADDS_FROM,
        )
        handler.verifier.verify(
            transaction, OFFSETS_TOPIC, self._coordinator.partition, lambda error: self._verified(guard, error)
        )

    def _verified(self, guard: int, error: ErrorCode) -> None:
        if self.is_ended:
            return
        try:
            if not error:
                self.call(guard)
            elif error in _RETRIED:
                self.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            elif error is ErrorCode.TRANSACTION_ABORTABLE and self.header.api_version < _ABORTABLE_FROM:
                self.refuse(ErrorCode.INVALID_TXN_STATE)
            else:
                self.refuse(error)
        except Exception as fault:
            end_by(self, fault)

    def cancel(self) -> None:
        self.is_ended = True
        super().cancel()

    def answer(self, body: Buffer) -> None:
        response = decode_answer(self.header.api_key, self.header.api_version, body)
        assert isinstance(response, TxnOffsetCommitResponse)
        response.topics = [*self.refused, *response.topics]
        self.handler.responder.respond(self, response)

    def refuse(self, error: int) -> None:
        if error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and self.header.api_version < _LOADING_FROM:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        self.handler.responder.begin_steps(self, self._refuse_in_steps(error))

    def _refuse_in_steps(self, error: int) -> Steps[None]:
        """Fail everything that is not answered yet."""
        for topic in self.asked.topics:
            self.refused.append(_refused(topic, error))
            yield 1 + len(topic.partitions)
        self.handler.responder.respond(self, TxnOffsetCommitResponse(topics=self.refused))


class TxnOffsetCommitHandler(GroupHandler):
    api_key = ApiKey.TXN_OFFSET_COMMIT
    request_class = PendingTxnOffsetCommit

    def __init__(
        self,
        environment: RequestEnvironment,
        coordinators: CoordinatorClient,
        group_routing: GroupRouting,
        verifier: TransactionVerifier,
    ) -> None:
        super().__init__(environment, coordinators, group_routing)
        self.verifier = verifier

    def start(self, pending: PendingTxnOffsetCommit, request: TxnOffsetCommitRequest) -> Steps[None] | None:
        pending.asked = request
        authorizer = self.authorizer
        transactional_id = (ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        if not authorizer.authorize(pending, Operation.WRITE, transactional_id):
            pending.refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        elif not authorizer.authorize(pending, Operation.READ, (ResourceType.GROUP, request.group_id)):
            pending.refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        else:
            return self._sort_out(pending, request)
        return None

    def _sort_out(self, pending: PendingTxnOffsetCommit, request: TxnOffsetCommitRequest) -> Steps[None]:
        """Refuse what does not exist or may not be read, and ask for the rest."""
        asked: list[TxnOffsetCommitRequestTopic] = []
        elements = 0
        for topic in request.topics:
            yield 1
            if not self.authorizer.authorize(pending, Operation.READ, (ResourceType.TOPIC, topic.name)):
                pending.refused.append(_refused(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
                yield len(topic.partitions)
                continue
            found = TxnOffsetCommitRequestTopic(topic.name)
            missing = TxnOffsetCommitRequestTopic(topic.name)
            known = partitions_of(self.image, topic.name)
            for each in topic.partitions:
                (found if each.partition_index in known else missing).partitions.append(each)
                yield 1
            if missing.partitions:
                pending.refused.append(_refused(missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
                yield len(missing.partitions)
            if found.partitions:
                asked.append(found)
                elements += 1 + len(found.partitions)
        pending.asked = replace(request, topics=asked)
        if elements > GROUP_CALL_ELEMENTS_MAX:
            pending.refuse(ErrorCode.INVALID_REQUEST)
        elif asked or not request.topics:
            pending.call()
        else:
            self.responder.respond(pending, TxnOffsetCommitResponse(topics=pending.refused))


def _refused(topic: TxnOffsetCommitRequestTopic, error: int) -> TxnOffsetCommitResponseTopic:
    partitions = [TxnOffsetCommitResponsePartition(each.partition_index, error) for each in topic.partitions]
    return TxnOffsetCommitResponseTopic(topic.name, partitions)
