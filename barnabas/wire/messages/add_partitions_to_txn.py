"""AddPartitionsToTxn, API key 24, versions 0 to 5; flexible from 3.

Adds partitions to the open transaction of a producer, and asks whether they are in it.

- v1: throttled after the answer (KIP-219). v2: PRODUCER_FENCED. v4: several transactions at once, and `verify_only` by
  which a partition's leader asks before it appends (KIP-890). v5: TRANSACTION_ABORTABLE (KIP-890).
- Clients send v0 to v3, brokers v4 and later; a producer of transaction.version 2 does not send it at all, since its
  Produce v12 adds the partition.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_24_add_partitions_to_txn.py`.

Source: Kafka's AddPartitionsToTxnRequest.json and AddPartitionsToTxnResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class AddPartitionsToTxnTopic:
    name: str = wire("string")
    partitions: list[int] = wire(["int32"])


@dataclass(slots=True)
class AddPartitionsToTxnTransaction:
    transactional_id: str = wire("string", "4+")
    producer_id: int = wire("int64", "4+")
    producer_epoch: int = wire("int16", "4+")
    verify_only: bool = wire("bool", "4+")
    """Whether to ask only, and add nothing."""
    topics: list[AddPartitionsToTxnTopic] = wire([AddPartitionsToTxnTopic], "4+")


@dataclass(slots=True)
class AddPartitionsToTxnRequest(Request):
    transactions: list[AddPartitionsToTxnTransaction] = wire([AddPartitionsToTxnTransaction], "4+")
    v3_and_below_transactional_id: str = wire("string", "0-3")
    v3_and_below_producer_id: int = wire("int64", "0-3")
    v3_and_below_producer_epoch: int = wire("int16", "0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = wire([AddPartitionsToTxnTopic], "0-3")


@dataclass(slots=True)
class AddPartitionsToTxnPartitionResult:
    partition_index: int = wire("int32")
    partition_error_code: int = wire("int16")


@dataclass(slots=True)
class AddPartitionsToTxnTopicResult:
    name: str = wire("string")
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = wire([AddPartitionsToTxnPartitionResult])


@dataclass(slots=True)
class AddPartitionsToTxnResult:
    transactional_id: str = wire("string", "4+")
    topic_results: list[AddPartitionsToTxnTopicResult] = wire([AddPartitionsToTxnTopicResult], "4+")


@dataclass(slots=True)
class AddPartitionsToTxnResponse(Response):
    throttle_time_ms: int = wire("int32")
    error_code: int = wire("int16", "4+")
    results_by_transaction: list[AddPartitionsToTxnResult] = wire([AddPartitionsToTxnResult], "4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = wire([AddPartitionsToTxnTopicResult], "0-3")
