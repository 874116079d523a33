"""UpdateFeatures, API key 57, versions 0 to 2 (KIP-584, KIP-778, KIP-1022).

- Finalizes levels of `transaction.version`, all updates of a request or none; the answer is given when all gateways
  report the new levels. `validate_only` (v1) changes nothing. v0 and v1 have a result for each feature that is updated.
- INVALID_UPDATE_VERSION for a feature or a level that is not supported, an unknown upgrade type, a downgrade without an
  upgrade type that allows it, and an upgrade with one that is for downgrades. v0 has `allow_downgrade` in its place.
- A feature that is named twice counts as named last.

Deviations: features of Kafka other than `transaction.version` are not supported, `metadata.version` among them, so that
`kafka-features.sh upgrade --release-version` is refused; and a refusal says "the controller" where Kafka has its id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from barnabas.cluster import features
from barnabas.cluster.acls import CLUSTER, Operation
from barnabas.cluster.features import FeatureUpdate, refusal, support_problem
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.model.error_messages import client_message
from barnabas_gateway.core.model.outputs import ControllerAnswer
from barnabas_gateway.core.requests.controller_request import ControllerHandler, PendingControllerRequest

_UPGRADE_TYPE_FROM: Final = 1


class PendingUpdateFeatures(PendingControllerRequest[list[FeatureUpdate]]):
    """The one query is all updates."""

    __slots__ = ("response", "validate_only")

    def __init__(
        self, handler: ControllerHandler, connection: Connection, header: RequestHeader, frame_bytes: int
    ) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.validate_only = False
        self.response = UpdateFeaturesResponse()

    def refuse(self, error: ErrorCode, message: str = "") -> None:
        self.response.error_code, self.response.error_message = error, client_message(error, message)

    def request_of(self, queries: Sequence[list[FeatureUpdate]], timeout_ms: int) -> features.UpdateFeaturesRequest:
        (updates,) = queries
        return features.UpdateFeaturesRequest(updates, timeout_ms, self.validate_only)

    def fill_results(self, queries: Sequence[list[FeatureUpdate]], answer: ControllerAnswer) -> int:
        assert isinstance(answer, features.UpdateFeaturesResponse)
        self.refuse(ErrorCode(answer.error_code), answer.error_message)
        if not answer.error_code:
            (updates,) = queries
            self.response.results = [UpdatableFeatureResult(each.feature) for each in updates]
        return answer.revision

    def complete(self) -> None:
        self.handler.responder.respond(self, self.response)


class UpdateFeaturesHandler(ControllerHandler):
    api_key = ApiKey.UPDATE_FEATURES
    request_class = PendingUpdateFeatures

    def start(self, pending: PendingUpdateFeatures, request: UpdateFeaturesRequest) -> Steps[None]:
        if not self.authorizer.authorize(pending, Operation.ALTER, CLUSTER):
            pending.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            pending.complete()
            return
        updates: dict[str, FeatureUpdate] = {}
        for each in request.feature_updates:
            update = updates[each.feature] = _update_of(each, pending.header.api_version)
            problem = support_problem(update)
            if problem:
                # Of what is supported there are few: the controller gets no request that is large.
                pending.refuse(ErrorCode.INVALID_UPDATE_VERSION, refusal(update, problem))
                pending.complete()
                return
            yield 1
        if updates:
            pending.validate_only = request.validate_only
            pending.refuse(ErrorCode.REQUEST_TIMED_OUT)
            pending.add_query(list(updates.values()), len(updates))
        pending.send_calls(request.timeout_ms)


def _update_of(update: FeatureUpdateKey, version: int) -> FeatureUpdate:
    upgrade_type = update.upgrade_type
    if version < _UPGRADE_TYPE_FROM:
        upgrade_type = features.SAFE_DOWNGRADE if update.allow_downgrade else features.UPGRADE
    return FeatureUpdate(update.feature, update.max_version_level, upgrade_type)
