"""What gateways have besides in runs with exceptions: clients that authenticate, ACLs, the audit, quotas."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from barnabas_gateway.core.model.config import (
    AuthorizerConfig,
    GatewayConfig,
    KerberosConfig,
    Listener,
    OAuthConfig,
    SaslConfig,
)
from barnabas_gateway.core.model.request_context import ANONYMOUS
from tests.sim.nodes.identities import GUEST

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster

SASL_PORT: Final = 9292
"""Beyond the ports that brokers have of their own."""
AUDIT_TOPIC: Final = "audit"
ADMINISTRATOR: Final = "administrator"
PASSWORDS: Final = {ADMINISTRATOR: "secret", GUEST: "welcome"}
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
SESSION_MS: Final = 3_000
AUTHENTICATION_MS_MAX: Final = 2_000
IDLE_MS_MAX: Final = 8_000
TRACED_EVERY: Final = 20
SASL: Final = SaslConfig(
    MECHANISMS,
    PASSWORDS,
    dict.fromkeys(MECHANISMS, SESSION_MS),
    OAuthConfig("file:///keys", "issuer", ("barnabas",)),
    KerberosConfig("/keytab", "kafka/gateway@REALM"),
)
SUPER_USERS: Final = frozenset({str(ANONYMOUS), f"User:{ADMINISTRATOR}"})
"""Those who do not authenticate are the other clients of the simulation, and may do everything."""


def surround(cluster: Cluster) -> None:
    """To be called before the cluster starts."""
    for gateway in cluster.gateways:
        gateway.configure = _secured
        gateway.has_acceptor = True


def sasl_addresses(cluster: Cluster) -> list[str]:
    return [f"{gateway.name}:{SASL_PORT}" for gateway in cluster.gateways]


def _secured(config: GatewayConfig) -> GatewayConfig:
    name = config.gateway_id
    return replace(
        config,
        listeners=(*config.listeners, Listener("SASL", name, SASL_PORT, name, SASL_PORT, SASL)),
        authorizer=AuthorizerConfig(True, SUPER_USERS),
        delegation_token_secret_key="key",
        audit_topic=AUDIT_TOPIC,
        authentication_ms_max=AUTHENTICATION_MS_MAX,
        connection_idle_ms_max=IDLE_MS_MAX,
        traces_sample_every=TRACED_EVERY,
        request_log_slow_ms=1_000,
    )
