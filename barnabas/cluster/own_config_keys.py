"""The configuration keys that Kafka does not have, by what they are for."""

from __future__ import annotations

from typing import Final

from barnabas.cluster.broker_key import broker_key as _key
from barnabas.cluster.config_values import ConfigType
from barnabas.cluster.keys import Role

_BOOLEAN, _STRING, _INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
_LONG, _DOUBLE, _LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST
_GATEWAY, _LOGSTORE, _PURGATORY, _CONTROLLER = Role.GATEWAY, Role.LOGSTORE, Role.PURGATORY, Role.CONTROLLER
_PASSWORD: Final = ConfigType.PASSWORD
_ALL: Final = (_LOGSTORE, _GATEWAY, _PURGATORY, _CONTROLLER)

OWN_KEYS: Final = (
    _key("etcd.endpoints", _LIST, "Addresses of etcd: host:port, separated by commas.", *_ALL),
    _key("etcd.prefix", _STRING, "Prefix of this cluster's keys in etcd.", *_ALL),
    _key("etcd.tls.authority", _STRING, "PEM file with the CA certificate for etcd; enables TLS.", *_ALL),
    _key("etcd.tls.certificate", _STRING, "PEM file with the client certificate for etcd.", *_ALL),
    _key("etcd.tls.key", _STRING, "PEM file with the private key for etcd.", *_ALL),
    _key("etcd.user", _STRING, "User name for an etcd with authentication; empty: none.", *_ALL),
    _key("etcd.password", _PASSWORD, "Password of that user.", *_ALL),
    _key(
        "inter.service.tls.authority",
        _STRING,
        "PEM file with the CA certificate of the other services; enables mutual TLS between all services.",
        *_ALL,
    ),
    _key("inter.service.tls.certificate", _STRING, "PEM file with this service's certificate and chain.", *_ALL),
    _key("inter.service.tls.key", _STRING, "PEM file with the private key of that certificate.", *_ALL),
    _key(
        "inter.service.tls.domain",
        _STRING,
        "Certificates of services have the name ROLE.DOMAIN, as logstore.barnabas.internal. One per cluster.",
        *_ALL,
    ),
    _key(
        "health.listeners",
        _STRING,
        "Listen address of health for probes, which by mutual TLS reach no other; empty: none.",
        _LOGSTORE,
        _PURGATORY,
        _CONTROLLER,
    ),
    _key(
        "health.tls.certificate",
        _STRING,
        "PEM file with the certificate and chain of health.listeners and ops.listeners; enables TLS there.",
        *_ALL,
    ),
    _key("health.tls.key", _STRING, "PEM file with the private key of that certificate.", *_ALL),
    _key(
        "health.tls.authority",
        _STRING,
        "PEM file with the CA certificate of probes, which need a certificate then; empty: they need none.",
        *_ALL,
    ),
    _key("lease.ttl.ms", _INT, "Time to live of a service's registration without a renewal.", *_ALL),
    _key("metrics.listeners", _STRING, "Listen address of the Prometheus endpoint; empty: none.", *_ALL),
    _key(
        "metrics.tls.certificate",
        _STRING,
        "PEM file with the certificate and chain of the Prometheus endpoint; enables TLS there.",
        *_ALL,
    ),
    _key("metrics.tls.key", _STRING, "PEM file with the private key of that certificate.", *_ALL),
    _key(
        "metrics.tls.authority",
        _STRING,
        "PEM file with the CA certificate of scrapers, which need a certificate then; empty: they need none.",
        *_ALL,
    ),
    _key(
        "metrics.token.file",
        _STRING,
        "File with the bearer token that scrapers have to send; empty: they need none.",
        *_ALL,
    ),
    _key(
        "metrics.topics.max",
        _INT,
        "Maximum topics with their own metrics on a logstore, in order of appearance; all others share one label.",
        _LOGSTORE,
    ),
    _key(
        "metrics.enable",
        _BOOLEAN,
        "Whether a gateway counts and times requests. This costs one or two percent; off is for measuring that.",
        _GATEWAY,
    ),
    _key(
        "request.log.slow.ms",
        _INT,
        "Timed requests that take this long are logged with the time per hop; -1: none.",
        _GATEWAY,
    ),
    _key("audit.topic", _STRING, "The topic that records of the audit go to, besides the log; empty: none.", _GATEWAY),
    _key("traces.otlp.endpoint", _STRING, "OTLP collector of traces, gRPC host:port; empty: no traces.", *_ALL),
    _key("traces.sample.ratio", _DOUBLE, "Fraction of requests that is traced, from 0 to 1.", _GATEWAY),
    _key("log.level", _STRING, "Minimum level of log lines.", *_ALL),
    _key("log.format", _STRING, "Format of log lines: json or console.", *_ALL),
    _key(
        "control.listeners",
        _STRING,
        "Listen address for the controller's connection to a logstore; empty: the next port.",
        _LOGSTORE,
    ),
    _key("gateway.id", _STRING, "The name of a gateway in the cluster.", _GATEWAY),
    _key("advertised.address.policy", _STRING, "How clients reach brokers: see docs/architecture.md.", _GATEWAY),
    _key("ops.listeners", _STRING, "Listen address of a gateway's health service.", _GATEWAY),
    _key("queued.max.response.bytes", _LONG, "Maximum bytes of Fetch responses held by one processor.", _GATEWAY),
    _key(
        "controller.silence.max.ms",
        _LONG,
        "A gateway that has not heard from a controller for this long is not ready.",
        _GATEWAY,
    ),
    _key(
        "min.incremental.fetch.session.eviction.ms",
        _LONG,
        "Minimum idle time before a fetch session is evicted for another one.",
        _GATEWAY,
    ),
    _key(
        "produce.message.upconversion.enable",
        _BOOLEAN,
        "Whether Produce v0 to v2 are accepted, and their records converted.",
        _GATEWAY,
    ),
    _key("pod.id", _STRING, "The name of a purgatory pod in the cluster.", _PURGATORY),
    _key("purgatory.entries.max", _INT, "Maximum conditions in a purgatory pod.", _PURGATORY),
    _key("controller.id", _STRING, "The name of a controller in the cluster.", _CONTROLLER),
    _key("operations.listeners", _STRING, "Listen address of the operators' API.", _CONTROLLER),
    _key("operations.advertised.listeners", _STRING, "Its advertised address; empty: the listen address.", _CONTROLLER),
    _key(
        "operations.authentication",
        _STRING,
        "How operators authenticate: certificate, token or none; empty: by what is configured, and by nothing only on "
        "a loopback address.",
        _CONTROLLER,
    ),
    _key("operations.tls.certificate", _STRING, "PEM file with the certificate of that port.", _CONTROLLER),
    _key("operations.tls.key", _STRING, "PEM file with its private key.", _CONTROLLER),
    _key("operations.tls.authority", _STRING, "PEM file with the CA of operators' certificates.", _CONTROLLER),
    _key("operations.token.issuer", _STRING, "Issuer of operators' tokens (OpenID Connect).", _CONTROLLER),
    _key("operations.token.audience", _STRING, "Audience that tokens have to name.", _CONTROLLER),
    _key("operations.token.jwks", _STRING, "The issuer's keys: a file with a JWK set, or its https URL.", _CONTROLLER),
    _key(
        "operations.token.jwks.authority",
        _STRING,
        "PEM file with the CA of that URL; empty: those of the system.",
        _CONTROLLER,
    ),
    _key(
        "operations.token.roles.claim",
        _STRING,
        "Claim of a token with its roles; a dot leads into an object: realm_access.roles.",
        _CONTROLLER,
    ),
    _key("operations.viewers", _LIST, "Names of operators that may read.", _CONTROLLER),
    _key("operations.operators", _LIST, "Names that may also move leaders and replicas, and drain nodes.", _CONTROLLER),
    _key("operations.admins", _LIST, "Names that may do everything.", _CONTROLLER),
)
