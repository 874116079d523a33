"""AlterConfigs: validate changes of topic and broker configs, and write the valid ones.

Full (KIP-133: the given configs replace the existing ones) and incremental (KIP-339: SET, DELETE; APPEND and SUBTRACT
for lists). A resource changes as a whole or not at all. Rules and messages are those of Kafka's ConfigAdminManager,
ConfigurationControlManager and DynamicBrokerConfig. Deviations: an unknown broker key is INVALID_CONFIG (Kafka keeps it
for plugins, which Barnabas does not have), and so is one that Kafka reads at its start alone and that no service here
has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from barnabas.cluster.broker_config_keys import topic_defaults
from barnabas.cluster.broker_key import UpdateMode
from barnabas.cluster.config_values import ConfigKey, ConfigType
from barnabas.cluster.ignored_config_keys import ALTERABLE_KEYS
from barnabas.cluster.kafka_config_keys import why_without_effect
from barnabas.cluster.keys import BrokerConfigsRecord
from barnabas.cluster.messages import (
    ALL_BROKERS,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResult,
    ConfigChange,
)
from barnabas.cluster.topic_config import TopicConfig
from barnabas.cluster.topic_config_keys import TOPIC_KEYS
from barnabas.wire.errors import ErrorCode
from barnabas.wire.topic_names import topic_name_problem
from barnabas_controller.core.state.image import ControllerImage
from barnabas_controller.core.state.topic_rules import MIN_INSYNC_REPLICAS
from barnabas_controller.core.state.writes import BYTES_MAX, OPERATIONS_MAX, Step, Write, put
from barnabas_controller.core.topics.placement import Refused
from barnabas_controller.core.topics.topic_creation import check_size


class ResourceType(IntEnum):
    """The resource types of Kafka's ConfigResource.Type whose configs the controller keeps."""

    TOPIC = 2
    BROKER = 4


class Operation(IntEnum):
    """Kafka's AlterConfigOp.OpType."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def changes_of(values: Mapping[str, str], deleted: Iterable[str]) -> list[ConfigChange]:
    """Return the changes that set these values, by key, and delete the other keys."""
    changes = [ConfigChange(name, Operation.SET, value) for name, value in sorted(values.items())]
    return changes + [ConfigChange(name, Operation.DELETE, "") for name in deleted]


@dataclass(slots=True, frozen=True)
class _Change:
    """A resource's configs after the change."""

    resource_type: ResourceType
    # A topic's name, or a broker's id or ALL_BROKERS as text.
    name: str
    configs: dict[str, str]


@dataclass(slots=True)
class ConfigChanges:
    """A result per resource, and the Txns that write the successful changes."""

    results: list[AlterConfigsResult] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    # Topics whose `min.insync.replicas` changes.
    min_isr_topic_ids: list[bytes] = field(default_factory=list)


def alter_configs(image: ControllerImage, request: AlterConfigsRequest) -> ConfigChanges:
    """Decide about every resource of the request."""
    decided = ConfigChanges()
    occurrences = Counter((each.resource_type, each.resource_name) for each in request.resources)
    changes: list[_Change] = []
    for resource in request.resources:
        try:
            if occurrences[resource.resource_type, resource.resource_name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            change = _decide(image, resource)
        except Refused as refused:
            decided.results.append(AlterConfigsResult(refused.error_code, refused.message))
            continue
        decided.results.append(AlterConfigsResult(ErrorCode.NONE))
        if change is not None and not request.validate_only:
            changes.append(change)
            decided.min_isr_topic_ids += _topics_with_another_minimum(image, change)
    for txn in _pack(image, changes):
        decided.steps.append(_step(image, txn))
    return decided


def _pack(image: ControllerImage, changes: Sequence[_Change]) -> list[list[_Change]]:
    """Pack the changes in order, as many per Txn as etcd accepts."""
    txns: list[list[_Change]] = []
    byte_count = 0
    for change in changes:
        size = len(_write(image, change).value or b"")
        if not txns or len(txns[-1]) == OPERATIONS_MAX or byte_count + size > BYTES_MAX:
            txns.append([])
            byte_count = 0
        txns[-1].append(change)
        byte_count += size
    return txns


def _step(image: ControllerImage, changes: list[_Change]) -> Step:
    return lambda: [_write(image, change) for change in changes]


def _write(image: ControllerImage, change: _Change) -> Write:
    if change.resource_type is ResourceType.TOPIC:
        return put(image.keys.topic(change.name), replace(image.topics[change.name], configs=change.configs))
    key = image.keys.broker_configs(int(change.name))
    return put(key, BrokerConfigsRecord(int(change.name), change.configs)) if change.configs else Write(key, None)


def _topics_with_another_minimum(image: ControllerImage, change: _Change) -> list[bytes]:
    after = change.configs.get(MIN_INSYNC_REPLICAS)
    if change.resource_type is ResourceType.TOPIC:
        topic = image.topics[change.name]
        return [] if after == topic.configs.get(MIN_INSYNC_REPLICAS) else [topic.topic_id]
    record = image.broker_configs.get(int(change.name))
    if after == (None if record is None else record.configs.get(MIN_INSYNC_REPLICAS)):
        return []
    return [topic.topic_id for topic in image.topics.values() if MIN_INSYNC_REPLICAS not in topic.configs]


def _decide(image: ControllerImage, resource: AlterConfigsResource) -> _Change | None:
    """Return None if the configs are already as asked. Raises Refused."""
    if any(count > 1 for count in Counter(change.name for change in resource.changes).values()):
        raise Refused(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    # Checked first, because the number of configs in a request has no other bound.
    check_size({change.name: change.value for change in resource.changes})
    match resource.resource_type:
        case ResourceType.TOPIC:
            return _decide_topic(image, resource)
        case ResourceType.BROKER:
            return _decide_broker(image, resource)
        case unknown:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown resource type {unknown}")


def _decide_topic(image: ControllerImage, resource: AlterConfigsResource) -> _Change | None:
    name = resource.resource_name
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    problem = topic_name_problem(name)
    if problem is not None:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
    topic = image.topics.get(name)
    before = topic.configs if topic is not None else {}
    configs = _changed(before, resource, TOPIC_KEYS)
    config = TopicConfig.from_overrides(configs)
    if isinstance(config, str):
        raise Refused(ErrorCode.INVALID_CONFIG, config)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    check_size(configs)
    return None if configs == before else _Change(ResourceType.TOPIC, name, configs)


def _decide_broker(image: ControllerImage, resource: AlterConfigsResource) -> _Change | None:
    broker_id = _broker_id(resource.resource_name)
    record = image.broker_configs.get(broker_id)
    before = record.configs if record is not None else {}
    configs = _changed(before, resource, ALTERABLE_KEYS)
    _check_broker_configs(configs, broker_id)
    if broker_id != ALL_BROKERS and broker_id not in image.known_node_ids():
        raise Refused(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker with id {broker_id} found.")
    check_size(configs)
    return None if configs == before else _Change(ResourceType.BROKER, str(broker_id), configs)


def _broker_id(name: str) -> int:
    if not name:
        return ALL_BROKERS
    if not name.isascii() or not name.isdecimal() or len(name) > 10 or int(name) > 2**31 - 1:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name[:100]}")
    return int(name)


def _changed(
    before: Mapping[str, str], resource: AlterConfigsResource, keys: Mapping[str, ConfigKey]
) -> dict[str, str]:
    """Return a resource's configs after the changes, in the order of the names."""
    configs = {} if resource.replace else dict(before)
    for change in resource.changes:
        match Operation.SET if resource.replace else change.operation:
            case Operation.SET:
                configs[change.name] = change.value
            case Operation.DELETE:
                configs.pop(change.name, None)
            case Operation.APPEND | Operation.SUBTRACT:
                configs[change.name] = _with_list_changed(configs.get(change.name), change, keys.get(change.name))
            case unknown:
                raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown operations type {unknown}")
    return dict(sorted(configs.items()))


def _with_list_changed(before: str | None, change: ConfigChange, key: ConfigKey | None) -> str:
    """Change a list; one that is not set starts from the key's default, as in Kafka."""
    operation = Operation(change.operation)
    if key is None or key.config_type is not ConfigType.LIST:
        message = f"Can't {operation.name} to key {change.name} because its type is not LIST."
        raise Refused(ErrorCode.INVALID_CONFIG, message)
    items = _items((key.default or "") if before is None else before)
    given = _items(change.value)
    if operation is Operation.APPEND:
        return ",".join({**items, **given})
    return ",".join(each for each in items if each not in given)


def _items(text: str) -> dict[str, None]:
    """Split a list, without duplicates and in order."""
    return dict.fromkeys(item.strip() for item in text.split(",") if item.strip())


def _check_broker_configs(configs: Mapping[str, str], broker_id: int) -> None:
    unknown = [name for name in configs if name not in ALTERABLE_KEYS]
    if unknown:
        reason = why_without_effect(unknown[0])
        message = f"Unknown broker config name: {unknown[0]}" if reason is None else f"{unknown[0]}: {reason}"
        raise Refused(ErrorCode.INVALID_CONFIG, message)
    modes = {name: ALTERABLE_KEYS[name].update_mode for name in configs}
    read_only = [name for name, mode in modes.items() if mode is UpdateMode.READ_ONLY]
    if read_only:
        message = f"Cannot update these configs dynamically: [{', '.join(read_only)}]"
        raise Refused(ErrorCode.INVALID_REQUEST, message)
    of_gateways = [name for name, mode in modes.items() if mode is UpdateMode.GATEWAYS]
    if of_gateways and broker_id != ALL_BROKERS:
        message = (
            "Cannot update these configs for one broker, since gateways serve all brokers; "
            f"they can be updated at default cluster level: [{', '.join(of_gateways)}]"
        )
        raise Refused(ErrorCode.INVALID_REQUEST, message)
    for name, text in configs.items():
        problem = ALTERABLE_KEYS[name].problem(text)
        if problem is not None:
            raise Refused(ErrorCode.INVALID_REQUEST, problem)
    defaults = TopicConfig.from_overrides(topic_defaults(configs))
    if isinstance(defaults, str):
        raise Refused(ErrorCode.INVALID_REQUEST, defaults)
