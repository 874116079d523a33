"""Delegation tokens at the controller: times, who may renew and end them, and who is sent them (KIP-48)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.cluster.delegation_tokens import (
    AlterDelegationTokenRequest,
    AlterDelegationTokenResponse,
    DelegationToken,
    DelegationTokenCreation,
    DelegationTokenPeriod,
    hmac_digest,
    token_credentials,
    token_hmac,
)
from barnabas.cluster.keys import Role, decode_record, encode_record
from barnabas.ports.etcd import Get, Put, Txn
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.topics import token_changes
from tests.unit.controller.cluster import KEYS, WALL_MS, Cluster, ControllerNode

DAY_MS = 24 * 3_600_000
SECRET = token_hmac(b"key", "id-1")
NO_TIMES = (-1, -1, -1)
TOKEN = DelegationToken(
    "id-1",
    "User:alice",
    "User:admin",
    ["User:bob"],
    *NO_TIMES,
    hmac_digest(SECRET),
    token_credentials("id-1", SECRET, b"salt"),
)


class Scene:
    def __init__(self) -> None:
        self.cluster = Cluster()
        self.controller: ControllerNode = self.cluster.controller("controller-0")
        self.cluster.logstore(1)
        self.cluster.settle()
        self.gateway = self.controller.subscribers[self.cluster.gateway(self.controller)]
        self.cluster.settle()

    @property
    def wall_ms(self) -> int:
        return WALL_MS + self.cluster.now_ms

    def ask(self, request: AlterDelegationTokenRequest) -> AlterDelegationTokenResponse:
        request_id = self.controller.request(request)
        self.cluster.settle()
        response = self.controller.responses[request_id]
        assert isinstance(response, AlterDelegationTokenResponse)
        assert self.gateway.revision >= response.revision
        return response

    def create(self, token: DelegationToken = TOKEN, max_lifetime_ms: int = -1) -> AlterDelegationTokenResponse:
        return self.ask(AlterDelegationTokenRequest(DelegationTokenCreation(token, max_lifetime_ms), None, None, 5000))

    def renew(self, principal: str, period_ms: int = -1, digest: bytes = b"") -> AlterDelegationTokenResponse:
        period = DelegationTokenPeriod(principal, period_ms, digest or TOKEN.hmac_digest)
        return self.ask(AlterDelegationTokenRequest(None, period, None, 5000))

    def expire(self, principal: str, period_ms: int = -1, digest: bytes = b"") -> AlterDelegationTokenResponse:
        period = DelegationTokenPeriod(principal, period_ms, digest or TOKEN.hmac_digest)
        return self.ask(AlterDelegationTokenRequest(None, None, period, 5000))


def test_a_token_is_known_to_gateways_when_it_is_answered_and_its_secret_is_nowhere() -> None:
    scene = Scene()
    issued_ms = scene.wall_ms
    response = scene.create()
    assert response.error_code == 0
    assert response.issue_timestamp_ms >= issued_ms
    assert response.expiry_timestamp_ms == response.issue_timestamp_ms + DAY_MS
    assert response.max_timestamp_ms == response.issue_timestamp_ms + 7 * DAY_MS
    (known,) = scene.gateway.delegation_tokens.values()
    assert known.expiry_timestamp_ms == response.expiry_timestamp_ms
    (stored,) = scene.cluster.etcd.get(Get(KEYS.credentials.delegation_token("id-1")))
    assert decode_record(KEYS, stored.key, stored.value) == known
    assert SECRET.hex() not in stored.value.decode()
    assert "digest" not in repr(known)
    assert "stored" not in repr(known)


def test_a_lifetime_is_at_most_the_clusters() -> None:
    scene = Scene()
    short = scene.create(max_lifetime_ms=5000)
    assert short.max_timestamp_ms == short.expiry_timestamp_ms == short.issue_timestamp_ms + 5000
    long = scene.create(replace(TOKEN, token_id="id-2"), 2**63 - 1)
    assert long.max_timestamp_ms == long.issue_timestamp_ms + 7 * DAY_MS


def test_logstores_and_purgatory_pods_get_no_tokens_and_later_gateways_get_all() -> None:
    scene = Scene()
    pod = scene.controller.subscribers[scene.controller.subscribe(Role.PURGATORY, "purgatory-0")]
    scene.create()
    late_pod = scene.controller.subscribers[scene.controller.subscribe(Role.PURGATORY, "purgatory-1")]
    late = scene.controller.subscribers[scene.cluster.gateway(scene.controller, "gateway-1")]
    scene.cluster.logstore(2)
    scene.cluster.settle()
    assert set(late.delegation_tokens) == {"id-1"}
    assert not pod.delegation_tokens
    assert not late_pod.delegation_tokens
    for logstore in scene.cluster.logstores.values():
        updates = [each.update_metadata for each in logstore.requests if each.update_metadata is not None]
        assert not any(update.delegation_tokens for update in updates)


@pytest.mark.parametrize("principal", ["User:alice", "User:bob"])
def test_owner_and_renewers_renew(principal: str) -> None:
    scene = Scene()
    created = scene.create()
    scene.cluster.advance(1000)
    renewed = scene.renew(principal)
    assert renewed.error_code == 0
    assert renewed.expiry_timestamp_ms > created.expiry_timestamp_ms
    assert renewed.max_timestamp_ms == created.max_timestamp_ms
    shorter = scene.renew(principal, 10_000)
    assert shorter.expiry_timestamp_ms <= scene.wall_ms + 10_000
    assert scene.gateway.delegation_tokens["id-1"].expiry_timestamp_ms == shorter.expiry_timestamp_ms


def test_no_other_renews_or_ends_a_token() -> None:
    scene = Scene()
    scene.create()
    for principal in ("User:admin", "User:mallory", "Group:alice"):
        assert scene.renew(principal).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        assert scene.expire(principal).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert scene.renew("User:alice", digest=b"x" * 32).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert scene.expire("User:alice", digest=b"x" * 32).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_a_token_expires_at_once_or_later() -> None:
    scene = Scene()
    scene.create()
    later = scene.expire("User:bob", 60_000)
    assert later.error_code == 0
    assert scene.gateway.delegation_tokens["id-1"].expiry_timestamp_ms == later.expiry_timestamp_ms
    assert scene.expire("User:alice").error_code == 0
    assert not scene.gateway.delegation_tokens
    assert scene.expire("User:alice").error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_what_has_expired_is_not_renewed_and_is_removed() -> None:
    scene = Scene()
    scene.cluster.advance(1000)
    scene.create(max_lifetime_ms=2_000)
    scene.cluster.advance(10_000)
    if scene.gateway.delegation_tokens:
        assert scene.renew("User:alice").error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
        assert scene.expire("User:alice", 1000).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
    due_ms = scene.controller.core.next_deadline_ms(scene.cluster.now_ms)
    assert due_ms is not None
    scene.cluster.now_ms += 3_600_000
    scene.controller.renew()
    scene.cluster.settle()
    assert not scene.gateway.delegation_tokens
    assert not scene.cluster.etcd.get(Get(KEYS.credentials.delegation_token("id-1")))


def test_tokens_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    many = replace(TOKEN, renewers=[f"User:{number}" for number in range(101)])
    assert scene.create(many).error_code == ErrorCode.POLICY_VIOLATION
    assert scene.create(replace(TOKEN, owner="User:" + "a" * 1000)).error_code == ErrorCode.POLICY_VIOLATION
    monkeypatch.setattr(token_changes, "TOKENS_MAX", 1)
    assert scene.create().error_code == 0
    assert scene.create(replace(TOKEN, token_id="id-2")).error_code == ErrorCode.POLICY_VIOLATION
    assert scene.create().error_code == ErrorCode.INVALID_REQUEST


def test_a_token_that_can_not_be_read_is_no_token() -> None:
    scene = Scene()
    scene.create()
    key = KEYS.credentials.delegation_token("id-1")
    other = encode_record(replace(scene.gateway.delegation_tokens["id-1"], token_id="id-2"))
    scene.cluster.etcd.txn(Txn((), (Put(key, other),)))
    scene.cluster.settle()
    assert not scene.gateway.delegation_tokens
