"""OffsetDelete, API key 47, version 0; never flexible.

Deletes committed offsets of single partitions (KIP-496).

- GROUP_SUBSCRIBED_TO_TOPIC where the group still consumes the topic. Never flexible.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_47_offset_delete.py`.

Source: Kafka's OffsetDeleteRequest.json and OffsetDeleteResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class OffsetDeleteRequestPartition:
    partition_index: int = wire("int32")


@dataclass(slots=True)
class OffsetDeleteRequestTopic:
    name: str = wire("string")
    partitions: list[OffsetDeleteRequestPartition] = wire([OffsetDeleteRequestPartition])


@dataclass(slots=True)
class OffsetDeleteRequest(Request):
    group_id: str = wire("string")
    topics: list[OffsetDeleteRequestTopic] = wire([OffsetDeleteRequestTopic])


@dataclass(slots=True)
class OffsetDeleteResponsePartition:
    partition_index: int = wire("int32")
    error_code: int = wire("int16")


@dataclass(slots=True)
class OffsetDeleteResponseTopic:
    name: str = wire("string")
    partitions: list[OffsetDeleteResponsePartition] = wire([OffsetDeleteResponsePartition])


@dataclass(slots=True)
class OffsetDeleteResponse(Response):
    error_code: int = wire("int16")
    throttle_time_ms: int = wire("int32")
    topics: list[OffsetDeleteResponseTopic] = wire([OffsetDeleteResponseTopic])
