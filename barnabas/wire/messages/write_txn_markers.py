"""WriteTxnMarkers, API key 27, versions 1 to 2; flexible.

The transaction coordinator ends a transaction in its partitions: each leader appends a control batch. Sent by brokers,
and by operators who end a hanging transaction; it needs CLUSTER_ACTION, or ALTER on the cluster.

- v0 is gone from Kafka 4. v2: the transaction version, by which the leader checks the epoch more strictly (KIP-1228).
- A coordinator epoch below the last one seen is TRANSACTION_COORDINATOR_FENCED.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_27_write_txn_markers.py`.

Source: Kafka's WriteTxnMarkersRequest.json and WriteTxnMarkersResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class WritableTxnMarkerTopic:
    name: str = wire("string")
    partition_indexes: list[int] = wire(["int32"])


@dataclass(slots=True)
class WritableTxnMarker:
    producer_id: int = wire("int64")
    producer_epoch: int = wire("int16")
    transaction_result: bool = wire("bool")
    """True commits, false aborts."""
    topics: list[WritableTxnMarkerTopic] = wire([WritableTxnMarkerTopic])
    coordinator_epoch: int = wire("int32")
    transaction_version: int = wire("int8", "2+")
    """0 and 1 take the markers' epoch as it is; from 2 on it has to be above the transaction's."""


@dataclass(slots=True)
class WriteTxnMarkersRequest(Request):
    markers: list[WritableTxnMarker] = wire([WritableTxnMarker])


@dataclass(slots=True)
class WritableTxnMarkerPartitionResult:
    partition_index: int = wire("int32")
    error_code: int = wire("int16")


@dataclass(slots=True)
class WritableTxnMarkerTopicResult:
    name: str = wire("string")
    partitions: list[WritableTxnMarkerPartitionResult] = wire([WritableTxnMarkerPartitionResult])


@dataclass(slots=True)
class WritableTxnMarkerResult:
    producer_id: int = wire("int64")
    topics: list[WritableTxnMarkerTopicResult] = wire([WritableTxnMarkerTopicResult])


@dataclass(slots=True)
class WriteTxnMarkersResponse(Response):
    markers: list[WritableTxnMarkerResult] = wire([WritableTxnMarkerResult])
