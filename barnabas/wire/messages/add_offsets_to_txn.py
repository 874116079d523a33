"""AddOffsetsToTxn, API key 25, versions 0 to 4; flexible from 3.

Adds the partition of `__consumer_offsets` that a group's offsets go to to a transaction; TxnOffsetCommit then writes
them.

- v1: throttled after the answer (KIP-219). v2: PRODUCER_FENCED. v4: TRANSACTION_ABORTABLE (KIP-890).

State: served by `services/gateway/barnabas_gateway/core/handlers/api_25_add_offsets_to_txn.py`.

Source: Kafka's AddOffsetsToTxnRequest.json and AddOffsetsToTxnResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class AddOffsetsToTxnRequest(Request):
    transactional_id: str = wire("string")
    producer_id: int = wire("int64")
    producer_epoch: int = wire("int16")
    group_id: str = wire("string")


@dataclass(slots=True)
class AddOffsetsToTxnResponse(Response):
    throttle_time_ms: int = wire("int32")
    error_code: int = wire("int16")
