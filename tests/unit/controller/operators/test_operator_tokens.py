"""Bearer tokens of operators: what is accepted, and every way in which one is refused."""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwk, jwt

from barnabas.runtime.tokens.token_verifier import TokenRefused
from barnabas_controller.shell.operators import operator_tokens
from barnabas_controller.shell.operators.operator_tokens import OperatorTokens, TokenRules

NOW = 1_800_000_000
ISSUER, AUDIENCE = "https://issuer.example", "barnabas"
CLAIMS = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": NOW + 60, "roles": ["admin", "x"]}
RSA = jwk.RSAKey.generate_key(2048, {"kid": "rsa"}, private=True)
EC = jwk.ECKey.generate_key("P-256", {"kid": "ec"}, private=True)
OTHER = jwk.RSAKey.generate_key(2048, {"kid": "rsa"}, private=True)


def signed(claims: Mapping[str, Any], key: Any = RSA, algorithm: str = "RS256", kid: str | None = None) -> str:
    header = {"alg": algorithm, "kid": kid or key.kid}
    return jwt.encode(header, dict(claims), key, algorithms=[algorithm])


def encoded(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")


def write_keys(path: Path, *keys: Any) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps({"keys": [key.as_dict(private=False) for key in keys]}))
    temporary.replace(path)


def spoil(path: Path) -> None:
    path.write_text("half of a fi")


@pytest.fixture
def rules(tmp_path: Path) -> TokenRules:
    path = tmp_path / "jwks.json"
    write_keys(path, RSA, EC)
    return TokenRules(ISSUER, AUDIENCE, str(path))


async def refusal(rules: TokenRules, token: str) -> str:
    with pytest.raises(TokenRefused) as refused:
        await OperatorTokens(rules, lambda: NOW).verify(token)
    assert token[:20] not in str(refused.value) or not token
    return str(refused.value)


async def test_a_token_of_the_issuer_names_its_subject_and_roles(rules: TokenRules) -> None:
    verifier = OperatorTokens(rules, lambda: NOW)
    for token in (signed(CLAIMS), signed(CLAIMS, EC, "ES256"), signed({**CLAIMS, "aud": ["x", AUDIENCE]})):
        subject = await verifier.verify(token)
        assert (subject.name, subject.roles) == ("alice", ("admin", "x"))


@pytest.mark.parametrize(
    ("claim", "value", "roles"),
    [
        ("roles", {"roles": "a b"}, ("a", "b")),
        ("realm_access.roles", {"realm_access": {"roles": ["a"]}}, ("a",)),
        ("realm_access.roles", {"realm_access": "a"}, ()),
        ("groups", {}, ()),
        ("groups", {"groups": [1, {"a": 2}, "b"]}, ("b",)),
    ],
)
async def test_roles_are_where_the_claim_is(
    rules: TokenRules, claim: str, value: dict[str, Any], roles: tuple[str, ...]
) -> None:
    claims = {name: content for name, content in CLAIMS.items() if name != "roles"} | value
    verifier = OperatorTokens(replace(rules, roles_claim=claim), lambda: NOW)
    assert (await verifier.verify(signed(claims))).roles == roles


@pytest.mark.parametrize(
    "claims",
    [
        {**CLAIMS, "iss": "https://other.example"},
        {**CLAIMS, "aud": "other"},
        {**CLAIMS, "exp": NOW - 31},
        {**CLAIMS, "nbf": NOW + 31},
        *(
            {name: value for name, value in CLAIMS.items() if name != missing}
            for missing in ("iss", "aud", "sub", "exp")
        ),
        {**CLAIMS, "exp": "tomorrow"},
    ],
)
async def test_claims_that_do_not_hold_are_refused(rules: TokenRules, claims: dict[str, Any]) -> None:
    assert "not valid" in await refusal(rules, signed(claims))


async def test_a_clock_may_be_half_a_minute_off(rules: TokenRules) -> None:
    assert await OperatorTokens(rules, lambda: NOW).verify(signed({**CLAIMS, "exp": NOW - 29}))


async def test_signatures_that_prove_nothing_are_refused(rules: TokenRules, tmp_path: Path) -> None:
    """CVE-2026-33557 and the like: none at all, another key, and the public key taken for a shared secret."""
    head, body, _signature = signed(CLAIMS).split(".")
    unsigned = "eyJhbGciOiJub25lIn0"  # {"alg":"none"}
    shared = encoded(b'{"alg":"HS256","kid":"rsa"}') + f".{body}"
    by_public_key = encoded(hmac.digest(RSA.as_pem(private=False), shared.encode(), "sha256"))
    for token in (
        f"{unsigned}.{body}.",
        f"{head}.{body}.",
        f"{head}.{body}.AAAA",
        signed(CLAIMS, OTHER),
        f"{shared}.{by_public_key}",
        signed(CLAIMS, kid="unknown"),
    ):
        assert await refusal(rules, token)


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "..", "é.é.é", "e30.e30.e30", "x" * 20_000, "[]." * 3])
async def test_what_is_no_token_is_refused(rules: TokenRules, token: str) -> None:
    assert await refusal(rules, token)


async def test_without_keys_everything_is_refused(rules: TokenRules, tmp_path: Path) -> None:
    (tmp_path / "broken").write_text("{")
    (tmp_path / "empty").write_text('{"keys": []}')
    for name in ("missing", "broken", "empty"):
        assert await refusal(replace(rules, keys=str(tmp_path / name)), signed(CLAIMS))


async def test_replaced_keys_count_from_the_next_token_on(rules: TokenRules) -> None:
    verifier = OperatorTokens(rules, lambda: NOW)
    assert await verifier.verify(signed(CLAIMS))
    write_keys(Path(rules.keys), EC)
    with pytest.raises(TokenRefused):
        await verifier.verify(signed(CLAIMS))
    assert await verifier.verify(signed(CLAIMS, EC, "ES256"))
    spoil(Path(rules.keys))
    assert await verifier.verify(signed(CLAIMS, EC, "ES256")), "the last good keys stay"


async def test_a_provider_is_asked_early_for_an_unknown_key_and_not_by_each_token(
    rules: TokenRules, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms, served, asked = 1_000_000, [EC], 0

    def fetch(_self: OperatorTokens) -> bytes:
        nonlocal asked
        asked += 1
        return json.dumps({"keys": [key.as_dict(private=False) for key in served]}).encode()

    monkeypatch.setattr(OperatorTokens, "_fetch", fetch)
    monkeypatch.setattr(operator_tokens, "monotonic_ms", lambda: now_ms)
    verifier = OperatorTokens(replace(rules, keys="https://issuer.example/keys"), lambda: NOW)
    for _ in range(5):
        with pytest.raises(TokenRefused):
            await verifier.verify(signed(CLAIMS))
    assert asked == 1
    served.append(RSA)
    now_ms += 10_000
    assert await verifier.verify(signed(CLAIMS))
    assert asked == 2
    now_ms += 599_000
    assert await verifier.verify(signed(CLAIMS))
    assert asked == 2
    now_ms += 1_000
    assert await verifier.verify(signed(CLAIMS))
    assert asked == 3


@pytest.mark.parametrize("keys", ["http://issuer.example/keys", "ftp://x/y", "file:///etc/passwd", ""])
def test_keys_come_from_files_and_https_alone(keys: str) -> None:
    with pytest.raises(ValueError, match="keys"):
        TokenRules(ISSUER, AUDIENCE, keys).check()
