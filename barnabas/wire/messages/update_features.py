"""UpdateFeatures, API key 57, versions 0 to 2; flexible.

Raises and lowers finalized features of the cluster, `group.version` for instance (KIP-584).

- v1: `validate_only`, and an upgrade type that tells safe downgrades from unsafe ones, instead of `allow_downgrade`
  (KIP-778). v2: no results per feature, since the request succeeds or fails as a whole (KIP-1022).
- `max_version_level` below 1 deletes the feature.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_57_update_features.py`.

Source: Kafka's UpdateFeaturesRequest.json and UpdateFeaturesResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class FeatureUpdateKey:
    feature: str = wire("string")
    max_version_level: int = wire("int16")
    allow_downgrade: bool = wire("bool", "0")
    upgrade_type: int = wire("int8", "1+", default=1)
    """1 upgrade, 2 safe downgrade, 3 unsafe downgrade."""


@dataclass(slots=True)
class UpdateFeaturesRequest(Request):
    timeout_ms: int = wire("int32", default=60000)
    feature_updates: list[FeatureUpdateKey] = wire([FeatureUpdateKey])
    validate_only: bool = wire("bool", "1+")


@dataclass(slots=True)
class UpdatableFeatureResult:
    feature: str = wire("string")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)


@dataclass(slots=True)
class UpdateFeaturesResponse(Response):
    throttle_time_ms: int = wire("int32")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)
    results: list[UpdatableFeatureResult] = wire([UpdatableFeatureResult], "0-1")
