"""QuotaLimits: which quota a client has of those that are set, and which clients share it.

The order is that of Kafka's `DefaultQuotaCallback` (KIP-55): a user's quota for the client id, for any client id, for
all of its client ids together; the same three for any user; then the client id's, of whichever user.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from barnabas.cluster.quotas.entities import (
    CLIENT_ID,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    Entity,
)

CLIENT_KEYS: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)

_ABSENT: Final = ""
"""In the place of a type that an entity does not have: no name is empty."""


class QuotaTags(NamedTuple):
    """Whose use is counted together: an empty name means that it does not matter (Kafka's tags of the metrics)."""

    user: str
    client_id: str


class QuotaLimits:
    """The limits of one key."""

    __slots__ = ("_limits",)

    def __init__(self, key: str, quotas: Mapping[Entity, Mapping[str, float]]) -> None:
        self._limits: dict[tuple[str | None, str | None], float] = {}
        """By user and client id; None: the default."""
        for entity, values in quotas.items():
            names = dict(entity)
            if key in values and IP not in names:
                self._limits[names.get(USER, _ABSENT), names.get(CLIENT_ID, _ABSENT)] = values[key]

    def is_empty(self) -> bool:
        return not self._limits

    def find(self, user: str, client_id: str) -> tuple[QuotaTags, float] | None:
        """Return the quota of a client, and whose it is."""
        limits = self._limits
        if not limits:
            return None
        for user_key in (user, None):
            for client_key in (client_id, None):
                limit = limits.get((user_key, client_key)) if client_id or client_key is None else None
                if limit is not None:
                    return QuotaTags(user, client_id), limit
            limit = limits.get((user_key, _ABSENT))
            if limit is not None:
                return QuotaTags(user, ""), limit
        for client_key in (client_id, None):
            limit = limits.get((_ABSENT, client_key)) if client_id or client_key is None else None
            if limit is not None:
                return QuotaTags("", client_id), limit
        return None
