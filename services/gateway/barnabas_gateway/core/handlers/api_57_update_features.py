"""UpdateFeatures, API key 57, versions 0 to 2 (KIP-584, KIP-778, KIP-1022).

- No feature is supported, so that every update is INVALID_UPDATE_VERSION and none is done; no updates at all are done.

Deviations: none known.
"""

from __future__ import annotations

from barnabas.cluster.acls import CLUSTER, Operation
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from barnabas_gateway.core.connections.connection import PendingRequest
from barnabas_gateway.core.model.error_messages import client_message
from barnabas_gateway.core.requests.handler import Handler


class UpdateFeaturesHandler(Handler):
    api_key = ApiKey.UPDATE_FEATURES

    def start(self, pending: PendingRequest, request: UpdateFeaturesRequest) -> None:
        error, message = ErrorCode.NONE, ""
        if not self.authorizer.authorize(pending, Operation.ALTER, CLUSTER):
            error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        elif request.feature_updates:
            error, update = ErrorCode.INVALID_UPDATE_VERSION, request.feature_updates[0]
            message = f"Invalid update version {update.max_version_level} for feature {update.feature}. "
            message += "The cluster does not support this feature."
        response = UpdateFeaturesResponse(error_code=error, error_message=client_message(error, message))
        self.responder.respond(pending, response)
