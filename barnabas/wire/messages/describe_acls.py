"""DescribeAcls, API key 29, versions 1 to 3; flexible from 2.

The ACLs that match a filter.

- v0 is gone from Kafka 4. v1: resource pattern type (KIP-290). v3: resources of type USER (KIP-373).
- Null in a filter, and ANY (1) of a type, match everything; pattern type MATCH (2) finds all that applies to a name.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_29_describe_acls.py`.

Source: Kafka's DescribeAclsRequest.json and DescribeAclsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class DescribeAclsRequest(Request):
    resource_type_filter: int = wire("int8")
    """1 ANY, 2 TOPIC, 3 GROUP, 4 CLUSTER, 5 TRANSACTIONAL_ID, 6 DELEGATION_TOKEN, 7 USER."""
    resource_name_filter: str | None = wire("string", nullable="0+")
    pattern_type_filter: int = wire("int8", "1+", default=3)
    """1 ANY, 2 MATCH, 3 LITERAL, 4 PREFIXED."""
    principal_filter: str | None = wire("string", nullable="0+")
    host_filter: str | None = wire("string", nullable="0+")
    operation: int = wire("int8")
    """1 ANY, 2 ALL, 3 READ, 4 WRITE, 5 CREATE, 6 DELETE, 7 ALTER, 8 DESCRIBE, 9 CLUSTER_ACTION, 10 DESCRIBE_CONFIGS,
    11 ALTER_CONFIGS, 12 IDEMPOTENT_WRITE, 13 CREATE_TOKENS, 14 DESCRIBE_TOKENS, 15 TWO_PHASE_COMMIT."""
    permission_type: int = wire("int8")
    """1 ANY, 2 DENY, 3 ALLOW."""


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
