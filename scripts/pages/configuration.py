"""Write the tables of configuration keys to `docs/reference/configuration.md`.

`scripts/configuration` runs it; `tests/unit/docs/test_configuration.py` holds it to the tables.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import msgspec

from barnabas.cluster.broker_config_keys import BARNABAS_ONLY, BROKER_KEYS
from barnabas.cluster.broker_key import BrokerKey
from barnabas.cluster.config_description import Setting
from barnabas.cluster.config_values import ConfigKey
from barnabas.cluster.kafka_config_keys import REMOVED, UNSUPPORTED
from barnabas.cluster.keys import Role
from barnabas.cluster.topic_config_keys import TOPIC_KEYS, TopicKey
from barnabas.runtime.configuration.config import settings_of
from barnabas_controller.shell.config import ControllerConfig
from barnabas_gateway.shell.config import GatewayProperties
from barnabas_logstore.shell.config import LogstoreSettings
from barnabas_purgatory.shell.config import PurgatoryConfig

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"

SERVICES: dict[Role, msgspec.Struct] = {
    Role.LOGSTORE: LogstoreSettings(node_id=1, log_dirs=["/data"], etcd_endpoints=["etcd:2379"]),
    Role.GATEWAY: GatewayProperties(etcd_endpoints=["etcd:2379"]),
    Role.PURGATORY: PurgatoryConfig(etcd_endpoints=["etcd:2379"]),
    Role.CONTROLLER: ControllerConfig(etcd_endpoints=["etcd:2379"]),
}
"""One of each, with what has no default."""

_NEEDED = {"node.id", "log.dirs", "etcd.endpoints"}

HEAD = """# Configuration keys

Written by `scripts/configuration` from `barnabas/cluster/broker_config_keys.py:BROKER_KEYS`,
`barnabas/cluster/topic_config_keys.py:TOPIC_KEYS`, `barnabas/cluster/kafka_config_keys.py:UNSUPPORTED` and the
`shell/config.py` of each service; change those, not this page.

## How a service is configured

A service reads its keys from `--config FILE` (any number of files), then from the environment, then from `--set
KEY=VALUE`; a later source overrides an earlier one. In the environment the key `num.network.threads` is
`BARNABAS_NUM_NETWORK_THREADS`.

Four variables of the environment are no keys. `BARNABAS_CORES` chooses between compiled and interpreted cores
([operations.md](../operate/operations.md#run-compiled-cores)). `BARNABAS_LANE=off` keeps messages between services of
one machine on the network; by default they go by Unix sockets ([ADR 0024](../adr/0024-the-lane.md)).
`BARNABAS_LANE_DIRECTORY` is the directory of these sockets, which all services of the machine have to see at the same
path: it belongs to their user, with mode 0700. `BARNABAS_BUSY_POLL=off` has processes sleep in every wait; by default
they poll in waits that have been short ([operations.md](../operate/operations.md#busy-polling)).

A file has Java's properties syntax and **may be a Kafka broker's own `server.properties`**, unchanged, for every
service; only `etcd.endpoints` has to be added. Each service takes its own keys, and at its start logs a warning for
every other key, with the reason:

- `num.io.threads`: it is a key of the logstore;
- `zookeeper.connect`: Kafka 4 has no ZooKeeper; cluster state is in etcd, see etcd.endpoints.

`listeners` and `advertised.listeners` of the form `NAME://host:port` belong to gateways; those that
`controller.listener.names` lists are ignored. `PLAINTEXT://:9092` listens on all addresses, and the machine's own
name is advertised to clients, as in Kafka. In an advertised host of a gateway `{id}` stands for the broker's id.

An unknown key is taken for a typing error: the service does not start, and the error names the nearest known key. The
same holds for another service's key in `--set`; in the environment, which other programs use too, it is ignored.

## Which keys can change while services run

All topic keys can. Of the broker keys, those marked **cluster-wide** can change for one broker or (with the empty
name) for all; topics without an override follow at once. Those marked **all gateways** can change for all only, since
a gateway serves every broker. Other keys are read at the start; `kafka-configs --alter` refuses them. The value in
force is the first that is set of: the topic's, the broker's, that of all brokers, the one the service was started
with, the default. Values set at run time are in etcd and outlive restarts.

"""


def code(text: str | None) -> str:
    return "" if text is None else f"`{text}`" if text else "empty"


def default(key: BrokerKey, settings: Mapping[Role, Mapping[str, Setting]]) -> str:
    if key.name in _NEEDED:
        return "needed"
    defaults = {role: settings[role][key.name].default for role in key.services}
    if len(set(defaults.values())) == 1:
        return code(next(iter(defaults.values())))
    return "<br>".join(f"{role.value}: {code(text) or 'unset'}" for role, text in defaults.items())


def broker_row(key: BrokerKey, settings: Mapping[Role, Mapping[str, Setting]]) -> str:
    services = "all" if len(key.services) == len(SERVICES) else ", ".join(role.value for role in key.services)
    mode = key.update_mode.value
    return (
        f"| `{key.name}` | {services} | {kind(key)} | {default(key, settings)} | "
        f"{'' if mode == 'read-only' else mode} | {key.documentation} |\n"
    )


def kind(key: ConfigKey) -> str:
    name = key.config_type.name.lower()
    return f"{name}: {', '.join(key.choices)}" if key.choices else name


def topic_row(key: TopicKey) -> str:
    follows = ", ".join(f"`{synonym.name}`" for synonym in key.synonyms)
    return f"| `{key.name}` | {kind(key)} | {code(key.default)} | {follows} | {key.documentation} |\n"


def by_reason(names: Mapping[str, str]) -> str:
    """A paragraph per reason."""
    grouped: defaultdict[str, list[str]] = defaultdict(list)
    for name, reason in sorted(names.items()):
        grouped[reason].append(f"`{name}`")
    return "".join(f"- {reason}: {', '.join(keys)}\n" for reason, keys in sorted(grouped.items()))


def page() -> str:
    settings = {role: settings_of(struct, []) for role, struct in SERVICES.items()}
    table = "| key | read by | type | default | may change | |\n|---|---|---|---|---|---|\n"
    kafkas = [key for name, key in sorted(BROKER_KEYS.items()) if name not in BARNABAS_ONLY]
    own = [key for name, key in sorted(BROKER_KEYS.items()) if name in BARNABAS_ONLY]
    return (
        HEAD
        + "## Kafka's keys that services read\n\n"
        + table
        + "".join(broker_row(key, settings) for key in kafkas)
        + "\n## Keys that only Barnabas has\n\n"
        + table
        + "".join(broker_row(key, settings) for key in own)
        + "\n## Topic keys\n\nIf a topic does not set a key, the first broker key of the column `follows` that is set "
        + "holds.\n\n"
        + "| key | type | default | follows | |\n|---|---|---|---|---|\n"
        + "".join(topic_row(key) for key in TOPIC_KEYS.values())
        + "\n## Kafka's keys without effect\n\nA file may have them; the service logs each at its start, with the "
        + "reason.\n\n"
        + by_reason(UNSUPPORTED)
        + "\nKeys of older versions of Kafka:\n\n"
        + by_reason(REMOVED)
    )


if __name__ == "__main__":
    PAGE.write_text(page())
