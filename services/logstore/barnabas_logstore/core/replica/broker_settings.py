"""What this broker is configured with: as it started, and as the cluster has changed it since (KIP-226).

Changes come with UpdateMetadata, and with the full LeaderAndIsr that begins a control stream: for this broker, and for
all of them where this one has none of its own. Topics without an override follow at once.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.cluster.broker_config_keys import topic_defaults
from barnabas.cluster.config_description import BrokerValues, Setting
from barnabas.cluster.messages import ALL_BROKERS
from barnabas.cluster.topic_config import TopicConfig
from barnabas_logstore.core.replica.replicas import Replicas


class BrokerSettings:
    """`settings` by broker key; `static_defaults` by topics' own names: what topics got when it started."""

    def __init__(self, settings: Mapping[str, Setting], static_defaults: Mapping[str, str], replicas: Replicas) -> None:
        self._settings = dict(settings)
        self._static_defaults = dict(static_defaults)
        self._replicas = replicas
        self._topic_defaults = self._static_defaults

    def values(self) -> BrokerValues:
        """All that decides what its keys are."""
        changes = self._replicas.image.broker_configs
        return BrokerValues(changes.get(self._replicas.node_id, {}), changes.get(ALL_BROKERS, {}), self._settings)

    def follow_image(self) -> bool:
        """The image is newer; whether topics without an override are configured differently by it."""
        values = self.values()
        before = self._topic_defaults
        self._topic_defaults = self._static_defaults | topic_defaults({**values.dynamic_default, **values.dynamic})
        return self._topic_defaults != before

    def topic_config(self, overrides: Mapping[str, str]) -> TopicConfig | str:
        """A topic's configuration, or what is wrong with it."""
        return TopicConfig.parse({**self._topic_defaults, **overrides})
