"""Configuration: in force, as a logstore says; and of brokers, changed while they run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from barnabas.cluster.messages import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
    ConfigChange,
)
from barnabas_controller.core.config_changes import Operation, ResourceType
from barnabas_controller.shell.driver import Driver
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
    def __init__(self, driver: Driver, questions: LogstoreQuestions) -> None:
        self._driver = driver
        self._image = driver.core.image
        self._questions = questions

    def methods(self) -> Mapping[str, Method]:
        return {"DescribeConfigs": self._describe_configs, "AlterBrokerConfigs": self._alter_broker_configs}

    async def _describe_configs(self, request: pb.DescribeConfigsRequest, call: Call) -> pb.DescribeConfigsResponse:
        """Any logstore tells of a topic; one that does not answer is passed over."""
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
            return _told(response.results[0], node_id, only_set=request.only_set)
        raise unavailable(f"nobody tells of these configs: {'; '.join(silent) or 'no logstore is up'}")

    async def _alter_broker_configs(
        self, request: pb.AlterBrokerConfigsRequest, call: Call
    ) -> pb.AlterBrokerConfigsResponse:
        if request.HasField("broker"):
            require_node(self._image, request.broker)
        changes = changes_of(request.set_configs, request.delete_configs)
        if not changes:
            raise invalid("nothing to change: set_configs and delete_configs are empty")
        name = str(request.broker) if request.HasField("broker") else ""
        revision = await alter_configs(self._driver, [(ResourceType.BROKER, name, changes)], call)
        return pb.AlterBrokerConfigsResponse(revision=revision)


def changes_of(set_configs: Mapping[str, str], deleted: Iterable[str]) -> list[ConfigChange]:
    changes = [ConfigChange(name, Operation.SET, value) for name, value in sorted(set_configs.items())]
    return changes + [ConfigChange(name, Operation.DELETE, "") for name in deleted]


async def alter_configs(
    driver: Driver, resources: list[tuple[ResourceType, str, list[ConfigChange]]], call: Call
) -> int:
    """The revision as of which all are changed. Raises Refusal, that of the first which is refused, and NotActive."""
    asked = [AlterConfigsResource(kind, name, replace=False, changes=changes) for kind, name, changes in resources]
    response = await driver.ask(AlterConfigsRequest(asked, call.timeout_ms))
    assert isinstance(response, AlterConfigsResponse)
    for result in response.results:
        require_done(result.error_code, result.error_message)
    return response.revision


def _told(result: administration_pb2.DescribedResource, node_id: int, *, only_set: bool) -> pb.DescribeConfigsResponse:
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
