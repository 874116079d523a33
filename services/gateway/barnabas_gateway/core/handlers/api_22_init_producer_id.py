"""InitProducerId, API key 22, versions 0 to 5.

- Without a transactional id: a producer id that was never given out, with epoch 0, whatever id the producer presents.
- An empty transactional id, or a producer id without epoch or the reverse (v3), is INVALID_REQUEST.
- While the controller has handed out no block of ids: COORDINATOR_LOAD_IN_PROGRESS, which producers retry.

Deviations: there is no transaction coordinator yet, so a transactional id is COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas_gateway.core.backends.producer_ids import ProducerIds
from barnabas_gateway.core.connections.connection import PendingRequest
from barnabas_gateway.core.model.authorization import CLUSTER, Operation, ResourceType, authorize
from barnabas_gateway.core.requests.handler import Handler, RequestEnvironment


class PendingInitProducerId(PendingRequest):
    __slots__ = ()

    handler: InitProducerIdHandler

    def producer_id_taken(self, producer_id: int | None) -> None:
        if producer_id is None:
            self.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        else:
            self.handler.responder.respond(self, InitProducerIdResponse(producer_id=producer_id, producer_epoch=0))

    def refuse(self, error: ErrorCode) -> None:
        self.handler.responder.respond(self, InitProducerIdResponse(error_code=error, producer_epoch=-1))

    def expire(self, now_ms: int) -> None:
        self.cancel()
        self.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def cancel(self) -> None:
        self.handler.producer_ids.forget_asker(self)


class InitProducerIdHandler(Handler, api_key=ApiKey.INIT_PRODUCER_ID):
    request_class = PendingInitProducerId

    def __init__(self, environment: RequestEnvironment, producer_ids: ProducerIds) -> None:
        super().__init__(environment)
        self.producer_ids = producer_ids

    def start(self, pending: PendingInitProducerId, request: InitProducerIdRequest) -> None:
        context = pending.connection.context
        transactional_id = request.transactional_id
        if (request.producer_id == -1) != (request.producer_epoch == -1) or transactional_id == "":
            pending.refuse(ErrorCode.INVALID_REQUEST)
        elif transactional_id is not None:
            if authorize(context, Operation.WRITE, (ResourceType.TRANSACTIONAL_ID, transactional_id)):
                pending.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            else:
                pending.refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        elif not authorize(context, Operation.IDEMPOTENT_WRITE, CLUSTER):
            pending.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        else:
            self.deadlines.add(pending, self.clock.now_ms + self.config.read_wait_ms_max)
            self.producer_ids.allocate(pending)
