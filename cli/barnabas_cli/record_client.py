"""A synchronous Kafka client that appends and reads the records of one partition at a time, on `barnabas.wire`.

`up`, `status`, `produce` and `consume` use it. It sends fixed versions of the requests, since it only talks to
Barnabas, over one connection per broker, one request at a time. It retries what Kafka marks retriable until its
deadline; it is not idempotent, so a retried produce may write twice. The pipeline's client,
`barnabas_pipeline.kafka.cluster_client`, shares its connection (`barnabas.client`) and nothing else: it negotiates
versions, and looks up whole topics at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TypeVar

from barnabas.client.client_security import ClientSecurity
from barnabas.client.kafka_connection import CLEAR, ConnectionBroken, KafkaConnection
from barnabas.ports.compression import DECOMPRESSED_BYTES_MAX, Buffer
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import Request, Response
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from barnabas.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from barnabas.wire.primitives import MalformedFrame
from barnabas.wire.record_batch import HEADER_BYTES, Compression, Record, build_batch, decode_payload, iterate_headers

CLIENT_ID = "barnabas-cli"
RETRY_SECONDS = 0.1

_FETCH_VERSION = 12
"""The last version that identifies topics by name rather than by id."""
_PRODUCE_VERSION = 12
_LIST_OFFSETS_VERSION = 7
_METADATA_VERSION = 12
_FETCH_BYTES_MAX = 4 * 1024 * 1024
_ACKS_ALL = -1

R = TypeVar("R", bound=Response)


class KafkaError(Exception):
    """The cluster refused a request, or could not be reached in time."""


class RecordClient:
    """Use it as a context manager, which closes its connections."""

    def __init__(self, host: str, port: int, timeout_seconds: float = 30.0, security: ClientSecurity = CLEAR) -> None:
        self._bootstrap = (host, port)
        self._security = security
        self._timeout_seconds = timeout_seconds
        self._connections: dict[tuple[str, int], KafkaConnection] = {}
        self._leaders: dict[tuple[str, int], tuple[str, int]] = {}
        """Address of the leader of each (topic, partition) seen."""

    def __enter__(self) -> RecordClient:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._connections.values():
            connection.close()

    def api_versions(self) -> ApiVersionsResponse:
        request = ApiVersionsRequest(client_software_name=CLIENT_ID, client_software_version="1")
        return self._ask(self._bootstrap, request, 3, ApiVersionsResponse)

    def metadata(self, topic: str | None = None, *, create: bool = False) -> MetadataResponse:
        """Return the brokers, and the one topic if it is given."""
        topics = [] if topic is None else [MetadataRequestTopic(name=topic)]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=create)
        return self._ask(self._bootstrap, request, _METADATA_VERSION, MetadataResponse)

    def topic(self, topic: str, *, create: bool) -> MetadataResponseTopic:
        """Wait until every partition of the topic has a leader, and return the topic. Raises KafkaError."""
        deadline = time.monotonic() + self._timeout_seconds
        while True:
            response = self.metadata(topic, create=create)
            found = response.topics[0]
            addresses = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
            errors = [found.error_code, *(partition.error_code for partition in found.partitions)]
            error = next((code for code in errors if code != ErrorCode.NONE), ErrorCode.NONE)
            if error == ErrorCode.NONE and found.partitions:
                for partition in found.partitions:
                    self._leaders[topic, partition.partition_index] = addresses[partition.leader_id]
                return found
            if error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not create:
                raise KafkaError(f"there is no topic {topic}")
            self._retry_or_raise(error, deadline, f"metadata of {topic}")

    def produce(self, topic: str, partition: int, records: list[Record]) -> int:
        """Append with acks=all and return the offset of the first record. Raises KafkaError."""
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(partition, build_batch(records))])
        request = ProduceRequest(
            acks=_ACKS_ALL, timeout_ms=int(self._timeout_seconds * 1000), topic_data=[data], transactional_id=None
        )
        deadline = time.monotonic() + self._timeout_seconds
        while True:
            response = self._ask_leader(topic, partition, request, _PRODUCE_VERSION, ProduceResponse)
            result = response.responses[0].partition_responses[0]
            if result.error_code == ErrorCode.NONE:
                return result.base_offset
            self._retry_or_raise(result.error_code, deadline, f"produce to {topic}-{partition}")
            self.topic(topic, create=False)

    def offset(self, topic: str, partition: int, timestamp: int) -> int:
        """Return the offset for one of Kafka's special timestamps, or for a time in ms. Raises KafkaError."""
        asked = ListOffsetsTopic(topic, [ListOffsetsPartition(partition_index=partition, timestamp=timestamp)])
        request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[asked])
        deadline = time.monotonic() + self._timeout_seconds
        while True:
            response = self._ask_leader(topic, partition, request, _LIST_OFFSETS_VERSION, ListOffsetsResponse)
            result = response.topics[0].partitions[0]
            if result.error_code == ErrorCode.NONE:
                return result.offset
            self._retry_or_raise(result.error_code, deadline, f"offsets of {topic}-{partition}")
            self.topic(topic, create=False)

    def fetch(self, topic: str, partition: int, offset: int, wait_ms_max: int) -> list[Record]:
        """Return the records at and after `offset`; empty if none arrive within `wait_ms_max`. Raises KafkaError."""
        asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES_MAX)
        request = FetchRequest(
            max_wait_ms=wait_ms_max,
            min_bytes=1,
            max_bytes=_FETCH_BYTES_MAX,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[FetchTopic(topic=topic, partitions=[asked])],
        )
        deadline = time.monotonic() + self._timeout_seconds
        while True:
            response = self._ask_leader(topic, partition, request, _FETCH_VERSION, FetchResponse)
            error = response.error_code
            if error == ErrorCode.NONE:
                result = response.responses[0].partitions[0]
                error = result.error_code
                if error == ErrorCode.NONE:
                    return [record for record in decode_batches(result.records or b"") if record.offset >= offset]
            self._retry_or_raise(error, deadline, f"fetch of {topic}-{partition}")
            self.topic(topic, create=False)

    def _ask_leader(self, topic: str, partition: int, request: Request, version: int, response_type: type[R]) -> R:
        if (topic, partition) not in self._leaders:
            partitions = len(self.topic(topic, create=False).partitions)
            if (topic, partition) not in self._leaders:
                raise KafkaError(f"topic {topic} has {partitions} partitions, numbered from 0; there is no {partition}")
        return self._ask(self._leaders[topic, partition], request, version, response_type)

    def _ask(self, address: tuple[str, int], request: Request, version: int, response_type: type[R]) -> R:
        try:
            connection = self._connections.get(address)
            if connection is None:
                connection = KafkaConnection(*address, self._timeout_seconds, CLIENT_ID, security=self._security)
                self._connections[address] = connection
            return connection.ask(request, version, response_type)
        except ConnectionBroken as error:
            broken = self._connections.pop(address, None)
            if broken is not None:
                broken.close()
            raise KafkaError(str(error)) from None

    def _retry_or_raise(self, error: int, deadline: float, what: str) -> None:
        code = ErrorCode(error)
        # No error and no partitions: the topic was created a moment ago.
        if not (code.retriable or code == ErrorCode.NONE) or time.monotonic() > deadline:
            raise KafkaError(f"{what}: {code.name}: {code.message}")
        time.sleep(RETRY_SECONDS)


def decode_batches(buffer: bytes | bytearray | memoryview) -> Iterator[Record]:
    """Return the records of all complete batches in a fetched buffer, without those of control batches."""
    view = memoryview(buffer)
    for position, header in iterate_headers(view):
        if not header.is_control:
            payload = view[position + HEADER_BYTES : position + header.size_bytes]
            yield from decode_payload(header, _opened(header.compression, payload))


def _opened(compression: int, payload: memoryview) -> Buffer:
    if compression == Compression.NONE:
        return payload
    # Imported here because no other command of the CLI needs the codecs.
    from barnabas.runtime.compression import decompress

    opened = decompress(compression, payload, DECOMPRESSED_BYTES_MAX)
    if opened is None:
        raise MalformedFrame(f"a batch that can't be decompressed with codec {compression}")
    return opened
