"""DelegationTokens: the delegation tokens of the image (KIP-48), with the secret key that makes their HMACs.

All gateways have the same `delegation.token.secret.key`. A token that was made with another one is not known here:
after a change of the key, tokens from before are over.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator

from barnabas.cluster.delegation_tokens import (
    SALT_BYTES,
    DelegationToken,
    hmac_digest,
    token_credentials,
    token_hmac,
)
from barnabas.cluster.image import ClusterImage

_ID_BYTES = 16
_NO_TIME = -1


class DelegationTokens:
    __slots__ = ("_image", "_random_bytes", "_secret_key", "_wall_ms")

    def __init__(
        self,
        secret_key: str,
        image: ClusterImage,
        random_bytes: Callable[[int], bytes],
        wall_ms: Callable[[], int],
    ) -> None:
        """`secret_key` is empty if there are no tokens."""
        self._secret_key = secret_key.encode()
        self._image = image
        self._random_bytes = random_bytes
        self._wall_ms = wall_ms

    @property
    def is_enabled(self) -> bool:
        return bool(self._secret_key)

    def create(self, owner: str, requester: str, renewers: list[str]) -> tuple[DelegationToken, bytes]:
        """Return a new token, which has no times yet, and its HMAC. It takes some 5 ms."""
        # As Kafka's Uuid.randomUuid: an id that begins with "-" would look like an option of a command.
        token_id = "-"
        while token_id.startswith("-"):
            token_id = urlsafe_b64encode(self._random_bytes(_ID_BYTES)).decode().rstrip("=")
        secret = token_hmac(self._secret_key, token_id)
        credentials = token_credentials(token_id, secret, self._random_bytes(SALT_BYTES))
        digest = hmac_digest(secret)
        token = DelegationToken(token_id, owner, requester, renewers, _NO_TIME, _NO_TIME, _NO_TIME, digest, credentials)
        return token, secret

    def find_valid(self, token_id: str) -> DelegationToken | None:
        """Return the token that a client may authenticate by; None: there is none, or it has expired."""
        token = self._image.delegation_tokens.get(token_id) if self.is_enabled else None
        if token is None or token.is_expired(self._wall_ms()) or self._secret_of(token) is None:
            return None
        return token

    def known(self) -> Iterator[tuple[DelegationToken, bytes | None]]:
        """Yield all tokens of the cluster, with their HMACs: None for one that was made with another secret key."""
        for token in list(self._image.delegation_tokens.values()):
            yield token, self._secret_of(token)

    def _secret_of(self, token: DelegationToken) -> bytes | None:
        secret = token_hmac(self._secret_key, token.token_id)
        return secret if hmac.compare_digest(hmac_digest(secret), token.hmac_digest) else None
