"""The configuration of this broker: its static configs, and dynamic changes by the cluster (KIP-226).

Changes come with UpdateMetadata, and with the full LeaderAndIsr that begins a control stream: for this broker, and
defaults for all brokers without their own value. Topics without an override follow at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas.cluster.broker_config_keys import BROKER_KEYS, topic_defaults
from barnabas.cluster.config_description import BrokerValues, Setting
from barnabas.cluster.config_values import InvalidValue
from barnabas.cluster.messages import ALL_BROKERS
from barnabas.cluster.topic_config import TopicConfig
from barnabas_logstore.core.replica.replicas import Replicas

CLEANER_BACKOFF: Final = "log.cleaner.backoff.ms"


class BrokerSettings:
    """`settings` by broker key; `static_defaults` by topics' own names: the topics' defaults at the start."""

    def __init__(
        self,
        settings: Mapping[str, Setting],
        static_defaults: Mapping[str, str],
        replicas: Replicas,
        cleaner_backoff_ms: int,
    ) -> None:
        self._settings = dict(settings)
        self._static_defaults = dict(static_defaults)
        self._replicas = replicas
        self._topic_defaults = self._static_defaults
        self._static_cleaner_backoff_ms = cleaner_backoff_ms
        self.cleaner_backoff_ms = cleaner_backoff_ms
        """`log.cleaner.backoff.ms` as it is in force."""

    def values(self) -> BrokerValues:
        """Return everything that determines the values of its keys."""
        changes = self._replicas.image.broker_configs
        return BrokerValues(changes.get(self._replicas.node_id, {}), changes.get(ALL_BROKERS, {}), self._settings)

    def follow_image(self) -> bool:
        """The image is newer. Return whether configs of topics without an override change by it."""
        values = self.values()
        self.cleaner_backoff_ms = _changed_to(CLEANER_BACKOFF, values, self._static_cleaner_backoff_ms)
        before = self._topic_defaults
        self._topic_defaults = self._static_defaults | topic_defaults({**values.dynamic_default, **values.dynamic})
        return self._topic_defaults != before

    def topic_config(self, overrides: Mapping[str, str]) -> TopicConfig | str:
        """Return a topic's configuration, or what is wrong with it."""
        return TopicConfig.parse({**self._topic_defaults, **overrides})


def _changed_to(name: str, values: BrokerValues, static: int) -> int:
    """Return what a key was changed to; an invalid number counts as not set."""
    for changes in (values.dynamic, values.dynamic_default):
        if name not in changes:
            continue
        try:
            number = BROKER_KEYS[name].parse(changes[name])
        except InvalidValue:
            continue
        assert isinstance(number, int)
        return number
    return static
