"""DescribeUserScramCredentials, API key 50, version 0 (KIP-554).

- Nobody has a credential: there is no SASL, and AlterUserScramCredentials is not served.
- A user that is asked for is RESOURCE_NOT_FOUND, one that is named twice DUPLICATE_RESOURCE.

Deviations: none known.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.connections.connection import PendingRequest
from barnabas_gateway.core.model.authorization import CLUSTER, Operation, authorize
from barnabas_gateway.core.requests.handler import Handler


class DescribeUserScramCredentialsHandler(Handler, api_key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS):
    def start(self, pending: PendingRequest, request: DescribeUserScramCredentialsRequest) -> Steps[None]:
        response = DescribeUserScramCredentialsResponse()
        if not authorize(pending.connection.context, Operation.DESCRIBE, CLUSTER):
            response.error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            response.error_message = ErrorCode.CLUSTER_AUTHORIZATION_FAILED.message
        else:
            times: dict[str, int] = {}
            for user in request.users or ():
                times[user.name] = times.get(user.name, 0) + 1
                yield 1
            for name, count in times.items():
                response.results.append(_result(name, count))
                yield 1
        self.responder.respond(pending, response)


def _result(name: str, times: int) -> DescribeUserScramCredentialsResult:
    error = ErrorCode.RESOURCE_NOT_FOUND if times == 1 else ErrorCode.DUPLICATE_RESOURCE
    return DescribeUserScramCredentialsResult(name, error, error.message)
