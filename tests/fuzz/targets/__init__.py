"""The targets by name; each lives in the module of its name as `TARGET`, imported when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from tests.fuzz.target import Target

NAMES: Final = (
    "requests",
    "responses",
    "headers",
    "frames",
    "records",
    "decompression",
    "message_sets",
    "batches",
    "recovery",
    "compaction",
    "checkpoints",
    "channel",
    "gateway",
    "authentication",
    "sasl_tokens",
    "client_names",
    "first_requests",
    "tls_records",
    "security_requests",
    "cluster_keys",
    "config",
)

BEFORE_AUTHENTICATION: Final = (
    "frames",
    "headers",
    "first_requests",
    "tls_records",
    "sasl_tokens",
    "client_names",
    "authentication",
)
"""All that reads bytes of a client which has not authenticated."""

SECURITY: Final = (*BEFORE_AUTHENTICATION, "security_requests", "cluster_keys")
"""That, and what is read of users, ACLs, quotas and tokens later: of clients that have authenticated, and of etcd."""


def load(name: str) -> Target:
    target: Target = import_module(f"tests.fuzz.targets.{name}").TARGET
    return target
