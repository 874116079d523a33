"""Every configuration key that a service of Barnabas has: type, bounds, which services read it, whether it may change.

Kafka's names where Kafka has the thing. The keys that topics follow are made from `TOPIC_KEYS`, and services take their
defaults and bounds from there. The default of any other key is with each service
(`services/*/barnabas_*/shell/config.py`; a test holds the two together), as are its bounds unless the key can change
while services run. What Kafka has and Barnabas has not is in `barnabas.cluster.kafka_config_keys`. No key names a class
or a URL to load anything from, and none ever may while it is dynamic (CVE-2025-27817, CVE-2025-27818).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal, TypeAlias, get_args

from barnabas.cluster.config_values import ConfigKey, ConfigType, Range, Validator
from barnabas.cluster.kafka_config_keys import UNSUPPORTED
from barnabas.cluster.keys import Role
from barnabas.cluster.topic_config_keys import TOPIC_KEYS, default_of

_BOOLEAN, _STRING, _INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
_LONG, _DOUBLE, _LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST
_GATEWAY, _LOGSTORE, _PURGATORY, _CONTROLLER = Role.GATEWAY, Role.LOGSTORE, Role.PURGATORY, Role.CONTROLLER
_ALL: Final = (_LOGSTORE, _GATEWAY, _PURGATORY, _CONTROLLER)
_GATEWAY_FIRST: Final = (_GATEWAY, _LOGSTORE, _PURGATORY, _CONTROLLER)


ReplicaSelectorClass: TypeAlias = Literal[
    "org.apache.kafka.common.replica.LeaderSelector", "org.apache.kafka.common.replica.RackAwareReplicaSelector"
]


class UpdateMode(Enum):
    """Kafka's (KIP-226), but for the last."""

    READ_ONLY = "read-only"
    # For one broker or for all of them.
    CLUSTER_WIDE = "cluster-wide"
    # For all at once only: gateways have no broker id, each serves every broker.
    GATEWAYS = "all gateways"


@dataclass(slots=True, frozen=True)
class BrokerKey(ConfigKey):
    """`services`: who reads it; where several do, a broker is described by the first one's."""

    services: tuple[Role, ...] = ()
    update_mode: UpdateMode = UpdateMode.READ_ONLY


def _key(
    name: str,
    config_type: ConfigType,
    documentation: str,
    *services: Role,
    validator: Validator | None = None,
    choices: tuple[str, ...] = (),
    update_mode: UpdateMode = UpdateMode.READ_ONLY,
) -> BrokerKey:
    return BrokerKey(name, config_type, None, documentation, validator, choices, services, update_mode)


_READERS_OF_TOPIC_DEFAULTS: Final = {
    "min.insync.replicas": (_LOGSTORE, _CONTROLLER),
    "unclean.leader.election.enable": (_CONTROLLER,),
}


def _topic_defaults() -> Iterator[BrokerKey]:
    """The keys that topics follow: a number in other units can't be changed while the broker runs, as in Kafka.

    The bounds of a topic's key with several units are the same number in each of them.
    """
    for topic_key in TOPIC_KEYS.values():
        for synonym in topic_key.synonyms:
            if synonym.name in UNSUPPORTED:
                continue
            is_same = synonym.factor == 1 and synonym.name != "log.flush.scheduler.interval.ms"
            yield BrokerKey(
                synonym.name,
                topic_key.config_type if synonym.factor == 1 else ConfigType.INT,
                topic_key.default if len(topic_key.synonyms) == 1 else None,
                f"For topics that have no {topic_key.name}. {topic_key.documentation}",
                topic_key.validator,
                topic_key.choices,
                _READERS_OF_TOPIC_DEFAULTS.get(synonym.name, (_LOGSTORE,)),
                UpdateMode.CLUSTER_WIDE if is_same else UpdateMode.READ_ONLY,
            )


_KAFKAS: Final = (
    _key(
        "listeners", _LIST, "Where the service listens: NAME://host:port in a gateway, else host:port.", *_GATEWAY_FIRST
    ),
    _key(
        "advertised.listeners",
        _LIST,
        "What others are told to connect to: by listener name in a gateway, else one host:port.",
        *_GATEWAY_FIRST,
    ),
    _key("listener.security.protocol.map", _STRING, "The protocol of each listener name.", _GATEWAY),
    _key(
        "num.network.threads",
        _INT,
        "Processors of a gateway, each a process of its own.",
        _GATEWAY,
        validator=Range(1, 256),
        update_mode=UpdateMode.GATEWAYS,
    ),
    _key(
        "max.connections",
        _INT,
        "Connections that one gateway holds at once.",
        _GATEWAY,
        validator=Range(1),
        update_mode=UpdateMode.GATEWAYS,
    ),
    _key(
        "max.connections.per.ip",
        _INT,
        "Connections that one gateway holds at once for one address.",
        _GATEWAY,
        validator=Range(1),
        update_mode=UpdateMode.GATEWAYS,
    ),
    _key("connections.max.idle.ms", _LONG, "A connection that is silent for so long is closed.", _GATEWAY),
    _key("socket.request.max.bytes", _INT, "The largest request that is read.", _GATEWAY),
    _key("socket.listen.backlog.size", _INT, "Connections that wait to be accepted.", _GATEWAY),
    _key(
        "queued.max.request.bytes",
        _LONG,
        "Bytes of requests held at once: by one processor of a gateway, or by a logstore.",
        _LOGSTORE,
        _GATEWAY,
    ),
    _key("fetch.max.bytes", _INT, "The largest answer to one Fetch, whatever its client asks for.", _GATEWAY),
    _key("auto.create.topics.enable", _BOOLEAN, "Whether Metadata creates topics that are asked for.", _GATEWAY),
    _key(
        "num.partitions",
        _INT,
        "Partitions of a topic made without a number. A gateway's is for those that Metadata creates; -1: as others.",
        _CONTROLLER,
        _GATEWAY,
    ),
    _key(
        "default.replication.factor",
        _INT,
        "Replicas of a topic made without a number. A gateway's is for those that Metadata creates; -1: as others.",
        _CONTROLLER,
        _GATEWAY,
    ),
    _key(
        "auto.leader.rebalance.enable",
        _BOOLEAN,
        "Whether preferred leaders are elected again where a broker leads too few of its partitions.",
        _CONTROLLER,
    ),
    _key("leader.imbalance.check.interval.seconds", _LONG, "How often that is looked at.", _CONTROLLER),
    _key(
        "leader.imbalance.per.broker.percentage",
        _INT,
        "How many of the partitions that a broker is preferred for others may lead.",
        _CONTROLLER,
    ),
    _key("offsets.topic.num.partitions", _INT, "Partitions of __consumer_offsets when it is made.", _CONTROLLER),
    _key(
        "offsets.topic.replication.factor",
        ConfigType.SHORT,
        "Replicas of __consumer_offsets when it is made; on fewer logstores as many as there are.",
        _CONTROLLER,
    ),
    _key("offsets.topic.segment.bytes", _INT, "segment.bytes of __consumer_offsets when it is made.", _CONTROLLER),
    _key("node.id", _INT, "The broker id of a logstore.", _LOGSTORE),
    _key("broker.id", _INT, "The broker id of a logstore, if node.id is not set.", _LOGSTORE),
    _key("log.dir", _LIST, "Where the logs are, if log.dirs is not set.", _LOGSTORE),
    _key("log.dirs", _LIST, "Directories of logs, separated by commas.", _LOGSTORE),
    _key(
        "broker.rack", _STRING, "Where the logstore stands, for placement of replicas and nearest fetches.", _LOGSTORE
    ),
    _key("num.io.threads", _INT, "Workers for reads and writes of the disk.", _LOGSTORE),
    _key("num.recovery.threads.per.data.dir", _INT, "Workers that load a directory's logs at the start.", _LOGSTORE),
    _key("queued.max.requests", _INT, "Requests that wait for a logstore's core.", _LOGSTORE),
    _key("log.retention.check.interval.ms", _LONG, "How often retention looks for old segments.", _LOGSTORE),
    _key(
        "log.flush.offset.checkpoint.interval.ms",
        _INT,
        "How often the points are written down from which recovery starts after a crash.",
        _LOGSTORE,
    ),
    _key(
        "log.flush.start.offset.checkpoint.interval.ms",
        _INT,
        "How often the logs' start offsets are written down.",
        _LOGSTORE,
    ),
    _key("log.cleaner.enable", _BOOLEAN, "Whether logs are compacted.", _LOGSTORE),
    _key("log.cleaner.threads", _INT, "There is one cleaner, a process of its own, whatever the number.", _LOGSTORE),
    _key("log.cleaner.backoff.ms", _LONG, "How long the cleaner rests when there is nothing to clean.", _LOGSTORE),
    _key("log.cleaner.io.max.bytes.per.second", _DOUBLE, "What the cleaner reads and writes at most.", _LOGSTORE),
    _key("log.cleaner.io.buffer.size", _INT, "What the cleaner reads at once.", _LOGSTORE),
    _key("log.cleaner.dedupe.buffer.size", _LONG, "Memory for the keys of what is being cleaned.", _LOGSTORE),
    _key("log.cleaner.io.buffer.load.factor", _DOUBLE, "How much of that memory may be used.", _LOGSTORE),
    _key(
        "replica.lag.time.max.ms",
        _LONG,
        "A follower that has not had everything for so long leaves the ISR.",
        _LOGSTORE,
    ),
    _key(
        "replica.selector.class",
        _STRING,
        "Whether consumers that say where they are (client.rack) are told of a replica nearer to them.",
        _LOGSTORE,
        choices=get_args(ReplicaSelectorClass),
    ),
    _key("replica.fetch.max.bytes", _INT, "Bytes of records of one partition in an answer to a follower.", _LOGSTORE),
    _key("replica.fetch.response.max.bytes", _INT, "Bytes of records in an answer to a follower.", _LOGSTORE),
    _key("replica.fetch.wait.max.ms", _INT, "How long a leader may wait for something to tell.", _LOGSTORE),
    _key(
        "replica.fetch.backoff.ms",
        _INT,
        "How long a follower waits after an error before it asks for a partition again.",
        _LOGSTORE,
    ),
    *[
        _key(
            name,
            _LONG,
            documentation,
            _LOGSTORE,
            validator=Range(0),
            update_mode=UpdateMode.CLUSTER_WIDE,
        )
        for name, documentation in (
            (
                "leader.replication.throttled.rate",
                "Bytes a second that a leader sends at most to the followers that topics name as throttled.",
            ),
            (
                "follower.replication.throttled.rate",
                "Bytes a second that a follower fetches at most of the partitions that topics name as throttled.",
            ),
            (
                "replica.alter.log.dirs.io.max.bytes.per.second",
                "Bytes a second at which partitions move between log directories at most.",
            ),
        )
    ],
    _key("replication.quota.window.num", _INT, "Windows that rates of replication are measured over.", _LOGSTORE),
    _key("replication.quota.window.size.seconds", _INT, "How long each of these windows is.", _LOGSTORE),
    _key(
        "alter.log.dirs.replication.quota.window.num",
        _INT,
        "Windows that the rate of moves between log directories is measured over.",
        _LOGSTORE,
    ),
    _key(
        "alter.log.dirs.replication.quota.window.size.seconds",
        _INT,
        "How long each of these windows is.",
        _LOGSTORE,
    ),
    _key("producer.id.expiration.ms", _INT, "A producer that is silent for so long is forgotten.", _LOGSTORE),
    _key("producer.id.expiration.check.interval.ms", _INT, "How often producers are looked through.", _LOGSTORE),
    _key(
        "group.initial.rebalance.delay.ms",
        _INT,
        "How long an empty group that somebody joins waits for others.",
        _LOGSTORE,
    ),
    _key("group.min.session.timeout.ms", _INT, "The shortest session that a member may ask for.", _LOGSTORE),
    _key("group.max.session.timeout.ms", _INT, "The longest session that a member may ask for.", _LOGSTORE),
    _key("group.max.size", _INT, "Members that a group has at most.", _LOGSTORE),
    _key(
        "offsets.retention.minutes",
        _INT,
        "Offsets of a group that has been empty for so long, or has left their topic, are forgotten.",
        _LOGSTORE,
    ),
    _key("offsets.retention.check.interval.ms", _LONG, "How often such offsets are looked for.", _LOGSTORE),
    _key("offset.metadata.max.bytes", _INT, "The longest text that may be committed with an offset.", _LOGSTORE),
    _key(
        "max.incremental.fetch.session.cache.slots",
        _INT,
        "Incremental fetch sessions of a gateway, shared out among its processors.",
        _GATEWAY,
    ),
    _key("max.request.partition.size.limit", _INT, "Partitions in an answer to DescribeTopicPartitions.", _GATEWAY),
    _key(
        "log.message.downconversion.enable",
        _BOOLEAN,
        "Whether Fetch v0 to v3 are answered in the old message formats, as Kafka 3 did.",
        _GATEWAY,
    ),
)

_BARNABAS: Final = (
    _key("etcd.endpoints", _LIST, "Where etcd is: host:port, separated by commas.", *_ALL),
    _key("etcd.prefix", _STRING, "What every key of this cluster begins with in etcd.", *_ALL),
    _key("etcd.tls.authority", _STRING, "The PEM file of etcd's authority; it turns TLS on.", *_ALL),
    _key("etcd.tls.certificate", _STRING, "The PEM file of our certificate for etcd.", *_ALL),
    _key("etcd.tls.key", _STRING, "The PEM file of our key for etcd.", *_ALL),
    _key("lease.ttl.ms", _INT, "How long a service that is silent counts as alive.", *_ALL),
    _key("metrics.listeners", _STRING, "Where Prometheus finds a service's metrics; empty: nowhere.", *_ALL),
    _key(
        "metrics.topics.max",
        _INT,
        "Topics with metrics of their own on a logstore, the first ones it has; others share one label.",
        _LOGSTORE,
    ),
    _key(
        "metrics.enable",
        _BOOLEAN,
        "Whether a gateway counts and times requests. It costs a percent or two: off is for measuring that.",
        _GATEWAY,
    ),
    _key(
        "request.log.slow.ms",
        _INT,
        "A timed request that takes as long is logged, with where its time went; -1: none.",
        _GATEWAY,
    ),
    _key("traces.otlp.endpoint", _STRING, "The collector of traces, gRPC host:port; empty: no traces.", *_ALL),
    _key("traces.sample.ratio", _DOUBLE, "The part of requests that is traced, from 0 to 1.", _GATEWAY),
    _key("log.level", _STRING, "From which level on a service logs.", *_ALL),
    _key("log.format", _STRING, "Log lines as json, or for a console.", *_ALL),
    _key("control.listeners", _STRING, "Where the controller connects to a logstore; empty: the next port.", _LOGSTORE),
    _key("gateway.id", _STRING, "The name of a gateway in the cluster.", _GATEWAY),
    _key("advertised.address.policy", _STRING, "Where clients find broker ids: see docs/architecture.md.", _GATEWAY),
    _key("ops.listeners", _STRING, "Where a gateway's health is served.", _GATEWAY),
    _key("queued.max.response.bytes", _LONG, "Bytes of Fetch answers that one processor holds at once.", _GATEWAY),
    _key(
        "controller.silence.max.ms",
        _LONG,
        "A gateway that has not heard from a controller for so long is not ready.",
        _GATEWAY,
    ),
    _key(
        "min.incremental.fetch.session.eviction.ms",
        _LONG,
        "A fetch session that is younger than this is not put out for another one.",
        _GATEWAY,
    ),
    _key(
        "produce.message.upconversion.enable",
        _BOOLEAN,
        "Whether Produce v0 to v2 are taken, and their records converted.",
        _GATEWAY,
    ),
    _key("pod.id", _STRING, "The name of a purgatory pod in the cluster.", _PURGATORY),
    _key("purgatory.entries.max", _INT, "Conditions that a purgatory pod holds at once.", _PURGATORY),
    _key("controller.id", _STRING, "The name of a controller in the cluster.", _CONTROLLER),
)

BROKER_KEYS: Final[dict[str, BrokerKey]] = {key.name: key for key in (*_KAFKAS, *_topic_defaults(), *_BARNABAS)}
"""By name."""

BARNABAS_ONLY: Final = frozenset(key.name for key in _BARNABAS)
"""Keys that Kafka does not know."""


def synonyms(name: str) -> tuple[str, ...]:
    """The keys that say the same in other units, the one that goes first first (KIP-226); just `name` for most."""
    return _SYNONYMS.get(name, (name,))


_SYNONYMS: Final = {
    synonym.name: tuple(each.name for each in topic_key.synonyms)
    for topic_key in TOPIC_KEYS.values()
    for synonym in topic_key.synonyms
    if len(topic_key.synonyms) > 1
}


def default_for_topics(name: str) -> Any:
    """The default of a broker key that topics follow, as a value in the key's own unit.

    Of keys that say the same, the last has the default of the topic's key, and the others are unset: None.
    """
    for topic_key in TOPIC_KEYS.values():
        for synonym in topic_key.synonyms:
            if synonym.name == name:
                default = default_of(topic_key.name)
                if synonym is not topic_key.synonyms[-1]:
                    return None
                return default if synonym.factor == 1 else default // synonym.factor
    raise LookupError(f"no topic follows {name}")


def topic_defaults(broker_configs: Mapping[str, str]) -> dict[str, str]:
    """What topics get from broker keys that are set, by topics' own names; good texts only."""
    defaults: dict[str, str] = {}
    for topic_key in TOPIC_KEYS.values():
        for synonym in topic_key.synonyms:
            text = broker_configs.get(synonym.name)
            if text is not None:
                # -1 hours are for ever, too.
                defaults[topic_key.name] = text if synonym.factor == 1 else str(max(int(text) * synonym.factor, -1))
                break
    return defaults
