"""InitProducerId, API key 22, versions 0 to 5.

- Without a transactional id: a producer id that was never given out, with epoch 0, whatever id the producer presents.
- With one: its coordinator answers, the leader of its partition of `__transaction_state`. Without a coordinator
  NOT_COORDINATOR; COORDINATOR_NOT_AVAILABLE if the request may have been received.
- An empty transactional id, or a producer id without epoch or the reverse (v3), is INVALID_REQUEST.
- While the gateway has no block of ids from the controller: COORDINATOR_LOAD_IN_PROGRESS, which producers retry.

Deviation: where all epochs of a producer id are used up, a client with an earlier one is answered the last epoch if it
has asked for that before, else PRODUCER_FENCED; Kafka answers UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from barnabas.cluster.acls import CLUSTER, Operation, ResourceType
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import encode_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas_gateway.core.backends.coordinator_client import CoordinatorClient
from barnabas_gateway.core.backends.group_routing import GroupRouting
from barnabas_gateway.core.backends.producer_ids import ProducerIds
from barnabas_gateway.core.requests.group_request import GroupHandler, PendingGroupRequest
from barnabas_gateway.core.requests.handler import RequestEnvironment


class PendingInitProducerId(PendingGroupRequest):
    __slots__ = ()

    def producer_id_taken(self, producer_id: int | None) -> None:
        if producer_id is None:
            self.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        else:
            self.handler.responder.respond(self, InitProducerIdResponse(producer_id=producer_id, producer_epoch=0))

    def refuse(self, error: int) -> None:
        self.handler.responder.respond(self, InitProducerIdResponse(error_code=error, producer_epoch=-1))

    def expire(self, now_ms: int) -> None:
        if self.is_asked:
            super().expire(now_ms)
        else:
            self.cancel()
            self.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def cancel(self) -> None:
        super().cancel()
        handler = self.handler
        assert isinstance(handler, InitProducerIdHandler)
        handler.producer_ids.forget_asker(self)


class InitProducerIdHandler(GroupHandler):
    api_key = ApiKey.INIT_PRODUCER_ID
    request_class = PendingInitProducerId

    def __init__(
        self,
        environment: RequestEnvironment,
        coordinators: CoordinatorClient,
        transaction_routing: GroupRouting,
        producer_ids: ProducerIds,
    ) -> None:
        super().__init__(environment, coordinators, transaction_routing)
        self.producer_ids = producer_ids

    def start(self, pending: PendingInitProducerId, request: InitProducerIdRequest) -> None:
        denial = self._denial(pending, request.transactional_id)
        if denial:
            pending.refuse(denial)
        elif (request.producer_id == -1) != (request.producer_epoch == -1) or request.transactional_id == "":
            pending.refuse(ErrorCode.INVALID_REQUEST)
        elif request.transactional_id is not None:
            version = pending.header.api_version
            pending.call_coordinator(request.transactional_id, version, encode_body(request, version))
        else:
            self.deadlines.schedule(pending, self.clock.now_ms + self.config.read_wait_ms_max)
            self.producer_ids.allocate(pending)

    def _denial(self, pending: PendingInitProducerId, transactional_id: str | None) -> ErrorCode:
        authorizer = self.authorizer
        if transactional_id is not None:
            resource = (ResourceType.TRANSACTIONAL_ID, transactional_id)
            is_allowed = authorizer.authorize(pending, Operation.WRITE, resource)
            return ErrorCode.NONE if is_allowed else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        # KIP-679: who may write to any topic may do so idempotently. A denial is recorded when neither is allowed.
        operation = Operation.IDEMPOTENT_WRITE
        is_allowed = (
            authorizer.authorize(pending, operation, CLUSTER, log_denied=False)
            or authorizer.authorize_any(pending, Operation.WRITE, ResourceType.TOPIC)
            or authorizer.authorize(pending, operation, CLUSTER)
        )
        return ErrorCode.NONE if is_allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
