"""The messages that Barnabas serves: one module per API key, each opening with its contract.

Fields bear the names of Kafka's message JSON in snake case, and every class can be made without arguments. A field
that a version does not have is left out when that version is encoded.

A new API is a module here, its row in `MESSAGES`, its versions in `ApiKey`, and its golden bytes by
`python -m tests.unit.wire.golden`.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.wire.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.wire.messages.produce import ProduceRequest, ProduceResponse

Request: TypeAlias = (
    ApiVersionsRequest
    | CreateTopicsRequest
    | DeleteTopicsRequest
    | DescribeClusterRequest
    | FetchRequest
    | FindCoordinatorRequest
    | InitProducerIdRequest
    | ListOffsetsRequest
    | MetadataRequest
    | ProduceRequest
)
Response: TypeAlias = (
    ApiVersionsResponse
    | CreateTopicsResponse
    | DeleteTopicsResponse
    | DescribeClusterResponse
    | FetchResponse
    | FindCoordinatorResponse
    | InitProducerIdResponse
    | ListOffsetsResponse
    | MetadataResponse
    | ProduceResponse
)

MESSAGES: Final[dict[ApiKey, tuple[type[Request], type[Response]]]] = {
    ApiKey.PRODUCE: (ProduceRequest, ProduceResponse),
    ApiKey.FETCH: (FetchRequest, FetchResponse),
    ApiKey.LIST_OFFSETS: (ListOffsetsRequest, ListOffsetsResponse),
    ApiKey.METADATA: (MetadataRequest, MetadataResponse),
    ApiKey.FIND_COORDINATOR: (FindCoordinatorRequest, FindCoordinatorResponse),
    ApiKey.API_VERSIONS: (ApiVersionsRequest, ApiVersionsResponse),
    ApiKey.CREATE_TOPICS: (CreateTopicsRequest, CreateTopicsResponse),
    ApiKey.DELETE_TOPICS: (DeleteTopicsRequest, DeleteTopicsResponse),
    ApiKey.INIT_PRODUCER_ID: (InitProducerIdRequest, InitProducerIdResponse),
    ApiKey.DESCRIBE_CLUSTER: (DescribeClusterRequest, DescribeClusterResponse),
}
"""Request and response of each served key."""
