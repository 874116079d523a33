"""A file with properties of a Kafka client, as Kafka's own tools take by `--command-config`: TLS and SASL."""

from __future__ import annotations

from pathlib import Path

from barnabas.cluster.access.client_properties import SECURITY_PROPERTIES
from barnabas.runtime.configuration.properties import parse_properties
from barnabas_pipeline.core.errors import WrongOption


def read_client_config(path: str) -> dict[str, str]:
    """Return the properties that say how to connect, without the others, such as bootstrap.servers; nothing without a
    path. Raises WrongOption.
    """
    if not path:
        return {}
    try:
        given = parse_properties(Path(path).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise WrongOption(f"client_config {path} can't be read: {error}") from None
    unknown = sorted(name for name in given if name.startswith(("ssl.", "sasl.")) and name not in SECURITY_PROPERTIES)
    if unknown:
        raise WrongOption(f"client_config {path}: {unknown[0]} is not supported")
    return {name: value for name, value in given.items() if name in SECURITY_PROPERTIES}
