"""CreateAcls, API key 30, versions 1 to 3; flexible from 2.

Creates ACLs, each with a result of its own.

- v0 is gone from Kafka 4. v1: resource pattern type (KIP-290). v3: resources of type USER (KIP-373).
- An ACL that exists already is created again without an error.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_30_create_acls.py`.

Source: Kafka's CreateAclsRequest.json and CreateAclsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class AclCreation:
    """Numbers as in DescribeAcls, without ANY and MATCH."""

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
