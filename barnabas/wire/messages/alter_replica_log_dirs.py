"""AlterReplicaLogDirs, API key 34, versions 1 to 2; flexible from 2.

Moves replicas of one broker between its log directories (KIP-113); asked of each broker for its own replicas.

- v0 is gone from Kafka 4.
- A partition that the broker does not have yet is created in that directory when it comes, and answered with
  REPLICA_NOT_AVAILABLE.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_34_alter_replica_log_dirs.py`.

Source: Kafka's AlterReplicaLogDirsRequest.json and AlterReplicaLogDirsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class AlterReplicaLogDirTopic:
    name: str = wire("string")
    partitions: list[int] = wire(["int32"])


@dataclass(slots=True)
class AlterReplicaLogDir:
    path: str = wire("string")
    topics: list[AlterReplicaLogDirTopic] = wire([AlterReplicaLogDirTopic])


@dataclass(slots=True)
class AlterReplicaLogDirsRequest(Request):
    dirs: list[AlterReplicaLogDir] = wire([AlterReplicaLogDir])


@dataclass(slots=True)
class AlterReplicaLogDirPartitionResult:
    partition_index: int = wire("int32")
    error_code: int = wire("int16")


@dataclass(slots=True)
class AlterReplicaLogDirTopicResult:
    topic_name: str = wire("string")
    partitions: list[AlterReplicaLogDirPartitionResult] = wire([AlterReplicaLogDirPartitionResult])


@dataclass(slots=True)
class AlterReplicaLogDirsResponse(Response):
    throttle_time_ms: int = wire("int32")
    results: list[AlterReplicaLogDirTopicResult] = wire([AlterReplicaLogDirTopicResult])
