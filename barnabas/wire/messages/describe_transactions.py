"""DescribeTransactions, API key 65, version 0; flexible.

The state of transactions by transactional id, asked of their coordinator (KIP-664).

State: served by `services/gateway/barnabas_gateway/core/handlers/api_65_describe_transactions.py`.

Source: Kafka's DescribeTransactionsRequest.json and DescribeTransactionsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class DescribeTransactionsRequest(Request):
    transactional_ids: list[str] = wire(["string"])


@dataclass(slots=True)
class TopicData:
    topic: str = wire("string")
    partitions: list[int] = wire(["int32"])


@dataclass(slots=True)
class TransactionState:
    error_code: int = wire("int16")
    transactional_id: str = wire("string")
    transaction_state: str = wire("string")
    transaction_timeout_ms: int = wire("int32")
    transaction_start_time_ms: int = wire("int64")
    producer_id: int = wire("int64")
    producer_epoch: int = wire("int16")
    topics: list[TopicData] = wire([TopicData])


@dataclass(slots=True)
class DescribeTransactionsResponse(Response):
    throttle_time_ms: int = wire("int32")
    transaction_states: list[TransactionState] = wire([TransactionState])
