"""DeleteTopics, API key 20, versions 1 to 6; flexible from 4.

Deletes topics, each with a result of its own.

- Up to v5 topics are named in `topic_names`; from v6 on `topics` names each by its name or its id, never both.
- v5: error messages, THROTTLING_QUOTA_EXCEEDED (KIP-599). v6: topic ids (KIP-516), UNKNOWN_TOPIC_ID.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_20_delete_topics.py`.

Source: Kafka's DeleteTopicsRequest.json and DeleteTopicsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class DeleteTopicState:
    name: str | None = wire("string", "6+", nullable="6+", default=None)
    topic_id: bytes = wire("uuid", "6+")


@dataclass(slots=True)
class DeleteTopicsRequest(Request):
    topics: list[DeleteTopicState] = wire([DeleteTopicState], "6+")
    topic_names: list[str] = wire(["string"], "0-5")
    timeout_ms: int = wire("int32")


@dataclass(slots=True)
class DeletableTopicResult:
    name: str | None = wire("string", nullable="6+", default="")
    """None for a topic id that is not known or not allowed to be seen."""
    topic_id: bytes = wire("uuid", "6+")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", "5+", nullable="5+", default=None)


@dataclass(slots=True)
class DeleteTopicsResponse(Response):
    throttle_time_ms: int = wire("int32", "1+")
    responses: list[DeletableTopicResult] = wire([DeletableTopicResult])
