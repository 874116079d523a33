"""SCRAM credentials and messages (RFC 5802, RFC 7677; KIP-84, KIP-554): what a server stores, and what both sides
compute.

Names and passwords are UTF-8 without SASLprep, as in Kafka.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384
"""Bounds of the iterations of a credential (`ScramMechanism.minIterations`, `maxIterations`)."""


class ScramMechanism(Enum):
    """By name, with Kafka's number in AlterUserScramCredentials and the hash function."""

    SHA_256 = "SCRAM-SHA-256", 1, "sha256"
    SHA_512 = "SCRAM-SHA-512", 2, "sha512"

    def __init__(self, mechanism_name: str, number: int, hash_name: str) -> None:
        self.mechanism_name = mechanism_name
        self.number = number
        self.hash_name = hash_name


MECHANISMS_BY_NUMBER: Final = {mechanism.number: mechanism for mechanism in ScramMechanism}
MECHANISMS_BY_NAME: Final = {mechanism.mechanism_name: mechanism for mechanism in ScramMechanism}


@dataclass(slots=True, frozen=True)
class ScramCredential:
    """What the server stores of a password: it can check a client's proof by it, and can't log in with it."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


@dataclass(slots=True, frozen=True)
class UserScramCredential:
    """A user's credential of one mechanism: what etcd has, and what gateways are sent."""

    user: str
    # The mechanism's number.
    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    def credential(self) -> ScramCredential:
        return ScramCredential(self.salt, self.stored_key, self.server_key, self.iterations)

    def to_json(self) -> dict[str, str | int]:
        """Return the record's fields in etcd: bytes in hex."""
        return {
            "user": self.user,
            "mechanism": self.mechanism,
            "iterations": self.iterations,
            "salt": self.salt.hex(),
            "stored_key": self.stored_key.hex(),
            "server_key": self.server_key.hex(),
        }


@dataclass(slots=True, frozen=True)
class ScramUser:
    """What a credential is of: there is one of each user and mechanism."""

    user: str
    mechanism: int


@dataclass(slots=True, frozen=True)
class AlterScramCredentialsRequest:
    deletions: list[ScramUser]
    upsertions: list[UserScramCredential]
    timeout_ms: int

    def users(self) -> list[str]:
        """Return the users that it names, each once, in the order of the response's results."""
        changes: list[ScramUser | UserScramCredential] = [*self.deletions, *self.upsertions]
        return list(dict.fromkeys(each.user for each in changes))


@dataclass(slots=True, frozen=True)
class ScramUserResult:
    user: str
    error_code: int
    error_message: str = ""


@dataclass(slots=True, frozen=True)
class AlterScramCredentialsResponse:
    results: list[ScramUserResult]
    revision: int


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Return Hi(password, salt, iterations). It takes milliseconds: a client's work, never a server's."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def credential_of(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return what is stored of a salted password."""
    stored_key = digest(mechanism, sign(mechanism, salted, b"Client Key"))
    return ScramCredential(salt, stored_key, sign(mechanism, salted, b"Server Key"), iterations)


def client_proof(mechanism: ScramMechanism, salted: bytes, auth_message: bytes) -> bytes:
    """Return the proof that a client has the password."""
    client_key = sign(mechanism, salted, b"Client Key")
    return _xor(client_key, sign(mechanism, digest(mechanism, client_key), auth_message))


def is_proof_of(mechanism: ScramMechanism, credential: ScramCredential, auth_message: bytes, proof: bytes) -> bool:
    """Whether a client's proof is that of the stored credential; compared in constant time."""
    signature = sign(mechanism, credential.stored_key, auth_message)
    if len(proof) != len(signature):
        return False
    return hmac.compare_digest(digest(mechanism, _xor(proof, signature)), credential.stored_key)


def server_signature(mechanism: ScramMechanism, server_key: bytes, auth_message: bytes) -> bytes:
    """Return the proof that the server has the credential."""
    return sign(mechanism, server_key, auth_message)


def sign(mechanism: ScramMechanism, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, mechanism.hash_name)


def digest(mechanism: ScramMechanism, message: bytes) -> bytes:
    return hashlib.new(mechanism.hash_name, message).digest()


def escaped_name(user: str) -> str:
    """Return a user's name as messages have it (`saslname` of RFC 5802)."""
    return user.replace("=", "=3D").replace(",", "=2C")


def unescaped_name(text: str) -> str:
    """Return the user that a message names. Raises ValueError."""
    parts = text.split("=")
    if any(not part.startswith(("2C", "3D")) for part in parts[1:]):
        raise ValueError("a name with '=' that is not an escape")
    return text.replace("=2C", ",").replace("=3D", "=")


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
