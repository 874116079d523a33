"""ApiVersions, API key 18, versions 0 to 4.

- Lists exactly what `HANDLERS` serves; Produce from v0 even if the old message formats are switched off, as in Kafka
  (KAFKA-18659), Fetch from v4 then.
- A version that is not served is answered in v0 with UNSUPPORTED_VERSION and the range of ApiVersions (KIP-511).
- v3: a client software name or version that is not `[a-zA-Z0-9](?:[a-zA-Z0-9\\-.]*[a-zA-Z0-9])?` is INVALID_REQUEST.
- v3: the supported features (KIP-584) and the finalized levels with their epoch; `transaction.version` is the only
  one, and from level 2 on clients use transactions of version 2 (KIP-890). A level of 0 is not listed as finalized. Up
  to v3 a feature whose minimum is 0 is not listed as supported, as in Kafka (KAFKA-17011).

Deviations: none known.
"""

from __future__ import annotations

import re

from barnabas.cluster.features import SUPPORTED_FEATURES
from barnabas.wire.api_keys import SERVED_KEYS, ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from barnabas_gateway.core.connections.connection import PendingRequest
from barnabas_gateway.core.model.config import GatewayConfig
from barnabas_gateway.core.requests.handler import Handler

_VERSION_WITH_SOFTWARE_NAME = 3
_VERSION_WITH_LEVEL_0 = 4
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")


class ApiVersionsHandler(Handler):
    api_key = ApiKey.API_VERSIONS

    def start(self, pending: PendingRequest, request: ApiVersionsRequest) -> None:
        """No authorization is needed: a client needs the response before it can authenticate."""
        config = self.config
        version, finalized = pending.header.api_version, self.image.finalized_features
        response = ApiVersionsResponse(
            api_keys=[_range(api_key, config) for api_key in SERVED_KEYS],
            supported_features=[
                SupportedFeatureKey(feature, first, last)
                for feature, (first, last) in SUPPORTED_FEATURES.items()
                if first or version >= _VERSION_WITH_LEVEL_0
            ],
            finalized_features_epoch=finalized.epoch,
            finalized_features=[
                FinalizedFeatureKey(each.feature, each.level, each.level) for each in finalized.features
            ],
        )
        if version >= _VERSION_WITH_SOFTWARE_NAME and not (
            _SOFTWARE.match(request.client_software_name) and _SOFTWARE.match(request.client_software_version)
        ):
            response = ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        elif pending.connection.authentication is not None:
            pending.connection.authentication.versions_answered()
        self.responder.respond(pending, response)


def _range(api_key: ApiKey, config: GatewayConfig) -> ApiVersion:
    is_without_old_formats = api_key is ApiKey.FETCH and not config.fetch_down_conversion
    version_min = api_key.version_min if is_without_old_formats else api_key.advertised_min
    return ApiVersion(api_key, version_min, api_key.version_max)
