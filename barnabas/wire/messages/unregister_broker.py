"""UnregisterBroker, API key 64, version 0; flexible.

Removes a broker that will not return from the cluster's metadata (KIP-631).

State: not served yet; `barnabas nodes remove` removes a logstore.

Source: Kafka's UnregisterBrokerRequest.json and UnregisterBrokerResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class UnregisterBrokerRequest(Request):
    broker_id: int = wire("int32")


@dataclass(slots=True)
class UnregisterBrokerResponse(Response):
    throttle_time_ms: int = wire("int32")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)
