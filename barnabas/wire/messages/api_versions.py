"""ApiVersions, API key 18, versions 0 to 4; flexible from 3.

What a broker serves: the first thing that a client asks.

- The response's header is v0 in all versions, and a request of a version that is not served is answered with a v0 body
  and UNSUPPORTED_VERSION (KIP-511), so that any client can read it.
- v1: throttle time. v3: client software name and version, and the tagged features (KIP-584). v4: a feature's minimum
  may be 0; up to v3 such features are left out (KAFKA-17011).

State: served by `services/gateway/barnabas_gateway/core/handlers/api_18_api_versions.py`.

Source: Kafka's ApiVersionsRequest.json and ApiVersionsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class ApiVersionsRequest(Request):
    client_software_name: str = wire("string", "3+")
    client_software_version: str = wire("string", "3+")


@dataclass(slots=True)
class ApiVersion:
    api_key: int = wire("int16")
    min_version: int = wire("int16")
    max_version: int = wire("int16")


@dataclass(slots=True)
class SupportedFeatureKey:
    name: str = wire("string", "3+")
    min_version: int = wire("int16", "3+")
    max_version: int = wire("int16", "3+")


@dataclass(slots=True)
class FinalizedFeatureKey:
    name: str = wire("string", "3+")
    max_version_level: int = wire("int16", "3+")
    min_version_level: int = wire("int16", "3+")


@dataclass(slots=True)
class ApiVersionsResponse(Response):
    error_code: int = wire("int16")
    api_keys: list[ApiVersion] = wire([ApiVersion])
    throttle_time_ms: int = wire("int32", "1+")
    supported_features: list[SupportedFeatureKey] = wire([SupportedFeatureKey], "3+", tag=0)
    finalized_features_epoch: int = wire("int64", "3+", tag=1, default=-1)
    """-1 when not known; only then do the finalized features mean nothing."""
    finalized_features: list[FinalizedFeatureKey] = wire([FinalizedFeatureKey], "3+", tag=2)
    zk_migration_ready: bool = wire("bool", "3+", tag=3)
