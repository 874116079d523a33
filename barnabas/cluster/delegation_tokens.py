"""Delegation tokens (KIP-48, KIP-373): what the cluster keeps of one, and what its secret is.

A token's secret, its HMAC, is made of its id by `delegation.token.secret.key`, and is not stored: etcd and the
controller have a digest of it, by which it is found, and SCRAM's keys, by which a client is authenticated that has it.
Who knows these can't log in with them.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode
from dataclasses import dataclass, field
from typing import Any, Final

from barnabas.cluster.scram import (
    ITERATIONS_MIN,
    ScramMechanism,
    UserScramCredential,
    credential_of,
    salted_password,
)

SALT_BYTES: Final = 26
RENEWERS_MAX: Final = 100
"""Of one token (Kafka: any number)."""
TOKENS_MAX: Final = 10_000
"""In a cluster (Kafka: any number): each is sent to all gateways, and any user may create more."""


@dataclass(slots=True, frozen=True)
class DelegationToken:
    """Principals are texts: "User:alice". Times are ms of the wall clock."""

    token_id: str
    owner: str
    requester: str
    renewers: list[str]
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int
    # SHA-256 of the HMAC.
    hmac_digest: bytes = field(repr=False)
    # Of each mechanism, with the token's id as the user.
    credentials: list[UserScramCredential] = field(repr=False)

    def is_expired(self, wall_ms: int) -> bool:
        return wall_ms > min(self.expiry_timestamp_ms, self.max_timestamp_ms)

    def may_be_renewed_by(self, principal: str) -> bool:
        """Whether that is its owner or a renewer (`DelegationTokenControlManager.allowedToRenew`)."""
        return principal == self.owner or principal in self.renewers

    def concerns(self, principal: str) -> bool:
        """Whether that is its owner, its requester or a renewer (`TokenInformation.ownerOrRenewer`)."""
        return principal == self.requester or self.may_be_renewed_by(principal)

    def credential(self, mechanism: int) -> UserScramCredential | None:
        """Return the credential of a mechanism, by its number."""
        return next((each for each in self.credentials if each.mechanism == mechanism), None)

    def to_json(self) -> dict[str, Any]:
        """Return the record's fields in etcd: bytes in hex."""
        return {
            "token_id": self.token_id,
            "owner": self.owner,
            "requester": self.requester,
            "renewers": self.renewers,
            "issue_timestamp_ms": self.issue_timestamp_ms,
            "expiry_timestamp_ms": self.expiry_timestamp_ms,
            "max_timestamp_ms": self.max_timestamp_ms,
            "hmac_digest": self.hmac_digest.hex(),
            "credentials": [each.to_json() for each in self.credentials],
        }


@dataclass(slots=True, frozen=True)
class DelegationTokenCreation:
    # Its times are not set yet.
    token: DelegationToken | None
    # 0 or less: the cluster's own.
    max_lifetime_ms: int


@dataclass(slots=True, frozen=True)
class DelegationTokenPeriod:
    """A token that is to be renewed, or to expire; `principal` asks for it."""

    principal: str
    period_ms: int
    hmac_digest: bytes = field(repr=False)


@dataclass(slots=True, frozen=True)
class AlterDelegationTokenRequest:
    """One of the three is set."""

    creation: DelegationTokenCreation | None
    renewal: DelegationTokenPeriod | None
    expiration: DelegationTokenPeriod | None
    timeout_ms: int


@dataclass(slots=True, frozen=True)
class AlterDelegationTokenResponse:
    error_code: int
    error_message: str = ""
    issue_timestamp_ms: int = -1
    expiry_timestamp_ms: int = -1
    max_timestamp_ms: int = -1
    revision: int = -1


def token_hmac(secret_key: bytes, token_id: str) -> bytes:
    """Return a token's secret: HMAC-SHA-512 of its id."""
    return hmac.digest(secret_key, token_id.encode(), "sha512")


def hmac_digest(token_secret: bytes) -> bytes:
    """Return what a token is found by that has this HMAC."""
    return hashlib.sha256(token_secret).digest()


def token_credentials(token_id: str, token_secret: bytes, salt: bytes) -> list[UserScramCredential]:
    """Return what is stored of a token's password, the HMAC in base64. It takes milliseconds."""
    password = b64encode(token_secret).decode()
    credentials = []
    for mechanism in ScramMechanism:
        salted = salted_password(mechanism, password, salt, ITERATIONS_MIN)
        keys = credential_of(mechanism, salted, salt, ITERATIONS_MIN)
        credentials.append(
            UserScramCredential(token_id, mechanism.number, ITERATIONS_MIN, salt, keys.stored_key, keys.server_key)
        )
    return credentials
