"""GetTelemetrySubscriptions, API key 71, version 0; flexible.

Source: Kafka's GetTelemetrySubscriptionsRequest.json and GetTelemetrySubscriptionsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class GetTelemetrySubscriptionsRequest(Request):
    client_instance_id: bytes = wire("uuid")


@dataclass(slots=True)
class GetTelemetrySubscriptionsResponse(Response):
    throttle_time_ms: int = wire("int32")
    error_code: int = wire("int16")
    client_instance_id: bytes = wire("uuid")
    subscription_id: int = wire("int32")
    accepted_compression_types: list[int] = wire(["int8"])
    push_interval_ms: int = wire("int32")
    telemetry_max_bytes: int = wire("int32")
    delta_temporality: bool = wire("bool")
    requested_metrics: list[str] = wire(["string"])
