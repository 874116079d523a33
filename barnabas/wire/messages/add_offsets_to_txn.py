"""AddOffsetsToTxn, API key 25, versions 0 to 4; flexible from 3.

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
