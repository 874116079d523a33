"""Find out whether a client can produce."""

from __future__ import annotations

import os
from contextlib import ExitStack

from barnabas.client.client_security import ClientSecurity
from barnabas.client.kafka_connection import CLEAR
from barnabas_cli.local import ports
from barnabas_cli.local.layout import HOST, ClusterLayout
from barnabas_cli.operator_access import OPEN, OperatorAccess
from barnabas_cli.record_client import KafkaError, RecordClient

PROBE_SECONDS_MAX = 5.0
NETWORK_THREADS = "3"
"""Kafka's default of `num.network.threads`, for an environment that does not set it."""


def not_ready(layout: ClusterLayout, security: ClientSecurity = CLEAR, access: OperatorAccess = OPEN) -> str | None:
    """Return why a client could not produce now; None if it could.

    A client can produce when the gateway answers, the controller answers and has a live control channel to every
    logstore, and the gateway has heard of all of them from the controller.
    """
    if not ports.accepts(layout.kafka_port):
        return "the gateway does not listen yet"
    if not ports.accepts(layout.operations_port):
        return "the controller does not listen yet"
    return _controller_waits_for(layout, access) or _gateway_waits_for(layout, security)


def _controller_waits_for(layout: ClusterLayout, access: OperatorAccess) -> str | None:
    from barnabas_cli.operations import OperationsClient, OperationsError

    try:
        with OperationsClient(f"{HOST}:{layout.operations_port}", PROBE_SECONDS_MAX, access) as operations:
            cluster = operations.describe_cluster()
    except OperationsError as error:
        return str(error)
    connected = {node.id for node in cluster.nodes if node.role == "logstore" and node.alive and node.connected}
    for logstore_id in layout.logstore_ids:
        if str(logstore_id) not in connected:
            return f"the controller has no control channel to logstore-{logstore_id}"
    if not any(node.role == "purgatory" and node.alive for node in cluster.nodes):
        return "purgatory has not registered"
    return cluster.problems[0] if cluster.problems else None


def _gateway_waits_for(layout: ClusterLayout, security: ClientSecurity = CLEAR) -> str | None:
    """Connections go to the network processors in turn, and each of those gets the controller's updates separately."""
    processors = int(os.environ.get("BARNABAS_NUM_NETWORK_THREADS", NETWORK_THREADS))
    with ExitStack() as connections:
        try:
            for _ in range(processors):
                client = connections.enter_context(RecordClient(HOST, layout.kafka_port, PROBE_SECONDS_MAX, security))
                client.api_versions()
                known = {broker.node_id for broker in client.metadata().brokers}
                missing = [f"logstore-{each}" for each in layout.logstore_ids if each not in known]
                if missing:
                    return f"the gateway does not know {', '.join(missing)}"
        except KafkaError as error:
            return f"the gateway does not answer: {error}"
    return None
