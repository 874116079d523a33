"""DescribeProducers, API key 61, version 0; flexible.

The active producers of a partition, from its leader's producer state: what is looked at to find a hanging transaction
(KIP-664).

State: served by `services/gateway/barnabas_gateway/core/handlers/api_61_describe_producers.py`.

Source: Kafka's DescribeProducersRequest.json and DescribeProducersResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class TopicRequest:
    name: str = wire("string")
    partition_indexes: list[int] = wire(["int32"])


@dataclass(slots=True)
class DescribeProducersRequest(Request):
    topics: list[TopicRequest] = wire([TopicRequest])


@dataclass(slots=True)
class ProducerState:
    producer_id: int = wire("int64")
    producer_epoch: int = wire("int32")
    last_sequence: int = wire("int32", default=-1)
    last_timestamp: int = wire("int64", default=-1)
    coordinator_epoch: int = wire("int32")
    current_txn_start_offset: int = wire("int64", default=-1)
    """-1 without an open transaction."""


@dataclass(slots=True)
class PartitionResponse:
    partition_index: int = wire("int32")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)
    active_producers: list[ProducerState] = wire([ProducerState])


@dataclass(slots=True)
class TopicResponse:
    name: str = wire("string")
    partitions: list[PartitionResponse] = wire([PartitionResponse])


@dataclass(slots=True)
class DescribeProducersResponse(Response):
    throttle_time_ms: int = wire("int32")
    topics: list[TopicResponse] = wire([TopicResponse])
