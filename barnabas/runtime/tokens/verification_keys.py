"""VerificationKeys: what an issuer signs tokens with, out of its JWK set (RFC 7517), and where that is read from."""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from joserfc.jwk import Key

ALGORITHMS: Final = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA", "Ed25519"),
}
"""By the type of a key. Neither `none` nor one with a shared secret."""
KEYS_BYTES_MAX: Final = 1 << 20
FETCH_S_MAX: Final = 10.0
_CURVE_BY_ALGORITHM: Final = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
_RSA_BITS: Final = range(2048, 8192 + 1)
_KEYS_MAX: Final = 100


class VerificationKeys:
    """The keys of one JWK set that signatures can be verified with."""

    def __init__(self, keys: list[Key]) -> None:
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, key_id: str | None, algorithm: str) -> Key | None:
        """Return the key that a token names; of one that names none, the first that fits its algorithm."""
        for key in self._keys:
            if (key_id is None or key.kid == key_id) and _fits(key, algorithm):
                return key
        return None


def read_keys(content: bytes) -> VerificationKeys:
    """Return the usable keys of a JWK set, without those of other kinds. Raises ValueError if there are none."""
    try:
        values = json.loads(content)["keys"][:_KEYS_MAX]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"not a set of keys: {type(error).__name__}") from None
    found = [key for key in map(_usable_key, values) if key is not None]
    if not found:
        raise ValueError("no key to verify signatures with")
    return VerificationKeys(found)


def read_key_file(path: str) -> bytes:
    """Return the content of a file with a JWK set. Raises OSError or ValueError."""
    with Path(path).open("rb") as file:
        return _bounded(file.read(KEYS_BYTES_MAX + 1))


def fetch_keys(url: str, authority: str = "") -> bytes:
    """Return what is at a URL: by HTTPS alone, without a proxy or a redirection. Raises OSError or ValueError.

    `authority` is a PEM file for the certificate of that URL; empty: those that OpenSSL trusts.
    """
    opener = urllib.request.OpenerDirector()
    context = ssl.create_default_context(cafile=authority or None)
    opener.add_handler(urllib.request.HTTPSHandler(context=context))
    opener.add_handler(urllib.request.HTTPDefaultErrorHandler())
    opener.add_handler(urllib.request.HTTPErrorProcessor())
    try:
        with opener.open(url, timeout=FETCH_S_MAX) as response:
            return _bounded(response.read(KEYS_BYTES_MAX + 1))
    except urllib.error.HTTPError as answer:
        answer.close()
        raise
    except http.client.HTTPException as error:
        raise OSError(f"the answer is not HTTP: {type(error).__name__}") from None


def _bounded(content: bytes) -> bytes:
    """Raises ValueError."""
    if len(content) > KEYS_BYTES_MAX:
        raise ValueError(f"larger than {KEYS_BYTES_MAX} bytes")
    return content


def _usable_key(value: Any) -> Key | None:
    from joserfc.errors import JoseError
    from joserfc.jwk import JWKRegistry, RSAKey

    try:
        if value.get("kty") not in ALGORITHMS or value.get("use", "sig") != "sig":
            return None
        key = JWKRegistry.import_key(value)
        return key if not isinstance(key, RSAKey) or key.public_key.key_size in _RSA_BITS else None
    except (JoseError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _fits(key: Key, algorithm: str) -> bool:
    if algorithm not in ALGORITHMS[key.key_type] or key.alg not in (None, algorithm):
        return False
    curve = _CURVE_BY_ALGORITHM.get(algorithm)
    return curve is None or key.get("crv") == curve
