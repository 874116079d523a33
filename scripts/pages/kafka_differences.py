"""Every key, version, feature, error and configuration key in which Barnabas differs from Apache Kafka 4.4.0, and why.

`scripts/protocol` writes them to `docs/reference/kafka-4.4.md`. `tests/unit/docs/test_kafka_differences.py` compares
them with what Kafka's jars say, `kafka-4.4.0-serves.tsv` and `kafka_configs.tsv`: what differs and is not here fails
it, and so does what is here and does not differ.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from barnabas.cluster.kafka_config_keys import UNSUPPORTED
from barnabas.wire.api_keys import SERVED_KEYS
from scripts.pages.configuration import by_reason
from tests.unit.wire.golden import serves

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "kafka-4.4.md"

_CONSUMER_GROUPS = "the new consumer group protocol (KIP-848) is not served yet"
_SHARE_GROUPS = "share groups and their coordinator (KIP-932) are not served yet"
_STREAMS_GROUPS = "streams groups (KIP-1071) are not served yet"
_TELEMETRY = "there is no store for the metrics of clients yet (KIP-714); Kafka lists it where a broker has a plugin"
_QUORUM = "cluster state is in etcd, and there is no KRaft quorum to look at or to change"


class Difference(NamedTuple):
    """Versions that ApiVersions lists, none where the key is not served; of `without_schema` there are no messages."""

    kafka: str
    barnabas: str
    why: str
    without_schema: str = ""


API_KEYS: Final = {
    1: Difference("4-18", "0-18", "consumers of the old message formats are served too, unless these are switched off"),
    18: Difference(
        "0-5",
        "0-4",
        "version 5 has the cluster id and the node id that the client expects; a mismatch is REBOOTSTRAP_REQUIRED "
        "(KIP-1242). A gateway serves every broker, so each one has to check the node id by the address that the "
        "client reached before any lists version 5: librdkafka kept its old brokers on that error until September "
        "2026. With version 4 no client asks for the check. Java's clients of 4.4 ask in version 5 first, and are "
        "answered UNSUPPORTED_VERSION: each of their connections begins with one more round trip",
        "5",
    ),
    28: Difference("0-6", "0-5", "version 6 has the ids of topics (KIP-1319); version 5 has their names", "6"),
    42: Difference("0-3", "0-2", "version 3 has a message for each group that is not deleted", "3"),
    55: Difference("0-2", "none", _QUORUM),
    64: Difference("0", "none", "`barnabas nodes remove` removes a logstore"),
    68: Difference("0-1", "none", _CONSUMER_GROUPS),
    69: Difference("0-1", "none", _CONSUMER_GROUPS),
    71: Difference("0", "none", _TELEMETRY),
    72: Difference("0", "none", _TELEMETRY),
    76: Difference("1", "none", _SHARE_GROUPS),
    77: Difference("1", "none", _SHARE_GROUPS),
    78: Difference("1-2", "none", _SHARE_GROUPS),
    79: Difference("1-2", "none", _SHARE_GROUPS),
    80: Difference("0-1", "none", _QUORUM),
    81: Difference("0", "none", _QUORUM),
    83: Difference("0", "none", _SHARE_GROUPS),
    84: Difference("0", "none", _SHARE_GROUPS),
    85: Difference("0-1", "none", _SHARE_GROUPS),
    86: Difference("0", "none", _SHARE_GROUPS),
    87: Difference("0-1", "none", _SHARE_GROUPS),
    88: Difference("0-1", "none", _STREAMS_GROUPS, "1"),
    89: Difference("0-1", "none", _STREAMS_GROUPS, "1"),
    90: Difference("0-1", "none", _SHARE_GROUPS),
    91: Difference("0", "none", _SHARE_GROUPS),
    92: Difference("0", "none", _SHARE_GROUPS),
    93: Difference("0", "none", _STREAMS_GROUPS, "0"),
    94: Difference("0", "none", _QUORUM, "0"),
}

FEATURES: Final = {
    "eligible.leader.replicas.version": "the last member of an ISR never leaves it, so no other record of it is needed",
    "group.version": _CONSUMER_GROUPS,
    "kraft.version": _QUORUM,
    "metadata.version": "the services agree on the version of what they send each other, and etcd has no such level",
    "share.version": _SHARE_GROUPS,
    "streams.version": _STREAMS_GROUPS,
}
"""Features that Kafka lists in ApiVersions, and Barnabas does not."""

ERRORS: Final = {
    134: "it is of DeleteGroups version 3, and has its cause in the message that version 2 lacks",
    135: _STREAMS_GROUPS,
    136: _QUORUM,
}
"""Errors that Barnabas does not know, and so never answers with."""

NEW_BROKER_KEYS_WITHOUT_EFFECT: Final = (
    "errors.deadletterqueue.auto.create.topics.enable",
    "errors.deadletterqueue.topic.name.prefix",
    "group.consumer.assignor.offload.enable",
    "group.share.assignor.offload.enable",
    "group.share.dlq.manager.class.name",
    "group.streams.acceptable.recovery.lag",
    "group.streams.assignor.offload.enable",
    "group.streams.assignors",
    "group.streams.max.warmup.replicas",
    "group.streams.min.task.offset.interval.ms",
    "group.streams.num.warmup.replicas",
    "group.streams.rack.aware.assignment.tags",
    "group.streams.task.offset.interval.ms",
    "group.streams.topology.description.plugin.class",
    "log.remote.copy.lag.bytes",
    "log.remote.copy.lag.ms",
    "sasl.oauthbearer.allow.unverified.audience",
    "sasl.oauthbearer.allow.unverified.issuer",
)
"""Broker keys that Kafka 4.4 has and 4.3 had not, of those that nothing here reads."""

TOPIC_KEYS_WITHOUT_EFFECT: Final = {
    "errors.deadletterqueue.group.enable": "dead letters (KIP-1191) are of share groups, which are not served yet",
    "preallocate": "a segment's file grows as it is written",
    **dict.fromkeys(
        (
            "local.retention.bytes",
            "local.retention.ms",
            "remote.copy.lag.bytes",
            "remote.copy.lag.ms",
            "remote.log.copy.disable",
            "remote.log.delete.on.disable",
            "remote.storage.enable",
        ),
        "there is no tiered storage, and `remote.storage.enable=true` is INVALID_CONFIG",
    ),
}
"""Topic keys of Kafka 4.4 that are checked as Kafka does, kept and described, and that nothing reads."""

HEAD = """# What Apache Kafka 4.4 serves and Barnabas does not, and why

Written by `scripts/protocol` from `scripts/pages/kafka_differences.py`; change that, not this page. A test compares
it with the jars of Apache Kafka 4.4.0: it fails if a key, a version, a feature, an error or a configuration key differs
and is not here, and if one is here and does not differ.

[protocol.md](protocol.md) has all API keys with the versions that are served, [skipped.md](../skipped.md) what else is
not served or differs, and what a client sees of it.

## API keys

Brokers of Kafka 4.4 list {kafka} API keys to clients in ApiVersions, and Barnabas {barnabas}. The {same} that are not
below are listed with the same versions.

| key | name | Kafka 4.4 | Barnabas | why |
|---:|---|---|---|---|
"""

FEATURES_HEAD = """
## Features

| feature | levels in Kafka 4.4 | by default | why Barnabas has none |
|---|---|---|---|
"""

ERRORS_HEAD = """
## Errors

| code | name | why it is never answered |
|---:|---|---|
"""

CONFIG_KEYS = """
## Configuration keys

Every broker key of Kafka 4.4 is known. A file may have those without an effect here: each service logs them at its
start, with the reason, and [configuration.md](configuration.md#kafkas-keys-without-effect) has them all. These are new
in Kafka 4.4:

{brokers}
Every topic key of Kafka 4.4 can be set, has Kafka's type, bounds and default, and is described with the broker keys
that it follows. These have no effect:

{topics}"""


def kafkas_names() -> dict[int, str]:
    """Of the keys that brokers list to clients."""
    return {int(key): name for key, name, _, _ in serves("key")}


def page() -> str:
    names = kafkas_names()
    errors = {int(code): name for code, name in serves("error")}
    levels = {name: (low, high, default) for name, low, high, default in serves("feature")}
    text = HEAD.format(kafka=len(names), barnabas=len(SERVED_KEYS), same=len(names) - len(API_KEYS))
    for key, each in API_KEYS.items():
        barnabas = "" if each.barnabas == "none" else _spoken(each.barnabas)
        text += f"| {key} | {names[key]} | {_spoken(each.kafka)} | {barnabas} | {each.why} |\n"
    without = ", ".join(f"{names[key]} v{each.without_schema}" for key, each in API_KEYS.items() if each.without_schema)
    text += f"\nBarnabas can read and write the messages of all these but {without}.\n"
    text += FEATURES_HEAD
    for feature, why in FEATURES.items():
        low, high, default = levels[feature]
        text += f"| `{feature}` | {low} to {high} | {default} | {why} |\n"
    text += ERRORS_HEAD
    text += "".join(f"| {code} | {errors[code]} | {why} |\n" for code, why in ERRORS.items())
    new = {name: UNSUPPORTED[name] for name in NEW_BROKER_KEYS_WITHOUT_EFFECT}
    return text + CONFIG_KEYS.format(brokers=by_reason(new), topics=by_reason(TOPIC_KEYS_WITHOUT_EFFECT))


def _spoken(versions: str) -> str:
    return versions.replace("-", " to ")
