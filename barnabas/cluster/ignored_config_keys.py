"""Broker keys that Kafka lets clients change while a broker runs, and that have no effect here.

Clients and infrastructure as code set them, librdkafka's own tests among them, so they are accepted, kept and described
as in Kafka. What would be expected to have an effect is refused instead: limits, directories, groups of other
protocols, and whatever names a class (`barnabas.cluster.kafka_config_keys`). Types, defaults and bounds are Kafka's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from barnabas.cluster.broker_config_keys import BROKER_KEYS
from barnabas.cluster.broker_key import BrokerKey, UpdateMode
from barnabas.cluster.config_values import INT64_MAX, ConfigType, Range, Validator
from barnabas.cluster.kafka_config_keys import UNSUPPORTED

_DECLARED: Final[dict[ConfigType, dict[str, tuple[str | None, Validator | None]]]] = {
    ConfigType.STRING: {
        "sasl.kerberos.kinit.cmd": ("/usr/bin/kinit", None),
        "ssl.endpoint.identification.algorithm": ("https", None),
        "ssl.keymanager.algorithm": ("SunX509", None),
        "ssl.provider": (None, None),
        "ssl.secure.random.implementation": (None, None),
        "ssl.trustmanager.algorithm": ("PKIX", None),
    },
    ConfigType.DOUBLE: {
        "sasl.kerberos.ticket.renew.jitter": ("0.05", None),
        "sasl.kerberos.ticket.renew.window.factor": ("0.8", None),
        "sasl.login.refresh.window.factor": ("0.8", Range(0.5, 1.0)),
        "sasl.login.refresh.window.jitter": ("0.05", Range(0.0, 0.25)),
    },
    ConfigType.SHORT: {
        "sasl.login.refresh.buffer.seconds": ("300", Range(0, 3600)),
        "sasl.login.refresh.min.period.seconds": ("60", Range(0, 900)),
    },
    ConfigType.LONG: {
        "remote.list.offsets.request.timeout.ms": ("30000", Range(1)),
        "remote.log.index.file.cache.total.size.bytes": (str(2**30), Range(1)),
        "remote.log.manager.copy.max.bytes.per.second": (str(INT64_MAX), Range(1)),
        "remote.log.manager.fetch.max.bytes.per.second": (str(INT64_MAX), Range(1)),
        "sasl.kerberos.min.time.before.relogin": ("60000", None),
    },
    ConfigType.INT: {
        "background.threads": ("10", Range(1)),
        "num.replica.fetchers": ("1", Range(1)),
        "remote.fetch.max.wait.ms": ("500", Range(1)),
        "remote.log.manager.copier.thread.pool.size": ("10", Range(1)),
        "remote.log.manager.expiration.thread.pool.size": ("10", Range(1)),
        "remote.log.manager.follower.thread.pool.size": ("2", Range(1)),
        "remote.log.reader.threads": ("10", Range(1)),
    },
    ConfigType.BOOLEAN: {"follower.fetch.last.tiered.offset.enable": ("false", None)},
}


def _keys() -> Iterator[BrokerKey]:
    for config_type, declared in _DECLARED.items():
        for name, (default, validator) in declared.items():
            documentation = f"No effect: {UNSUPPORTED[name]}."
            yield BrokerKey(name, config_type, default, documentation, validator, update_mode=UpdateMode.CLUSTER_WIDE)


IGNORED_KEYS: Final[Mapping[str, BrokerKey]] = {key.name: key for key in _keys()}
"""By name."""

ALTERABLE_KEYS: Final[Mapping[str, BrokerKey]] = {**BROKER_KEYS, **IGNORED_KEYS}
"""Every key whose change a controller decides about."""
