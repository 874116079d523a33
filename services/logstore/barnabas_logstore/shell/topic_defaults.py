"""The keys of a logstore that topics inherit, with the types, bounds and defaults of `TOPIC_KEYS`.

They are the fields of a struct that `LogstoreSettings` extends: field `log_segment_bytes` is the key
`log.segment.bytes`. Of keys that mean the same in other units, the first that is set counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec

from barnabas.cluster.broker_config_keys import BROKER_KEYS, default_for_topics
from barnabas.cluster.broker_key import BrokerKey
from barnabas.cluster.config_values import ConfigType
from barnabas.cluster.keys import Role
from barnabas.cluster.topic_config_keys import TOPIC_KEYS
from barnabas.runtime.configuration.config import bounds
from barnabas.runtime.configuration.service_config import ServiceConfig

_TYPES: Final[dict[ConfigType, Any]] = {
    ConfigType.BOOLEAN: bool,
    ConfigType.STRING: str,
    ConfigType.INT: int,
    ConfigType.LONG: int,
    ConfigType.DOUBLE: float,
    ConfigType.LIST: str,
}


def _fields() -> Iterator[tuple[str, Any, Any]]:
    """Return name, type and default of each."""
    for topic_key in TOPIC_KEYS.values():
        for synonym in topic_key.synonyms:
            key = BROKER_KEYS.get(synonym.name)
            if key is not None and Role.LOGSTORE in key.services:
                default = default_for_topics(key.name)
                yield key.name.replace(".", "_"), _type(key) if default is not None else _type(key) | None, default


def _type(key: BrokerKey) -> Any:
    if key.config_type is ConfigType.STRING and key.choices:
        return Literal[key.choices]
    plain = _TYPES[key.config_type]
    return plain if key.validator is None else Annotated[plain, bounds(key.name)]


if TYPE_CHECKING:
    TopicDefaultsConfig = ServiceConfig
else:
    TopicDefaultsConfig = msgspec.defstruct("TopicDefaultsConfig", _fields(), bases=(ServiceConfig,), kw_only=True)
