"""ListTransactions, API key 66, versions 0 to 2; flexible.

The transactions that the broker asked coordinates (KIP-664): clients ask every broker, and put the answers together.

- v1: filter by how long they have been running (KIP-994). v2: filter by a regular expression on the transactional id,
  INVALID_REGULAR_EXPRESSION where it is none (KIP-1152).
- State names that nobody knows are told in the answer, and match nothing.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_66_list_transactions.py`.

Source: Kafka's ListTransactionsRequest.json and ListTransactionsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class ListTransactionsRequest(Request):
    state_filters: list[str] = wire(["string"])
    producer_id_filters: list[int] = wire(["int64"])
    """Empty asks for all."""
    duration_filter: int = wire("int64", "1+", default=-1)
    """In ms; -1 for no such filter."""
    transactional_id_pattern: str | None = wire("string", "2+", nullable="2+", default=None)


@dataclass(slots=True)
class TransactionState:
    transactional_id: str = wire("string")
    producer_id: int = wire("int64")
    transaction_state: str = wire("string")


@dataclass(slots=True)
class ListTransactionsResponse(Response):
    throttle_time_ms: int = wire("int32")
    error_code: int = wire("int16")
    unknown_state_filters: list[str] = wire(["string"])
    transaction_states: list[TransactionState] = wire([TransactionState])
