"""Delegation tokens are created, renewed and expired (KIP-48): which changes are valid, and the writes that make them.

Rules are those of Kafka's DelegationTokenControlManager, and its times are the controller's. Deviation: the number of
tokens and of a token's renewers have bounds, since they are kept in etcd and sent to all gateways.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from barnabas.cluster.delegation_tokens import (
    RENEWERS_MAX,
    TOKENS_MAX,
    AlterDelegationTokenRequest,
    AlterDelegationTokenResponse,
    DelegationToken,
    DelegationTokenCreation,
    DelegationTokenPeriod,
)
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.state.image import ControllerImage
from barnabas_controller.core.state.writes import OPERATIONS_MAX, Write, put
from barnabas_controller.core.topics.placement import Refused

_PRINCIPAL_LENGTH_MAX: Final = 1_000
_TIME_MAX: Final = 2**63 - 1


@dataclass(slots=True, frozen=True)
class TokenSettings:
    """By Kafka's keys and defaults: `delegation.token.…`."""

    max_lifetime_ms: int = 7 * 24 * 3_600_000
    expiry_time_ms: int = 24 * 3_600_000
    expiry_check_interval_ms: int = 3_600_000


class TokenChanges:
    def __init__(self, image: ControllerImage, settings: TokenSettings, wall_ms: Callable[[], int]) -> None:
        self._image = image
        self._settings = settings
        self._wall_ms = wall_ms
        self._check_ms = 0
        """When tokens that have expired are looked for next (monotonic)."""

    def alter(self, request: AlterDelegationTokenRequest) -> tuple[AlterDelegationTokenResponse, list[Write]]:
        """Return the answer, without a revision, and the writes that make it true."""
        now_ms = self._wall_ms()
        try:
            if request.creation is not None:
                token = self._created(request.creation, now_ms)
            elif request.renewal is not None:
                token = self._renewed(request.renewal, now_ms)
            elif request.expiration is not None:
                token = self._expiring(request.expiration, now_ms)
            else:
                raise Refused(ErrorCode.INVALID_REQUEST, "nothing is to be done")
        except Refused as refusal:
            return AlterDelegationTokenResponse(refusal.error_code, refusal.message), []
        response = AlterDelegationTokenResponse(
            ErrorCode.NONE, "", token.issue_timestamp_ms, token.expiry_timestamp_ms, token.max_timestamp_ms
        )
        key = self._image.keys.credentials.delegation_token(token.token_id)
        is_over = request.expiration is not None and request.expiration.period_ms < 0
        return response, [Write(key, None) if is_over else put(key, token)]

    def _created(self, creation: DelegationTokenCreation, now_ms: int) -> DelegationToken:
        """Raises Refused."""
        token = creation.token
        if token is None or not token.token_id or token.token_id in self._image.delegation_tokens:
            raise Refused(ErrorCode.INVALID_REQUEST, "a token without an id, or with that of another")
        names = (token.owner, token.requester, *token.renewers)
        if len(token.renewers) > RENEWERS_MAX or any(len(name) > _PRINCIPAL_LENGTH_MAX for name in names):
            text = f"A token has {RENEWERS_MAX} renewers at most, and a principal {_PRINCIPAL_LENGTH_MAX} characters"
            raise Refused(ErrorCode.POLICY_VIOLATION, text)
        if len(self._image.delegation_tokens) >= TOKENS_MAX:
            raise Refused(ErrorCode.POLICY_VIOLATION, f"There are {TOKENS_MAX} delegation tokens already")
        lifetime_ms = self._settings.max_lifetime_ms
        if creation.max_lifetime_ms > 0:
            lifetime_ms = min(lifetime_ms, creation.max_lifetime_ms)
        max_ms = _sum(now_ms, lifetime_ms)
        expiry_ms = min(max_ms, _sum(now_ms, self._settings.expiry_time_ms))
        return replace(token, issue_timestamp_ms=now_ms, expiry_timestamp_ms=expiry_ms, max_timestamp_ms=max_ms)

    def _renewed(self, asked: DelegationTokenPeriod, now_ms: int) -> DelegationToken:
        """Raises Refused."""
        token = self._find(asked)
        if token.is_expired(now_ms):
            raise _refused(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        if not token.may_be_renewed_by(asked.principal):
            raise _refused(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
        period_ms = self._settings.expiry_time_ms
        if asked.period_ms > 0:
            period_ms = min(period_ms, asked.period_ms)
        return replace(token, expiry_timestamp_ms=min(token.max_timestamp_ms, _sum(now_ms, period_ms)))

    def _expiring(self, asked: DelegationTokenPeriod, now_ms: int) -> DelegationToken:
        """Raises Refused."""
        token = self._find(asked)
        if not token.may_be_renewed_by(asked.principal):
            raise _refused(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
        if asked.period_ms < 0:
            return replace(token, expiry_timestamp_ms=now_ms)
        if token.is_expired(now_ms):
            raise _refused(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        return replace(token, expiry_timestamp_ms=min(token.max_timestamp_ms, _sum(now_ms, asked.period_ms)))

    def _find(self, asked: DelegationTokenPeriod) -> DelegationToken:
        """Raises Refused."""
        for token in self._image.delegation_tokens.values():
            if token.hmac_digest == asked.hmac_digest:
                return token
        raise _refused(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)

    # --- tokens that have expired ---

    def due_ms(self) -> int | None:
        """Return when `expired` has something to look for; None: not until there are tokens."""
        return self._check_ms if self._image.delegation_tokens else None

    def expired(self, now_ms: int) -> list[Write]:
        """Return writes that remove tokens that have expired, a Txn at most; none if it is not time to look."""
        if now_ms < self._check_ms:
            return []
        wall_ms, keys = self._wall_ms(), self._image.keys.credentials
        over = [token_id for token_id, each in self._image.delegation_tokens.items() if each.is_expired(wall_ms)]
        if not over:
            self._check_ms = now_ms + self._settings.expiry_check_interval_ms
        return [Write(keys.delegation_token(token_id), None) for token_id in over[:OPERATIONS_MAX]]


def _refused(error_code: ErrorCode) -> Refused:
    return Refused(error_code, error_code.message)


def _sum(left: int, right: int) -> int:
    return min(left + right, _TIME_MAX)
