"""ElectLeaders, API key 43, versions 0 to 2; flexible from 2.

Elects leaders: the preferred replica, or an unclean one where none is in sync.

- v0 elects preferred replicas alone (KIP-183). v1: the election type and a top-level error code (KIP-460).
- Null partitions ask for all. ELECTION_NOT_NEEDED where the leader is the right one already.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_43_elect_leaders.py`.

Source: Kafka's ElectLeadersRequest.json and ElectLeadersResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class TopicPartitions:
    topic: str = wire("string")
    partitions: list[int] = wire(["int32"])


@dataclass(slots=True)
class ElectLeadersRequest(Request):
    election_type: int = wire("int8", "1+")
    """0 preferred, 1 unclean."""
    topic_partitions: list[TopicPartitions] | None = wire([TopicPartitions], nullable="0+")
    """None asks for all."""
    timeout_ms: int = wire("int32", default=60000)


@dataclass(slots=True)
class PartitionResult:
    partition_id: int = wire("int32")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)


@dataclass(slots=True)
class ReplicaElectionResult:
    topic: str = wire("string")
    partition_result: list[PartitionResult] = wire([PartitionResult])


@dataclass(slots=True)
class ElectLeadersResponse(Response):
    throttle_time_ms: int = wire("int32")
    error_code: int = wire("int16", "1+")
    replica_election_results: list[ReplicaElectionResult] = wire([ReplicaElectionResult])
