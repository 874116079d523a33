"""EndTxn, API key 26, versions 0 to 5; flexible from 3.

Commits or aborts the open transaction of a producer.

- v1: throttled after the answer (KIP-219). v2: PRODUCER_FENCED. v4: TRANSACTION_ABORTABLE (KIP-890). v5: every
  transaction bumps the producer epoch, and the answer has id and epoch of the next one (KIP-890 part 2).

State: served by `services/gateway/barnabas_gateway/core/handlers/api_26_end_txn.py`.

Source: Kafka's EndTxnRequest.json and EndTxnResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class EndTxnRequest(Request):
    transactional_id: str = wire("string")
    producer_id: int = wire("int64")
    producer_epoch: int = wire("int16")
    committed: bool = wire("bool")
    """False aborts."""


@dataclass(slots=True)
class EndTxnResponse(Response):
    throttle_time_ms: int = wire("int32")
    error_code: int = wire("int16")
    producer_id: int = wire("int64", "5+", default=-1)
    producer_epoch: int = wire("int16", "5+", default=-1)
