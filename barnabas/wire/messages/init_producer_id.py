"""InitProducerId, API key 22, versions 0 to 6 (Kafka 4.3: 0 to 5); flexible from 2.

Id and epoch for an idempotent or transactional producer.

- Without a transactional id it hands out a fresh producer id with epoch 0.
- v3: a producer may present its id and epoch to resume (KIP-360). v4: PRODUCER_FENCED. v5: TRANSACTION_ABORTABLE
  (KIP-890). v6, two-phase commit (KIP-939), is unstable in Kafka 4.3, which does not offer it either.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_22_init_producer_id.py`.

Source: Kafka's InitProducerIdRequest.json and InitProducerIdResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class InitProducerIdRequest(Request):
    transactional_id: str | None = wire("string", nullable="0+", default=None)
    transaction_timeout_ms: int = wire("int32")
    producer_id: int = wire("int64", "3+", default=-1)
    producer_epoch: int = wire("int16", "3+", default=-1)
    enable2_pc: bool = wire("bool", "6+")
    keep_prepared_txn: bool = wire("bool", "6+")


@dataclass(slots=True)
class InitProducerIdResponse(Response):
    throttle_time_ms: int = wire("int32")
    error_code: int = wire("int16")
    producer_id: int = wire("int64", default=-1)
    producer_epoch: int = wire("int16")
    ongoing_txn_producer_id: int = wire("int64", "6+", default=-1)
    ongoing_txn_producer_epoch: int = wire("int16", "6+", default=-1)
