"""The configs of each topic that elections and ISR changes need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from barnabas.cluster.broker_config_keys import topic_defaults
from barnabas.cluster.messages import ALL_BROKERS
from barnabas.cluster.topic_config import TopicConfig
from barnabas_controller.core.state.image import ControllerImage
from barnabas_controller.core.state.partition_changes import TopicRules

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"


class TopicRulesTable:
    """A topic's own configs take precedence over dynamic broker configs, and these over `defaults`.

    Which replicas may lead besides the ISR follows from what the leader uses for `min.insync.replicas`: if that were
    less than what is assumed here, watermarks would move unexpectedly. So while it is being changed (`unsettled`) it
    counts as 1, which leaves only the ISR to lead; and if brokers have different dynamic values, the lowest counts.
    """

    def __init__(self, image: ControllerImage, defaults: Mapping[str, str]) -> None:
        """`defaults` are settings, under topics' names; those of logstores must be the same."""
        self._image = image
        self._defaults = dict(defaults)
        # Ids of the topics whose minimum is changing.
        self.unsettled: set[bytes] = set()

    def of(self, topic_id: bytes) -> TopicRules:
        """A topic under deletion, or one whose config can't be read, has the strictest rules: nothing unclean."""
        topic = self._image.topics_by_id.get(topic_id)
        if topic is None:
            return TopicRules()
        for_all = self._given_to(ALL_BROKERS)
        config = TopicConfig.parse(_rules_of({**self._defaults, **for_all, **topic.configs}))
        if isinstance(config, str):
            return TopicRules()
        minimum = config.min_insync_replicas
        if MIN_INSYNC_REPLICAS not in topic.configs:
            minimum = min([minimum, *self._given_to_single_brokers()])
        return TopicRules(1 if topic_id in self.unsettled else minimum, config.unclean_leader_election_enable)

    def _given_to(self, broker_id: int) -> dict[str, str]:
        record = self._image.broker_configs.get(broker_id)
        return {} if record is None else topic_defaults(record.configs)

    def _given_to_single_brokers(self) -> Iterable[int]:
        for broker_id in self._image.broker_configs:
            if broker_id != ALL_BROKERS:
                text = self._given_to(broker_id).get(MIN_INSYNC_REPLICAS)
                if text is not None:
                    yield int(text)


def _rules_of(configs: Mapping[str, str]) -> dict[str, str]:
    return {name: configs[name] for name in (MIN_INSYNC_REPLICAS, UNCLEAN_ELECTION) if name in configs}
