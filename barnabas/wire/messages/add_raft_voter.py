"""AddRaftVoter, API key 80, versions 0 to 1; flexible.

Adds a voter to the KRaft quorum (KIP-853).

- v1: `ack_when_committed`; false answers when the new voter set is written to the leader's log.

State: not served; cluster state is in etcd, and there is no KRaft quorum to look at or to change.

Source: Kafka's AddRaftVoterRequest.json and AddRaftVoterResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class Listener:
    name: str = wire("string")
    host: str = wire("string")
    port: int = wire("uint16")


@dataclass(slots=True)
class AddRaftVoterRequest(Request):
    cluster_id: str | None = wire("string", nullable="0+")
    timeout_ms: int = wire("int32")
    voter_id: int = wire("int32")
    voter_directory_id: bytes = wire("uuid")
    listeners: list[Listener] = wire([Listener])
    ack_when_committed: bool = wire("bool", "1+", default=True)


@dataclass(slots=True)
class AddRaftVoterResponse(Response):
    throttle_time_ms: int = wire("int32")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)
