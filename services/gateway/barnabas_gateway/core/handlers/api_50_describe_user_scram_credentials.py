"""DescribeUserScramCredentials, API key 50, version 0 (KIP-554).

- Mechanisms and iterations of each user that is requested, or of all users with a credential, from the gateway's
  metadata.
- Needs DESCRIBE on the cluster; without it there is a result for each user that is requested, without its name, as in
  Kafka.
- A user without one is RESOURCE_NOT_FOUND, one that is named twice DUPLICATE_RESOURCE.

Deviations: without that right, and without users, the request is answered; Kafka does not answer it.
"""

from __future__ import annotations

from barnabas.cluster.acls import CLUSTER, Operation
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.connections.connection import PendingRequest
from barnabas_gateway.core.requests.handler import Handler


class DescribeUserScramCredentialsHandler(Handler):
    api_key = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS

    def start(self, pending: PendingRequest, request: DescribeUserScramCredentialsRequest) -> Steps[None]:
        response = DescribeUserScramCredentialsResponse()
        if not self.authorizer.authorize(pending, Operation.DESCRIBE, CLUSTER):
            denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            response.error_code, response.error_message = denied, denied.message
            for _ in request.users or ():
                response.results.append(DescribeUserScramCredentialsResult("", denied, denied.message))
                yield 1
            self.responder.respond(pending, response)
            return
        times: dict[str, int] = {}
        for user in request.users or ():
            times[user.name] = times.get(user.name, 0) + 1
            yield 1
        infos: dict[str, list[CredentialInfo]] = {}
        for (name, mechanism), credential in sorted(self.image.scram_credentials.items()):
            if not request.users or name in times:
                infos.setdefault(name, []).append(CredentialInfo(mechanism, credential.iterations))
            yield 1
        for name in times or infos:
            response.results.append(_result(name, times.get(name, 1), infos.get(name, [])))
            yield 1
        self.responder.respond(pending, response)


def _result(name: str, times: int, infos: list[CredentialInfo]) -> DescribeUserScramCredentialsResult:
    if times > 1:
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        return DescribeUserScramCredentialsResult(name, ErrorCode.DUPLICATE_RESOURCE, message)
    if not infos:
        message = f"Attempt to describe a user credential that does not exist: {name}"
        return DescribeUserScramCredentialsResult(name, ErrorCode.RESOURCE_NOT_FOUND, message)
    return DescribeUserScramCredentialsResult(name, ErrorCode.NONE, credential_infos=infos)
