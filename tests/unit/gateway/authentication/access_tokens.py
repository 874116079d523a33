"""An issuer of access tokens: its keys, and tokens signed by them."""

from __future__ import annotations

import json
from typing import Any, Final

from joserfc import jwt
from joserfc.jwk import ECKey, Key, OctKey, RSAKey

ISSUER: Final = "https://issuer.example"
AUDIENCE: Final = "kafka"
NOW_S: Final = 1_800_000_000
RSA: Final = RSAKey.generate_key(2048, {"kid": "rsa-1"})
EC: Final = ECKey.generate_key("P-256", {"kid": "ec-1"})
SHARED: Final = OctKey.generate_key(256, {"kid": "oct-1"})
ALL_ALGORITHMS: Final = ("RS256", "PS512", "ES256", "HS256", "none")


def jwks(*keys: Key) -> bytes:
    return json.dumps({"keys": [key.as_dict(private=False) for key in keys or (RSA, EC)]}).encode()


def claims(**changed: Any) -> dict[str, Any]:
    """Those of a valid token, with some changed; None: without it."""
    made = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "iat": NOW_S - 10, "exp": NOW_S + 3600, **changed}
    return {name: value for name, value in made.items() if value is not None}


def signed(values: dict[str, Any], key: Key = RSA, algorithm: str = "RS256", **header: Any) -> str:
    made = {"alg": algorithm, "kid": key.kid, **header}
    return jwt.encode({k: v for k, v in made.items() if v is not None}, values, key, algorithms=list(ALL_ALGORITHMS))
