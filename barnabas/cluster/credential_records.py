"""What clients authenticate by, in etcd: SCRAM credentials and delegation tokens.

/barnabas/scram_credentials/<n>/<user>      UserScramCredential, by the number of the mechanism
/barnabas/delegation_tokens/<id>            DelegationToken
"""

from __future__ import annotations

from typing import Any, TypeAlias

from barnabas.cluster.delegation_tokens import DelegationToken
from barnabas.cluster.scram import UserScramCredential

CredentialRecord: TypeAlias = UserScramCredential | DelegationToken

_SCRAM_KEYS = ("salt", "stored_key", "server_key")


class CredentialKeys:
    """The keys under a prefix, which ends with a slash."""

    __slots__ = ("delegation_tokens", "scram")

    def __init__(self, prefix: str) -> None:
        self.scram = prefix + "scram_credentials/"
        self.delegation_tokens = prefix + "delegation_tokens/"

    def scram_credential(self, mechanism: int, user: str) -> str:
        return f"{self.scram}{mechanism}/{user}"

    def delegation_token(self, token_id: str) -> str:
        return self.delegation_tokens + token_id

    def kind_of(self, key: str) -> type[UserScramCredential] | type[DelegationToken] | None:
        """Return what the key stands for; None: something else."""
        if key.startswith(self.scram):
            return UserScramCredential
        return DelegationToken if key.startswith(self.delegation_tokens) else None

    def key_of(self, record: CredentialRecord) -> str:
        if isinstance(record, DelegationToken):
            return self.delegation_token(record.token_id)
        return self.scram_credential(record.mechanism, record.user)


def with_bytes(kind: type[CredentialRecord], values: dict[str, Any]) -> dict[str, Any]:
    """Return a record's fields with bytes for their hex. Raises ValueError, KeyError or TypeError."""
    if kind is UserScramCredential:
        return values | {name: bytes.fromhex(values[name]) for name in _SCRAM_KEYS}
    credentials = [with_bytes(UserScramCredential, each) for each in values["credentials"]]
    return values | {"hmac_digest": bytes.fromhex(values["hmac_digest"]), "credentials": credentials}
