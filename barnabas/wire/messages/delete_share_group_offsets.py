"""DeleteShareGroupOffsets, API key 92, version 0; flexible.

Deletes the offsets of topics from a share group that has no members (KIP-932); NON_EMPTY_GROUP otherwise.

State: not served yet; it needs share groups and their coordinator (KIP-932).

Source: Kafka's DeleteShareGroupOffsetsRequest.json and DeleteShareGroupOffsetsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class DeleteShareGroupOffsetsRequestTopic:
    topic_name: str = wire("string")


@dataclass(slots=True)
class DeleteShareGroupOffsetsRequest(Request):
    group_id: str = wire("string")
    topics: list[DeleteShareGroupOffsetsRequestTopic] = wire([DeleteShareGroupOffsetsRequestTopic])


@dataclass(slots=True)
class DeleteShareGroupOffsetsResponseTopic:
    topic_name: str = wire("string")
    topic_id: bytes = wire("uuid")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)


@dataclass(slots=True)
class DeleteShareGroupOffsetsResponse(Response):
    throttle_time_ms: int = wire("int32")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = wire([DeleteShareGroupOffsetsResponseTopic])
