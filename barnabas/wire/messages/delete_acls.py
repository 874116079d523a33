"""DeleteAcls, API key 31, versions 1 to 3; flexible from 2.

Deletes the ACLs that match each filter, and tells them.

- v0 is gone from Kafka 4. v1: resource pattern type (KIP-290). v3: resources of type USER (KIP-373).
- Filters match as in DescribeAcls.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_31_delete_acls.py`.

Source: Kafka's DeleteAclsRequest.json and DeleteAclsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class DeleteAclsFilter:
    """Numbers as in DescribeAcls."""

    resource_type_filter: int = wire("int8")
    resource_name_filter: str | None = wire("string", nullable="0+")
    pattern_type_filter: int = wire("int8", "1+", default=3)
    principal_filter: str | None = wire("string", nullable="0+")
    host_filter: str | None = wire("string", nullable="0+")
    operation: int = wire("int8")
    permission_type: int = wire("int8")


@dataclass(slots=True)
class DeleteAclsRequest(Request):
    filters: list[DeleteAclsFilter] = wire([DeleteAclsFilter])


@dataclass(slots=True)
class DeleteAclsMatchingAcl:
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)
    resource_type: int = wire("int8")
    resource_name: str = wire("string")
    pattern_type: int = wire("int8", "1+", default=3)
    principal: str = wire("string")
    host: str = wire("string")
    operation: int = wire("int8")
    permission_type: int = wire("int8")


@dataclass(slots=True)
class DeleteAclsFilterResult:
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)
    matching_acls: list[DeleteAclsMatchingAcl] = wire([DeleteAclsMatchingAcl])


@dataclass(slots=True)
class DeleteAclsResponse(Response):
    throttle_time_ms: int = wire("int32")
    filter_results: list[DeleteAclsFilterResult] = wire([DeleteAclsFilterResult])
