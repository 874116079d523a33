"""Every configuration key of Barnabas' services: type, bounds, which services read it, and whether it may change.

Kafka's names where Kafka has the thing. The keys that topics follow are made from `TOPIC_KEYS`, and services take their
defaults and bounds from there. The default of any other key is with each service
(`services/*/barnabas_*/shell/config.py`; a test holds the two together), as are its bounds unless the key can change
while services run. What Kafka has and Barnabas has not is in `barnabas.cluster.kafka_config_keys`. No key names a class
or a URL to load anything from, and none ever may while it is dynamic (CVE-2025-27817, CVE-2025-27818).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias, get_args

from barnabas.cluster.broker_key import BrokerKey, UpdateMode
from barnabas.cluster.broker_key import broker_key as _key
from barnabas.cluster.config_values import ConfigType, Range
from barnabas.cluster.kafka_config_keys import UNSUPPORTED
from barnabas.cluster.keys import Role
from barnabas.cluster.own_config_keys import OWN_KEYS
from barnabas.cluster.topic_config_keys import TOPIC_KEYS, default_of

_BOOLEAN, _STRING, _INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
_LONG, _DOUBLE, _LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST
_PASSWORD: Final = ConfigType.PASSWORD
_GATEWAY, _LOGSTORE, _PURGATORY, _CONTROLLER = Role.GATEWAY, Role.LOGSTORE, Role.PURGATORY, Role.CONTROLLER
_ALL: Final = (_LOGSTORE, _GATEWAY, _PURGATORY, _CONTROLLER)
_GATEWAY_FIRST: Final = (_GATEWAY, _LOGSTORE, _PURGATORY, _CONTROLLER)


ReplicaSelectorClass: TypeAlias = Literal[
    "org.apache.kafka.common.replica.LeaderSelector", "org.apache.kafka.common.replica.RackAwareReplicaSelector"
]


_READERS_OF_TOPIC_DEFAULTS: Final = {
    "min.insync.replicas": (_LOGSTORE, _CONTROLLER),
    "unclean.leader.election.enable": (_CONTROLLER,),
}


def _topic_defaults() -> Iterator[BrokerKey]:
    """The keys that topics inherit: a number in another unit can't be changed dynamically, as in Kafka.

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
                f"Default for topics without {topic_key.name}. {topic_key.documentation}",
                topic_key.validator,
                topic_key.choices,
                _READERS_OF_TOPIC_DEFAULTS.get(synonym.name, (_LOGSTORE,)),
                UpdateMode.CLUSTER_WIDE if is_same else UpdateMode.READ_ONLY,
            )


_KAFKAS: Final = (
    _key("listeners", _LIST, "Listen address: NAME://host:port in a gateway, otherwise host:port.", *_GATEWAY_FIRST),
    _key(
        "advertised.listeners",
        _LIST,
        "Advertised address: by listener name in a gateway, otherwise one host:port.",
        *_GATEWAY_FIRST,
    ),
    _key("listener.security.protocol.map", _STRING, "The protocol of each listener name.", _GATEWAY),
    _key(
        "sasl.enabled.mechanisms",
        _LIST,
        "SASL mechanisms of listeners with SASL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI.",
        _GATEWAY,
    ),
    _key("sasl.server.max.receive.size", _INT, "Maximum size of a token before authentication.", _GATEWAY),
    _key(
        "connections.max.reauth.ms",
        _LONG,
        "How long an authenticated session lasts until the client has to authenticate again; 0: no limit.",
        _GATEWAY,
    ),
    _key(
        "sasl.oauthbearer.jwks.endpoint.url", _STRING, "Keys of the tokens' issuer: https://… or file:///….", _GATEWAY
    ),
    _key("sasl.oauthbearer.jwks.endpoint.refresh.ms", _LONG, "Interval at which these keys are read again.", _GATEWAY),
    _key("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", _LONG, "Wait after keys could not be read.", _GATEWAY),
    _key("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", _LONG, "Maximum of this wait.", _GATEWAY),
    _key("sasl.oauthbearer.expected.issuer", _STRING, "Issuer that a token must have (iss).", _GATEWAY),
    _key("sasl.oauthbearer.expected.audience", _LIST, "Audiences of which a token must have one (aud).", _GATEWAY),
    _key("sasl.oauthbearer.clock.skew.seconds", _INT, "How far the issuer's clock may differ.", _GATEWAY),
    _key("sasl.oauthbearer.scope.claim.name", _STRING, "The claim with a token's scope.", _GATEWAY),
    _key("sasl.oauthbearer.sub.claim.name", _STRING, "The claim with the principal's name.", _GATEWAY),
    _key("sasl.kerberos.service.name", _STRING, "First component of the principal of GSSAPI's listeners.", _GATEWAY),
    _key("sasl.kerberos.principal.to.local.rules", _LIST, "Rules that make users of Kerberos principals.", _GATEWAY),
    _key(
        "delegation.token.secret.key",
        _PASSWORD,
        "What the secrets of delegation tokens are made by, the same on all gateways; empty: there are no tokens.",
        _GATEWAY,
    ),
    _key("delegation.token.max.lifetime.ms", _LONG, "Maximum lifetime of a delegation token.", _CONTROLLER),
    _key("delegation.token.expiry.time.ms", _LONG, "How long a token lasts until it has to be renewed.", _CONTROLLER),
    _key(
        "delegation.token.expiry.check.interval.ms",
        _LONG,
        "Interval at which delegation tokens that have expired are removed.",
        _CONTROLLER,
    ),
    _key(
        "connection.failed.authentication.delay.ms",
        _INT,
        "Delay before a failed authentication is answered, and its connection closed.",
        _GATEWAY,
    ),
    _key("ssl.keystore.location", _STRING, "File with a listener's private key and certificates.", _GATEWAY),
    _key("ssl.keystore.type", _STRING, "PEM or PKCS12; by the file's content if unset.", _GATEWAY),
    _key("ssl.keystore.password", _PASSWORD, "Password of a PKCS12 key store.", _GATEWAY),
    _key("ssl.key.password", _PASSWORD, "Password of a private key in PEM.", _GATEWAY),
    _key("ssl.keystore.certificate.chain", _PASSWORD, "Certificates in PEM, instead of a file.", _GATEWAY),
    _key("ssl.keystore.key", _PASSWORD, "Private key in PEM, instead of a file.", _GATEWAY),
    _key("ssl.truststore.location", _STRING, "File with the authorities of clients' certificates.", _GATEWAY),
    _key("ssl.truststore.type", _STRING, "PEM or PKCS12; by the file's content if unset.", _GATEWAY),
    _key("ssl.truststore.password", _PASSWORD, "Password of a PKCS12 trust store.", _GATEWAY),
    _key("ssl.truststore.certificates", _PASSWORD, "Authorities in PEM, instead of a file.", _GATEWAY),
    _key(
        "ssl.client.auth",
        _STRING,
        "Whether clients need a certificate.",
        _GATEWAY,
        choices=("required", "requested", "none"),
    ),
    _key(
        "ssl.cipher.suites",
        _LIST,
        "Cipher suites by Java's names, the preferred one first; those of TLS 1.3 all or none. Empty: OpenSSL's.",
        _GATEWAY,
    ),
    _key("ssl.protocol", _STRING, "As in Kafka's files; ssl.enabled.protocols chooses the versions.", _GATEWAY),
    _key("ssl.enabled.protocols", _LIST, "Versions of TLS: TLSv1.2, TLSv1.3.", _GATEWAY),
    _key(
        "ssl.principal.mapping.rules",
        _STRING,
        "The principal of a client's certificate, by rules for its subject.",
        _GATEWAY,
    ),
    _key(
        "num.network.threads",
        _INT,
        "Number of a gateway's processors, each a separate process.",
        _GATEWAY,
        validator=Range(1, 256),
        update_mode=UpdateMode.GATEWAYS,
    ),
    _key(
        "max.connections",
        _INT,
        "Maximum connections of one gateway.",
        _GATEWAY,
        validator=Range(1),
        update_mode=UpdateMode.GATEWAYS,
    ),
    _key(
        "max.connections.per.ip",
        _INT,
        "Maximum connections of one gateway from one address.",
        _GATEWAY,
        validator=Range(1),
        update_mode=UpdateMode.GATEWAYS,
    ),
    _key(
        "max.connection.creation.rate",
        _INT,
        "Maximum rate at which a gateway accepts connections; for a listener with the prefix listener.name.<name>.",
        _GATEWAY,
        validator=Range(0),
        update_mode=UpdateMode.GATEWAYS,
    ),
    _key(
        "quota.window.num",
        _INT,
        "Number of windows of a client's quota: what it gives in all but one may be used at once.",
        _GATEWAY,
    ),
    _key("quota.window.size.seconds", _INT, "Length of each quota window.", _GATEWAY),
    _key(
        "controller.quota.window.num",
        _INT,
        "Number of windows of a quota of mutations: what it gives in all of them may be used at once.",
        _GATEWAY,
    ),
    _key("controller.quota.window.size.seconds", _INT, "Length of each controller quota window.", _GATEWAY),
    _key("connections.max.idle.ms", _LONG, "Connections that are idle for this long are closed.", _GATEWAY),
    _key("socket.request.max.bytes", _INT, "Maximum size of a request.", _GATEWAY),
    _key("socket.listen.backlog.size", _INT, "Maximum connections that wait to be accepted.", _GATEWAY),
    _key("socket.send.buffer.bytes", _INT, "Send buffer of a client's connection; -1: the system's own.", _GATEWAY),
    _key(
        "queued.max.request.bytes",
        _LONG,
        "Maximum bytes of requests held by one processor of a gateway, or by a logstore.",
        _LOGSTORE,
        _GATEWAY,
    ),
    _key("fetch.max.bytes", _INT, "Maximum size of the response to one Fetch, whatever its client requests.", _GATEWAY),
    _key("auto.create.topics.enable", _BOOLEAN, "Whether Metadata creates missing topics.", _GATEWAY),
    _key(
        "authorizer.class.name",
        _STRING,
        "Kafka's StandardAuthorizer: clients may do what ACLs allow; empty: everything. No class is loaded.",
        _GATEWAY,
        choices=("", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
    ),
    _key("super.users", _STRING, "Principals that may do everything, separated by semicolons.", _GATEWAY),
    _key(
        "allow.everyone.if.no.acl.found",
        _BOOLEAN,
        "Whether everything is allowed with a resource that falls under no ACL.",
        _GATEWAY,
    ),
    _key(
        "num.partitions",
        _INT,
        "Partitions of a topic created without a number; a gateway's: of those that Metadata creates, -1: as others.",
        _CONTROLLER,
        _GATEWAY,
    ),
    _key(
        "default.replication.factor",
        _INT,
        "Replicas of a topic created without a number; a gateway's: of those that Metadata creates, -1: as others.",
        _CONTROLLER,
        _GATEWAY,
    ),
    _key(
        "auto.leader.rebalance.enable",
        _BOOLEAN,
        "Whether preferred leaders are elected automatically when a broker leads too few of its partitions.",
        _CONTROLLER,
    ),
    _key(
        "leader.imbalance.check.interval.seconds", _LONG, "How often the imbalance of leaders is checked.", _CONTROLLER
    ),
    _key(
        "leader.imbalance.per.broker.percentage",
        _INT,
        "Percentage of partitions that brokers other than the preferred leader may lead before leaders are rebalanced.",
        _CONTROLLER,
    ),
    _key("offsets.topic.num.partitions", _INT, "Partitions of __consumer_offsets at its creation.", _CONTROLLER),
    _key(
        "offsets.topic.replication.factor",
        ConfigType.SHORT,
        "Replicas of __consumer_offsets at its creation; limited to the number of logstores.",
        _CONTROLLER,
    ),
    _key("offsets.topic.segment.bytes", _INT, "segment.bytes of __consumer_offsets at its creation.", _CONTROLLER),
    _key(
        "transaction.state.log.num.partitions", _INT, "Partitions of __transaction_state at its creation.", _CONTROLLER
    ),
    _key(
        "transaction.state.log.replication.factor",
        ConfigType.SHORT,
        "Replicas of __transaction_state at its creation; limited to the number of logstores.",
        _CONTROLLER,
    ),
    _key(
        "transaction.state.log.segment.bytes",
        _INT,
        "segment.bytes of __transaction_state at its creation.",
        _CONTROLLER,
    ),
    _key(
        "transaction.state.log.min.isr",
        _INT,
        "min.insync.replicas of __transaction_state at its creation.",
        _CONTROLLER,
    ),
    _key(
        "transactional.id.expiration.ms",
        _INT,
        "How long a transactional id without a transaction is known after its last one.",
        _LOGSTORE,
    ),
    _key(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        _INT,
        "How often transactional ids are looked for that have expired.",
        _LOGSTORE,
    ),
    _key(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        _INT,
        "How often transactions are looked for that have taken longer than their producers allowed, to abort them.",
        _LOGSTORE,
    ),
    _key("transaction.max.timeout.ms", _INT, "The longest transaction.timeout.ms of a producer.", _LOGSTORE),
    _key("node.id", _INT, "The broker id of a logstore.", _LOGSTORE),
    _key("broker.id", _INT, "The broker id of a logstore, if node.id is not set.", _LOGSTORE),
    _key("log.dir", _LIST, "Log directory, if log.dirs is not set.", _LOGSTORE),
    _key("log.dirs", _LIST, "Log directories, separated by commas.", _LOGSTORE),
    _key(
        "broker.rack",
        _STRING,
        "Rack of the logstore, for replica placement and for fetches from the nearest replica.",
        _LOGSTORE,
    ),
    _key("num.io.threads", _INT, "Threads for disk reads and writes.", _LOGSTORE),
    _key("num.recovery.threads.per.data.dir", _INT, "Threads per log directory that load logs at startup.", _LOGSTORE),
    _key("queued.max.requests", _INT, "Maximum requests that wait in a logstore.", _LOGSTORE),
    _key("log.retention.check.interval.ms", _LONG, "How often expired segments are looked for.", _LOGSTORE),
    _key(
        "log.flush.offset.checkpoint.interval.ms",
        _INT,
        "How often recovery points are checkpointed.",
        _LOGSTORE,
    ),
    _key(
        "log.flush.start.offset.checkpoint.interval.ms",
        _INT,
        "How often log start offsets are checkpointed.",
        _LOGSTORE,
    ),
    _key("log.cleaner.enable", _BOOLEAN, "Whether logs are compacted.", _LOGSTORE),
    _key("log.cleaner.threads", _INT, "No effect: there is always one cleaner, a separate process.", _LOGSTORE),
    _key(
        "log.cleaner.backoff.ms",
        _LONG,
        "How long the cleaner sleeps when there is nothing to clean.",
        _LOGSTORE,
        validator=Range(0),
        update_mode=UpdateMode.CLUSTER_WIDE,
    ),
    _key("log.cleaner.io.max.bytes.per.second", _DOUBLE, "Bytes per second that the cleaner may move.", _LOGSTORE),
    _key("log.cleaner.io.buffer.size", _INT, "Buffer size of the cleaner's I/O.", _LOGSTORE),
    _key("log.cleaner.dedupe.buffer.size", _LONG, "Memory for the keys of a log being cleaned.", _LOGSTORE),
    _key(
        "log.cleaner.io.buffer.load.factor",
        _DOUBLE,
        "Fraction of log.cleaner.dedupe.buffer.size that may be used.",
        _LOGSTORE,
    ),
    _key(
        "replica.lag.time.max.ms",
        _LONG,
        "A follower that has not been caught up for this long is removed from the ISR.",
        _LOGSTORE,
    ),
    _key(
        "replica.selector.class",
        _STRING,
        "Whether consumers with a client.rack are directed to a nearer replica.",
        _LOGSTORE,
        choices=get_args(ReplicaSelectorClass),
    ),
    _key(
        "replica.fetch.max.bytes",
        _INT,
        "Maximum bytes of records of one partition in a response to a follower.",
        _LOGSTORE,
    ),
    _key("replica.fetch.response.max.bytes", _INT, "Maximum bytes of records in a response to a follower.", _LOGSTORE),
    _key(
        "replica.fetch.wait.max.ms",
        _INT,
        "Maximum time that a leader waits before it answers a follower's fetch.",
        _LOGSTORE,
    ),
    _key(
        "replica.fetch.backoff.ms",
        _INT,
        "How long a follower waits after an error before it fetches a partition again.",
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
                "Maximum bytes per second that a leader sends to followers listed as throttled.",
            ),
            (
                "follower.replication.throttled.rate",
                "Maximum bytes per second that a follower fetches for replicas listed as throttled.",
            ),
            (
                "replica.alter.log.dirs.io.max.bytes.per.second",
                "Maximum bytes per second of moves between log directories.",
            ),
        )
    ],
    _key(
        "replication.quota.window.num", _INT, "Number of windows over which replication rates are measured.", _LOGSTORE
    ),
    _key("replication.quota.window.size.seconds", _INT, "Length of each replication quota window.", _LOGSTORE),
    _key(
        "alter.log.dirs.replication.quota.window.num",
        _INT,
        "Number of windows over which the rate of moves between log directories is measured.",
        _LOGSTORE,
    ),
    _key(
        "alter.log.dirs.replication.quota.window.size.seconds",
        _INT,
        "Length of each of these windows.",
        _LOGSTORE,
    ),
    _key(
        "producer.id.expiration.ms", _INT, "Idempotent producers that are idle for this long are forgotten.", _LOGSTORE
    ),
    _key("producer.id.expiration.check.interval.ms", _INT, "How often expired producers are looked for.", _LOGSTORE),
    _key(
        "group.initial.rebalance.delay.ms",
        _INT,
        "How long the first rebalance of an empty group waits for more members.",
        _LOGSTORE,
    ),
    _key("group.min.session.timeout.ms", _INT, "Minimum session timeout of a member.", _LOGSTORE),
    _key("group.max.session.timeout.ms", _INT, "Maximum session timeout of a member.", _LOGSTORE),
    _key("group.max.size", _INT, "Maximum members of a group.", _LOGSTORE),
    _key(
        "offsets.retention.minutes",
        _INT,
        "Offsets expire when their group has been empty, or not subscribed to their topic, for this long.",
        _LOGSTORE,
    ),
    _key("offsets.retention.check.interval.ms", _LONG, "How often expired offsets are looked for.", _LOGSTORE),
    _key("offset.metadata.max.bytes", _INT, "Maximum size of the metadata committed with an offset.", _LOGSTORE),
    _key(
        "max.incremental.fetch.session.cache.slots",
        _INT,
        "Maximum incremental fetch sessions of a gateway, divided among its processors.",
        _GATEWAY,
    ),
    _key(
        "max.request.partition.size.limit", _INT, "Maximum partitions in a DescribeTopicPartitions response.", _GATEWAY
    ),
    _key(
        "log.message.downconversion.enable",
        _BOOLEAN,
        "Whether Fetch v0 to v3 are answered in the old message formats, as in Kafka 3.",
        _GATEWAY,
    ),
)

BROKER_KEYS: Final[dict[str, BrokerKey]] = {key.name: key for key in (*_KAFKAS, *_topic_defaults(), *OWN_KEYS)}
"""All keys by name."""

BARNABAS_ONLY: Final = frozenset(key.name for key in OWN_KEYS)
"""Keys that Kafka does not have."""


def synonyms(name: str) -> tuple[str, ...]:
    """Return the keys that mean the same in other units, by precedence (KIP-226); only `name` for most."""
    return _SYNONYMS.get(name, (name,))


_SYNONYMS: Final = {
    synonym.name: tuple(each.name for each in topic_key.synonyms)
    for topic_key in TOPIC_KEYS.values()
    for synonym in topic_key.synonyms
    if len(topic_key.synonyms) > 1
}


def default_for_topics(name: str) -> Any:
    """Return the default of a broker key that topics inherit, as a value in the key's own unit.

    Of keys that mean the same, the last has the default of the topic's key, and the others are unset: None.
    """
    for topic_key in TOPIC_KEYS.values():
        for synonym in topic_key.synonyms:
            if synonym.name == name:
                default = default_of(topic_key.name)
                if synonym is not topic_key.synonyms[-1]:
                    return None
                return default if synonym.factor == 1 else default // synonym.factor
    raise LookupError(f"no topic key inherits from {name}")


def topic_defaults(broker_configs: Mapping[str, str]) -> dict[str, str]:
    """Return topics' settings from broker keys that are set, by topics' own names; valid texts only."""
    defaults: dict[str, str] = {}
    for topic_key in TOPIC_KEYS.values():
        for synonym in topic_key.synonyms:
            text = broker_configs.get(synonym.name)
            if text is not None:
                # -1 hours means forever, too.
                defaults[topic_key.name] = text if synonym.factor == 1 else str(max(int(text) * synonym.factor, -1))
                break
    return defaults
