"""What elections and ISR changes have to know of each topic's configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from barnabas.cluster.broker_config_keys import topic_defaults
from barnabas.cluster.messages import ALL_BROKERS
from barnabas.cluster.topic_config import TopicConfig
from barnabas_controller.core.image import ControllerImage
from barnabas_controller.core.partition_changes import TopicRules

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"


class TopicRulesTable:
    """A topic's own configs go before those that brokers were given while they run, and these before `defaults`.

    Who may lead besides the ISR follows from what the leader takes for `min.insync.replicas`: were that less than what
    is taken for it here, watermarks would move where nobody expects it. So while it is being changed (`unsettled`) it
    counts as 1, which leaves nobody to lead but the ISR; and of brokers that were given different ones the lowest
    counts.
    """

    def __init__(self, image: ControllerImage, defaults: Mapping[str, str]) -> None:
        """`defaults` are settings, under topics' names; those of logstores have to be the same."""
        self._image = image
        self._defaults = dict(defaults)
        # Ids of the topics whose minimum is changing.
        self.unsettled: set[bytes] = set()

    def of(self, topic_id: bytes) -> TopicRules:
        """A topic under deletion, or one whose configuration no one can read, has the strictest: nothing unclean."""
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
