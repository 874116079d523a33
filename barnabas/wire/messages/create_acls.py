"""CreateAcls, API key 30, versions 1 to 3; flexible from 2.

Source: Kafka's CreateAclsRequest.json and CreateAclsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class AclCreation:
    resource_type: int = wire("int8")
    resource_name: str = wire("string")
    resource_pattern_type: int = wire("int8", "1+", default=3)
    principal: str = wire("string")
    host: str = wire("string")
    operation: int = wire("int8")
    permission_type: int = wire("int8")


@dataclass(slots=True)
class CreateAclsRequest(Request):
    creations: list[AclCreation] = wire([AclCreation])


@dataclass(slots=True)
class AclCreationResult:
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)


@dataclass(slots=True)
class CreateAclsResponse(Response):
    throttle_time_ms: int = wire("int32")
    results: list[AclCreationResult] = wire([AclCreationResult])
