"""ElectLeaders, API key 43, versions 0 to 2; flexible from 2.

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
    topic_partitions: list[TopicPartitions] | None = wire([TopicPartitions], nullable="0+")
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
