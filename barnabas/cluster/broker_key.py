"""BrokerKey: what is declared of one configuration key of the services."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from barnabas.cluster.config_values import ConfigKey, ConfigType, Validator
from barnabas.cluster.keys import Role


class UpdateMode(Enum):
    """Kafka's modes (KIP-226), except for the last."""

    READ_ONLY = "read-only"
    # For one broker or for all of them.
    CLUSTER_WIDE = "cluster-wide"
    # Only for all at once: gateways have no broker id, each serves every broker.
    GATEWAYS = "all gateways"


@dataclass(slots=True, frozen=True)
class BrokerKey(ConfigKey):
    """`services`: those that read it; if there are several, a broker's description shows the value of the first."""

    services: tuple[Role, ...] = ()
    update_mode: UpdateMode = UpdateMode.READ_ONLY


def broker_key(
    name: str,
    config_type: ConfigType,
    documentation: str,
    *services: Role,
    validator: Validator | None = None,
    choices: tuple[str, ...] = (),
    update_mode: UpdateMode = UpdateMode.READ_ONLY,
) -> BrokerKey:
    """Declare a key that no topic inherits; `services` are those that read it."""
    return BrokerKey(name, config_type, None, documentation, validator, choices, services, update_mode)
