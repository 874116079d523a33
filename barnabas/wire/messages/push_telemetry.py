"""PushTelemetry, API key 72, version 0; flexible.

A client's metrics, OTLP in protobuf (KIP-714).

- UNKNOWN_SUBSCRIPTION_ID sends the client back to GetTelemetrySubscriptions; TELEMETRY_TOO_LARGE,
  THROTTLING_QUOTA_EXCEEDED.

State: not served yet; it needs a store for the metrics of clients.

Source: Kafka's PushTelemetryRequest.json and PushTelemetryResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class PushTelemetryRequest(Request):
    client_instance_id: bytes = wire("uuid")
    subscription_id: int = wire("int32")
    terminating: bool = wire("bool")
    """Whether the client is closing, and this is its last push."""
    compression_type: int = wire("int8")
    metrics: bytes = wire("bytes")


@dataclass(slots=True)
class PushTelemetryResponse(Response):
    throttle_time_ms: int = wire("int32")
    error_code: int = wire("int16")
