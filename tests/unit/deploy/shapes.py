"""The shapes of values that the chart is rendered in, and the roles whose configuration it writes."""

from __future__ import annotations

import msgspec

from barnabas_controller.shell.config import ControllerConfig
from barnabas_gateway.shell.config import GatewayProperties
from barnabas_logstore.shell.config import LogstoreSettings
from barnabas_purgatory.shell.config import PurgatoryConfig
from scripts.kubernetes.chart import Values, example

COMPONENT = "app.kubernetes.io/component"
NODE_PORTS: Values = {"externalAccess": {"enabled": True, "trustedNetwork": True, "host": "kafka.example.com"}}
BALANCED: Values = {"externalAccess": NODE_PORTS["externalAccess"] | {"type": "LoadBalancer"}}
MONITORED: Values = {"metrics": {kind: {"enabled": True} for kind in ("serviceMonitor", "prometheusRule", "dashboard")}}
SECRETS = {role: f"{role}-tls" for role in ("controller", "gateway", "logstore", "purgatory")}
MATRIX: dict[str, Values] = {
    "default": {},
    **{name: example(name) for name in ("trial", "production", "load-balancer")},
    "node ports": NODE_PORTS,
    "balanced, per broker": BALANCED,
    "monitored": MONITORED,
    "monitored by TLS": {
        "metrics": MONITORED["metrics"]
        | {"tls": {"mode": "generated", "clientAuth": "required"}, "token": {"secretName": "scrape-token"}}
    },
    "monitored by certificates issued": {
        "metrics": MONITORED["metrics"]
        | {
            "tls": {
                "mode": "certManager",
                "issuerRef": {"name": "corporate", "kind": "ClusterIssuer"},
                "clientAuth": "required",
                "clientAuthority": {"secretName": "scrapers-ca", "secretKey": "authority.pem"},
                "scraperSecret": "prometheus-tls",
                "serverName": "metrics.example.com",
            }
        }
    },
    "monitored by certificates given": {
        "metrics": MONITORED["metrics"] | {"tls": {"mode": "secret", "secretName": "metrics-keys"}}
    },
    "no network policies": {"networkPolicy": {"enabled": False}, "metrics": {"enabled": False}},
    "no account": {"serviceAccount": {"create": False}},
    "certificates issued": {"internalTls": {"mode": "certManager"}},
    "certificates given": {"internalTls": {"mode": "secrets", "secrets": SECRETS}},
    "in the clear": {"internalTls": {"mode": "none"}},
    "probed by TLS": {"health": {"tls": {"enabled": True, "clientAuth": "required"}}},
    "secure": example("secure"),
    "all listeners": {
        "listeners": [
            {"name": "PLAINTEXT", "protocol": "PLAINTEXT", "port": 9092},
            {
                "name": "Mutual",
                "protocol": "SSL",
                "port": 19092,
                "certificate": {"mode": "secret", "secretName": "gateway-keys"},
                "clientAuth": "required",
                "clientAuthority": {"secretName": "clients-ca"},
            },
            {"name": "OLD", "protocol": "SASL_PLAINTEXT", "port": 29092, "mechanisms": ["SCRAM-SHA-256"]},
            {
                "name": "PUBLIC",
                "protocol": "SASL_SSL",
                "port": 39092,
                "mechanisms": ["SCRAM-SHA-512"],
                "certificate": {"mode": "certManager", "issuerRef": {"name": "public"}},
                "external": {"type": "LoadBalancer", "host": "kafka.example.com"},
            },
        ],
        "operators": {
            "authentication": "token",
            "token": {"issuer": "https://login", "audience": "barnabas", "jwks": "https://login/keys"},
        },
    },
    "an etcd with a user": {
        "etcd": {
            "bundled": {"enabled": False},
            "external": {"endpoints": ["etcd:2379"], "user": "barnabas", "passwordSecret": {"name": "etcd-password"}},
        }
    },
    "lanes": {"cluster": {"laneDirectory": "/var/lib/barnabas-lanes"}},
    "colocated": {
        "cluster": {"laneDirectory": "/var/lib/barnabas-lanes", "addressPolicy": "colocated"},
        "externalAccess": {"enabled": True, "trustedNetwork": True, "host": "kafka.example.com"},
    },
}
ROLES: dict[str, type[msgspec.Struct]] = {
    "controller": ControllerConfig,
    "gateway": GatewayProperties,
    "logstore": LogstoreSettings,
    "purgatory": PurgatoryConfig,
}
