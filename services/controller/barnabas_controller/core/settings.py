"""What the controller's configuration says about elections."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.cluster.topic_config_keys import default_of
from barnabas_controller.core.topic_rules import MIN_INSYNC_REPLICAS, UNCLEAN_ELECTION


@dataclass(slots=True, frozen=True)
class ElectionSettings:
    """By Kafka's keys and defaults; the first two are for topics without their own."""

    min_insync_replicas: int = default_of(MIN_INSYNC_REPLICAS)
    unclean_leader_election_enable: bool = default_of(UNCLEAN_ELECTION)
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_ms: int = 300_000
    leader_imbalance_per_broker_percentage: int = 10

    def topic_defaults(self) -> dict[str, str]:
        return {
            MIN_INSYNC_REPLICAS: str(self.min_insync_replicas),
            UNCLEAN_ELECTION: "true" if self.unclean_leader_election_enable else "false",
        }
