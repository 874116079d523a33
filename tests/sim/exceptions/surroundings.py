"""What clusters have besides in runs with exceptions: clients that authenticate, ACLs, the audit, quotas; and what
they do more often.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from barnabas_gateway.core.backends.fetch_memory import READ_BYTES_MIN
from barnabas_gateway.core.model.config import (
    AuthorizerConfig,
    GatewayConfig,
    KerberosConfig,
    Listener,
    OAuthConfig,
    SaslConfig,
)
from barnabas_gateway.core.model.request_context import ANONYMOUS
from barnabas_logstore.core.config import LogstoreConfig
from barnabas_logstore.core.replica.replica_selection import ReplicaSelector
from tests.sim.nodes.identities import GUEST
from tests.sim.nodes.logstore import DIRECTORY

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
CHECK_MS: Final = 1_500
REQUESTS_MAX: Final = 8
"""So few that gateways wait for credit."""
REQUEST_BYTES_MAX: Final = 16 << 10
FETCH_BYTES_MAX: Final = 3 * READ_BYTES_MIN
"""Three reads at a time; with less, a request waits for what it holds itself."""
STALLED_MS: Final = 800
WAIT_MS: Final = 1_000
SHORT_MS: Final = 300
GRACE_MS: Final = 5
LOG_DIRS: Final = (DIRECTORY, "/data-2")
RACKS: Final = 2
SASL: Final = SaslConfig(
    MECHANISMS,
    PASSWORDS,
    dict.fromkeys(MECHANISMS, SESSION_MS),
    OAuthConfig("file:///keys", "issuer", ("barnabas",)),
    KerberosConfig("/keytab", "kafka/gateway@REALM"),
)
SUPER_USERS: Final = frozenset({str(ANONYMOUS), f"User:{ADMINISTRATOR}"})
"""Those who do not authenticate are the other clients of the simulation, and may do everything."""


def surround(cluster: Cluster, *, has_faults: bool, is_hasty: bool = False) -> None:
    """To be called before the cluster starts. `has_faults`: other things go wrong, too. `is_hasty`: then every gateway
    waits for nothing for long.
    """
    for number, gateway in enumerate(cluster.gateways):
        # One gateway of each cluster has enough of everything.
        gateway.configure = _tightened if has_faults and number else _secured
        if has_faults and is_hasty:
            gateway.configure = _hasty if number == 0 else _tightened_and_hasty
        gateway.has_whole_shell = True
    for logstore in cluster.logstores:
        logstore.configure = _hurried
        logstore.rack = f"rack-{logstore.node_id % RACKS}"
        if not has_faults:
            logstore.log_dirs = LOG_DIRS


def _tightened(config: GatewayConfig) -> GatewayConfig:
    """It has little memory, and waits for nothing for long: where other things go wrong, time is over now and then."""
    return replace(
        _secured(config),
        queued_request_bytes_max=REQUEST_BYTES_MAX,
        stalled_sender_ms=STALLED_MS,
        fetch_memory_bytes=FETCH_BYTES_MAX,
        stalled_reader_ms=STALLED_MS,
        append_wait_ms_min=WAIT_MS,
        route_wait_ms_max=WAIT_MS,
        read_wait_ms_max=WAIT_MS,
        group_call_ms_max=WAIT_MS,
        topic_creation_wait_ms_max=WAIT_MS,
    )


def _hasty(config: GatewayConfig) -> GatewayConfig:
    return replace(
        _secured(config), deadline_grace_ms=GRACE_MS, read_wait_ms_max=SHORT_MS, topic_creation_wait_ms_max=SHORT_MS
    )


def _tightened_and_hasty(config: GatewayConfig) -> GatewayConfig:
    return replace(
        _tightened(config), deadline_grace_ms=GRACE_MS, read_wait_ms_max=SHORT_MS, topic_creation_wait_ms_max=SHORT_MS
    )


def _hurried(config: LogstoreConfig) -> LogstoreConfig:
    """What is due once in minutes, and comes to nothing, is due once in seconds."""
    return replace(
        config,
        queued_requests_max=REQUESTS_MAX,
        retention_check_interval_ms=CHECK_MS,
        producer_id_expiration_check_interval_ms=CHECK_MS,
        replica_selector=ReplicaSelector.RACK_AWARE,
        recovery_point_checkpoint_interval_ms=CHECK_MS,
        log_start_checkpoint_interval_ms=CHECK_MS,
        groups=replace(config.groups, offsets_retention_check_interval_ms=CHECK_MS),
    )


def relax(cluster: Cluster) -> None:
    """Start those gateways again that have little: the last act is played with enough of everything."""
    for gateway in cluster.gateways:
        if gateway.configure is _secured:
            continue
        gateway.configure = _secured
        if gateway.alive:
            gateway.kill()
            gateway.start()


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
