"""EndTxn, API key 26, versions 0 to 5; flexible from 3.

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


@dataclass(slots=True)
class EndTxnResponse(Response):
    throttle_time_ms: int = wire("int32")
    error_code: int = wire("int16")
    producer_id: int = wire("int64", "5+", default=-1)
    producer_epoch: int = wire("int16", "5+", default=-1)
