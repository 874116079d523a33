"""The configs of topics, of this broker and of its loggers, and the source of each value (KIP-226, KIP-569).

Topics are described as they would be here, even if none of their partitions is: a controller answers a change only when
all logstores have applied it. Errors: UNKNOWN_TOPIC_OR_PARTITION; INVALID_REQUEST for another broker or type of
resource.
"""

from __future__ import annotations

from barnabas.cluster.administration import (
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedResource,
)
from barnabas.cluster.config_description import Wanted, describe_broker, describe_topic
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.administration.broker_loggers import BROKER_LOGGER, BrokerLoggers
from barnabas_logstore.core.administration.work import Pause, Work
from barnabas_logstore.core.replica.broker_settings import BrokerSettings
from barnabas_logstore.core.replica.replicas import Replicas

_TOPIC, _BROKER = 2, 4


class Configs:
    def __init__(self, replicas: Replicas, settings: BrokerSettings, loggers: BrokerLoggers) -> None:
        self._replicas = replicas
        self._settings = settings
        self._loggers = loggers

    def answer(self, request: DescribeConfigsRequest, now_ms: int) -> Work:
        described: list[DescribedResource] = []
        for resource in request.resources:
            keys = None if resource.all_keys else frozenset(resource.keys)
            wanted = Wanted(keys, request.include_synonyms, request.include_documentation)
            described.append(self._describe(resource, wanted))
            yield Pause.MORE
        return DescribeConfigsResponse(described)

    def _describe(self, resource: ConfigResource, wanted: Wanted) -> DescribedResource:
        name = resource.resource_name
        if resource.resource_type == _TOPIC:
            topic = self._replicas.image.topics_by_name.get(name)
            if topic is None:
                return DescribedResource(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            configs = describe_topic(topic.configs, self._settings.values(), wanted)
            return DescribedResource(ErrorCode.NONE, configs=configs)
        if resource.resource_type == _BROKER and name == str(self._replicas.node_id):
            return DescribedResource(ErrorCode.NONE, configs=describe_broker(self._settings.values(), wanted))
        if resource.resource_type == BROKER_LOGGER:
            return self._loggers.describe(name, wanted)
        message = f"Unexpected resource {name[:100]} of type {resource.resource_type}"
        return DescribedResource(ErrorCode.INVALID_REQUEST, message)
