"""RemoveRaftVoter, API key 81, version 0; flexible.

Removes a voter from the KRaft quorum (KIP-853).

State: not served; cluster state is in etcd, and there is no KRaft quorum to look at or to change.

Source: Kafka's RemoveRaftVoterRequest.json and RemoveRaftVoterResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class RemoveRaftVoterRequest(Request):
    cluster_id: str | None = wire("string", nullable="0+")
    voter_id: int = wire("int32")
    voter_directory_id: bytes = wire("uuid")


@dataclass(slots=True)
class RemoveRaftVoterResponse(Response):
    throttle_time_ms: int = wire("int32")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)
