"""EndTxn, API key 26, versions 0 to 5.

- Forwarded to the coordinator of the transactional id, which answers once the decision is committed; markers follow.
- v5 is of transaction version 2: the answer has the producer id and epoch of the next transaction.
- Without a coordinator NOT_COORDINATOR; COORDINATOR_NOT_AVAILABLE if the request may have been received.

Deviation: a commit that comes after the coordinator has aborted the transaction is PRODUCER_FENCED in version 2 as in
the others; Kafka 4.4.0 answers INVALID_TXN_STATE, Kafka after it PRODUCER_FENCED (KAFKA-20785).
"""

from __future__ import annotations

from barnabas.cluster.acls import Operation, ResourceType
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import encode_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas_gateway.core.requests.group_request import GroupHandler, PendingGroupRequest


class PendingEndTxn(PendingGroupRequest):
    __slots__ = ()

    def refuse(self, error: int) -> None:
        self.handler.responder.respond(self, EndTxnResponse(error_code=error))


class EndTxnHandler(GroupHandler):
    api_key = ApiKey.END_TXN
    request_class = PendingEndTxn

    def start(self, pending: PendingEndTxn, request: EndTxnRequest) -> None:
        resource = (ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        if self.authorizer.authorize(pending, Operation.WRITE, resource):
            version = pending.header.api_version
            pending.call_coordinator(request.transactional_id, version, encode_body(request, version))
        else:
            pending.refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
