"""ListConfigResources, API key 74, versions 0 to 1 (KIP-1000, KIP-1142).

- v1 lists the topics of this gateway's image, its brokers, and its brokers again for their loggers; no types requests
  all that exist. There are no configs of client metrics or of groups, so v0 and these types give an empty list.
- A type that Kafka does not list either is UNSUPPORTED_VERSION, as in Kafka.
"""

from __future__ import annotations

from typing import Final

from barnabas.cluster.acls import CLUSTER, Operation
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.connections.connection import PendingRequest
from barnabas_gateway.core.model.config_resources import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from barnabas_gateway.core.requests.handler import Handler

_LISTED: Final = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


class ListConfigResourcesHandler(Handler):
    api_key = ApiKey.LIST_CONFIG_RESOURCES

    def start(self, pending: PendingRequest, request: ListConfigResourcesRequest) -> Steps[None]:
        response = ListConfigResourcesResponse()
        types = [CLIENT_METRICS] if pending.header.api_version == 0 else request.resource_types or list(_LISTED)
        if not self.authorizer.authorize(pending, Operation.DESCRIBE_CONFIGS, CLUSTER):
            response.error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        elif set(types).difference(_LISTED):
            response.error_code = ErrorCode.UNSUPPORTED_VERSION
        else:
            image = self.image
            if TOPIC in types:
                for name in list(image.topics_by_name):
                    response.config_resources.append(ConfigResource(name, TOPIC))
                    yield 1
            for each in (BROKER_LOGGER, BROKER):
                if each in types:
                    response.config_resources += [ConfigResource(str(node_id), each) for node_id in image.brokers]
        self.responder.respond(pending, response)
