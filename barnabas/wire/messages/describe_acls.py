"""DescribeAcls, API key 29, versions 1 to 3; flexible from 2.

Source: Kafka's DescribeAclsRequest.json and DescribeAclsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class DescribeAclsRequest(Request):
    resource_type_filter: int = wire("int8")
    resource_name_filter: str | None = wire("string", nullable="0+")
    pattern_type_filter: int = wire("int8", "1+", default=3)
    principal_filter: str | None = wire("string", nullable="0+")
    host_filter: str | None = wire("string", nullable="0+")
    operation: int = wire("int8")
    permission_type: int = wire("int8")


@dataclass(slots=True)
class AclDescription:
    principal: str = wire("string")
    host: str = wire("string")
    operation: int = wire("int8")
    permission_type: int = wire("int8")


@dataclass(slots=True)
class DescribeAclsResource:
    resource_type: int = wire("int8")
    resource_name: str = wire("string")
    pattern_type: int = wire("int8", "1+", default=3)
    acls: list[AclDescription] = wire([AclDescription])


@dataclass(slots=True)
class DescribeAclsResponse(Response):
    throttle_time_ms: int = wire("int32")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)
    resources: list[DescribeAclsResource] = wire([DescribeAclsResource])
