"""Access tokens of OAUTHBEARER: which are valid, and what must never be (CVE-2026-33557 and its kin)."""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import urlsafe_b64encode
from dataclasses import replace
from typing import Any

import pytest
from joserfc.jwk import RSAKey

from barnabas.runtime.tokens.verification_keys import ALGORITHMS, VerificationKeys, read_keys
from barnabas_gateway.core.model.config import OAuthConfig
from barnabas_gateway.core.sasl.oauthbearer import InvalidToken
from barnabas_gateway.shell.oauth.access_tokens import AccessTokenValidator
from tests.unit.gateway.authentication.access_tokens import (
    AUDIENCE,
    EC,
    ISSUER,
    NOW_S,
    RSA,
    SHARED,
    claims,
    jwks,
    signed,
)

CONFIG = OAuthConfig("file:///keys", ISSUER, (AUDIENCE, "other"))


class Source:
    def __init__(self, keys: VerificationKeys | None) -> None:
        self.keys = keys
        self.missing = 0

    def key_missing(self) -> None:
        self.missing += 1


def validator(config: OAuthConfig = CONFIG, content: bytes | None = None) -> AccessTokenValidator:
    return AccessTokenValidator(config, Source(read_keys(content or jwks())), lambda: NOW_S * 1000)


def refusal(token: str, config: OAuthConfig = CONFIG) -> str:
    with pytest.raises(InvalidToken) as caught:
        validator(config).validate(token)
    return str(caught.value)


@pytest.mark.parametrize(
    "token",
    [
        signed(claims()),
        signed(claims(), RSA, "PS512"),
        signed(claims(), EC, "ES256"),
        signed(claims(aud=["x", "other"])),
        signed(claims(scope=["a", "b"])),
        signed(claims(scope="a b", nbf=NOW_S)),
        signed(claims(), kid=None),
        signed(claims(), x5t="unknown header"),
    ],
)
def test_valid_tokens(token: str) -> None:
    found = validator().validate(token)
    assert (found.principal, found.expires_ms) == ("alice", (NOW_S + 3600) * 1000)


def test_other_claims_are_subject_and_scope() -> None:
    config = replace(CONFIG, subject_claim="client_id", scope_claim="scp")
    token = signed(claims(client_id=" bob ", scp=["x"], scope=3))
    assert validator(config).validate(token).principal == "bob"
    assert "no subject" in refusal(signed(claims()), config)


@pytest.mark.parametrize(
    "changed",
    [
        {"iss": "https://other.example"},
        {"iss": None},
        {"iss": ["https://issuer.example"]},
        {"aud": "somebody"},
        {"aud": []},
        {"aud": None},
        {"exp": NOW_S - 31},
        {"exp": None},
        {"exp": "tomorrow"},
        {"exp": 10**30},
        {"exp": True},
        {"iat": None},
        {"iat": NOW_S + 31},
        {"nbf": NOW_S + 31},
        {"sub": None},
        {"sub": ""},
        {"sub": "  "},
        {"sub": 7},
        {"sub": "a" * 1001},
        {"scope": 7},
        {"scope": ["a", 7]},
    ],
)
def test_claims_that_are_refused(changed: dict[str, Any]) -> None:
    assert refusal(signed(claims(**changed)))


def test_clocks_may_differ_by_the_skew() -> None:
    validator().validate(signed(claims(exp=NOW_S - 29, iat=NOW_S + 29)))
    assert refusal(signed(claims(exp=NOW_S - 1)), replace(CONFIG, clock_skew_s=0))


def unsigned(header: dict[str, Any], signature: str = "") -> str:
    parts = [urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in (header, claims())]
    return ".".join([*parts, signature])


def test_a_token_without_a_signature_is_never_valid() -> None:
    for algorithm in ("none", "None", "NONE", "nOnE", "", None, 7, ["RS256"]):
        assert refusal(unsigned({"alg": algorithm, "kid": "rsa-1"}))
    assert refusal(unsigned({"kid": "rsa-1"}))
    assert refusal(unsigned({"alg": "RS256", "kid": "rsa-1"}))


def test_a_public_key_is_no_shared_secret() -> None:
    for secret in (RSA.as_pem(private=False), SHARED.raw_value):
        token = unsigned({"alg": "HS256", "kid": "rsa-1"}).rstrip(".")
        proof = urlsafe_b64encode(hmac.digest(secret, token.encode(), hashlib.sha256)).decode().rstrip("=")
        assert "algorithm is not allowed" in refusal(f"{token}.{proof}")


def test_the_signature_is_that_of_the_key() -> None:
    other = RSAKey.generate_key(2048, {"kid": "rsa-1"})
    assert "signature" in refusal(signed(claims(), other))
    token = signed(claims())
    head, body, signature = token.split(".")
    assert "signature" in refusal(f"{head}.{signed(claims(sub='admin')).split('.')[1]}.{signature}")
    assert refusal(f"{head}.{body}.")
    assert refusal(unsigned({"alg": "ES256", "kid": "rsa-1"}, signature))
    assert refusal(token[:-20])


def test_a_key_in_the_token_is_not_taken() -> None:
    own = RSAKey.generate_key(2048, {"kid": "mine"})
    token = signed(claims(), own, jwk=own.as_dict(private=False))
    assert "key is not known" in refusal(token)
    assert "extension" in refusal(unsigned({"alg": "RS256", "kid": "rsa-1", "crit": ["b64"], "b64": False}))


def test_an_unknown_key_has_the_keys_read_again_and_no_keys_validate_nothing() -> None:
    source = Source(read_keys(jwks(EC)))
    validate = AccessTokenValidator(CONFIG, source, lambda: NOW_S * 1000).validate
    with pytest.raises(InvalidToken, match="key is not known"):
        validate(signed(claims()))
    assert source.missing == 1
    source.keys = None
    with pytest.raises(InvalidToken, match="not known yet"):
        validate(signed(claims(), EC, "ES256"))


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "..",
        "a.b.c",
        "a.b.c.d.e",
        "x" * 20_000,
        signed(claims())[:100],
        "[" * 5000 + ".e30.",
        urlsafe_b64encode(b"[" * 3000).decode() + ".e30.",
        unsigned({"alg": "RS256", "kid": "k" * 1001}),
        unsigned({"alg": "RS256", "kid": 7}),
        "ÿ.ÿ.ÿ",
    ],
)
def test_malformed_tokens(token: str) -> None:
    assert refusal(token)


def test_claims_that_are_nested_too_deep_are_refused() -> None:
    from joserfc import jws

    for payload in (b"[" * 8000, b'{"a":' * 2000, b"7", b"\xff", b'{"exp":1e999}'):
        token = jws.serialize_compact({"alg": "RS256", "kid": "rsa-1"}, payload, RSA, algorithms=["RS256"])
        assert refusal(token)


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
def test_only_keys_for_signatures_are_taken() -> None:
    weak = {**RSA.as_dict(private=False), "n": "AQAB" * 20}
    for value in (
        b"",
        b"[]",
        b"{}",
        b'{"keys":7}',
        b'{"keys":[7]}',
        b'{"keys":[{"kty":"RSA"}]}',
        json.dumps({"keys": [SHARED.as_dict()]}).encode(),
        json.dumps({"keys": [weak]}).encode(),
        json.dumps({"keys": [{**EC.as_dict(private=False), "use": "enc"}]}).encode(),
    ):
        with pytest.raises(ValueError, match="key"):
            read_keys(value)
    mixed = {"keys": [SHARED.as_dict(), {"kty": "new"}, {"kty": "RSA"}, 7, EC.as_dict(private=False)]}
    assert len(read_keys(json.dumps(mixed).encode())) == 1


def test_a_key_that_says_its_algorithm_verifies_no_other() -> None:
    limited = RSAKey.import_key(RSA.as_dict(private=False) | {"alg": "RS512"})
    keys = read_keys(jwks(limited))
    assert keys.find("rsa-1", "RS512") is not None
    assert keys.find("rsa-1", "RS256") is None
    assert ALGORITHMS["RSA"][0] == "RS256"
