"""GetTelemetrySubscriptions, API key 71, version 0; flexible.

Which metrics a client shall push, how often, and how compressed (KIP-714).

- The zero UUID asks for a new client instance id.

State: not served yet; it needs a store for the metrics of clients.

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
    """Codecs as in record batches, the preferred first."""
    push_interval_ms: int = wire("int32")
    telemetry_max_bytes: int = wire("int32")
    delta_temporality: bool = wire("bool")
    requested_metrics: list[str] = wire(["string"])
    """Prefixes of names; an empty list asks for none, one empty string for all."""
