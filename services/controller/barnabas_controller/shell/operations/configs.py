"""Configs: effective ones as a logstore reports them, and dynamic broker configs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas.cluster.messages import AlterConfigsRequest, AlterConfigsResource, AlterConfigsResponse
from barnabas_controller.core.topics.config_changes import ResourceType, changes_of
from barnabas_controller.shell.driver import ControllerDriver
from barnabas_controller.shell.operations.calls import (
    Call,
    Method,
    invalid,
    require_done,
    require_node,
    require_topic,
    unavailable,
)
from barnabas_controller.shell.operations.logstore_questions import LogstoreQuestions, NoAnswer
from barnabas_protos.controller.v1 import operations_pb2 as pb
from barnabas_protos.logstore.v1 import administration_pb2

_DEFAULT_SOURCE: Final = 5


class Configs:
    def __init__(self, driver: ControllerDriver, questions: LogstoreQuestions) -> None:
        self._driver = driver
        self._image = driver.core.image
        self._questions = questions

    def methods(self) -> Mapping[str, Method]:
        return {"DescribeConfigs": self._describe_configs, "AlterBrokerConfigs": self._alter_broker_configs}

    async def _describe_configs(self, request: pb.DescribeConfigsRequest, call: Call) -> pb.DescribeConfigsResponse:
        """Any logstore can describe a topic's configs; one that does not answer is skipped."""
        image = self._image
        if bool(request.topic) == request.HasField("broker"):
            raise invalid("configs are of a topic or of a broker: name one of the two")
        if request.topic:
            require_topic(image, request.topic)
            resource_type, name, asked = ResourceType.TOPIC, request.topic, sorted(image.logstores)
        else:
            require_node(image, request.broker)
            resource_type, name, asked = ResourceType.BROKER, str(request.broker), [request.broker]
        resource = administration_pb2.ConfigResource(
            resource_type=resource_type, resource_name=name, all_keys=not request.keys, keys=request.keys
        )
        question = administration_pb2.DescribeConfigsRequest(
            resources=[resource], include_synonyms=True, include_documentation=request.include_documentation
        )
        silent = []
        for node_id in asked:
            try:
                response = await self._questions.administer(
                    node_id,
                    "DescribeConfigs",
                    question,
                    administration_pb2.DescribeConfigsResponse,
                    call.timeout_ms,
                )
            except NoAnswer as reason:
                silent.append(str(reason))
                continue
            return _described(response.results[0], node_id, only_set=request.only_set)
        raise unavailable(f"no logstore describes these configs: {'; '.join(silent) or 'none is up'}")

    async def _alter_broker_configs(
        self, request: pb.AlterBrokerConfigsRequest, call: Call
    ) -> pb.AlterBrokerConfigsResponse:
        if request.HasField("broker"):
            require_node(self._image, request.broker)
        changes = changes_of(request.set_configs, request.delete_configs)
        if not changes:
            raise invalid("nothing to change: set_configs and delete_configs are empty")
        name = str(request.broker) if request.HasField("broker") else ""
        resource = AlterConfigsResource(ResourceType.BROKER, name, replace=False, changes=changes)
        revision = await alter_configs(self._driver, [resource], call)
        return pb.AlterBrokerConfigsResponse(revision=revision)


async def alter_configs(driver: ControllerDriver, resources: list[AlterConfigsResource], call: Call) -> int:
    """Return the revision at which all are changed. Raises Refusal with the first error, and NotActive."""
    response = await driver.ask(AlterConfigsRequest(resources, call.timeout_ms))
    assert isinstance(response, AlterConfigsResponse)
    for result in response.results:
        require_done(result.error_code, result.error_message)
    return response.revision


def _described(
    result: administration_pb2.DescribedResource, node_id: int, *, only_set: bool
) -> pb.DescribeConfigsResponse:
    """Raises Refusal."""
    require_done(result.error_code, result.error_message)
    entries = [
        pb.ConfigEntry(
            name=config.name,
            value=config.value,
            is_null=config.is_null,
            source=pb.ConfigSource.ValueType(config.source),
            read_only=config.read_only,
            is_sensitive=config.is_sensitive,
            documentation=config.documentation,
            values=[
                pb.ConfigValue(name=each.name, value=each.value, source=pb.ConfigSource.ValueType(each.source))
                for each in config.synonyms
            ],
        )
        for config in sorted(result.configs, key=lambda config: config.name)
        if not only_set or config.source != _DEFAULT_SOURCE
    ]
    return pb.DescribeConfigsResponse(configs=entries, told_by=node_id)
