"""The options by which `produce`, `consume` and `transactions` find a cluster, and how they connect to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from barnabas.client.client_security import ClientSecurity, client_security
from barnabas.client.kafka_connection import KafkaConnection
from barnabas.runtime.configuration.properties import parse_properties
from barnabas_cli.local.layout import HOST, ClusterDirectory, LayoutError
from barnabas_cli.local.secrets import local_security
from barnabas_cli.record_client import CLIENT_ID, RecordClient

Command = TypeVar("Command", bound=Callable[..., Any])


def bootstrap_option(command: Command) -> Command:
    return click.option(
        "--bootstrap", metavar="HOST:PORT", help="Address of a cluster to use instead of the one in --data-dir."
    )(command)


def config_option(command: Command) -> Command:
    return click.option(
        "--config",
        "config_path",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Properties of a Kafka client: TLS, SASL and bootstrap.servers of the cluster to use.",
    )(command)


def kafka_client(directory: ClusterDirectory, bootstrap: str | None, config_path: Path | None) -> RecordClient:
    """Return a client of the cluster that the options name, else of the one in --data-dir. Raises LayoutError."""
    host, port, security = _address(directory, bootstrap, config_path)
    return RecordClient(host, port, security=security)


def kafka_connection(
    directory: ClusterDirectory, bootstrap: str | None, config_path: Path | None, timeout_seconds: float
) -> KafkaConnection:
    """Connect to that cluster. Raises LayoutError, ConnectionBroken."""
    host, port, security = _address(directory, bootstrap, config_path)
    return KafkaConnection(host, port, timeout_seconds, CLIENT_ID, security=security)


def _address(
    directory: ClusterDirectory, bootstrap: str | None, config_path: Path | None
) -> tuple[str, int, ClientSecurity]:
    try:
        if config_path is None and bootstrap is None:
            layout = directory.require_layout()
            return HOST, layout.kafka_port, local_security(directory, layout)
        properties = {} if config_path is None else parse_properties(config_path.read_text(encoding="utf-8"))
        address = bootstrap or properties.get("bootstrap.servers", "").split(",")[0].strip()
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise LayoutError(f"{address!r} is not HOST:PORT; see --bootstrap, or bootstrap.servers in --config")
        return host, int(port), client_security(properties)
    except (OSError, ValueError) as error:
        raise LayoutError(str(error)) from None
