"""Requests whose cost is in a number: a topic of as many partitions as one request may ask for comes, grows and goes.

Each on its connection while another client produces one record after the other. The topic is created, described with
all others, made larger by a tenth and deleted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from barnabas.cluster.messages import PARTITIONS_PER_REQUEST_MAX
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import decode_response, encode_request
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import Request, Response
from barnabas.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.metadata import MetadataRequest
from tests.costly.connection import Connection
from tests.costly.measure import Outcome
from tests.costly.other_client import OtherClient

LARGE_TOPIC: Final = "large"
_GROWN: Final = PARTITIONS_PER_REQUEST_MAX // 10
_TIMEOUT_MS: Final = 60_000
_SETTLE_SECONDS: Final = 3.0
"""The members learn of it after the answer."""


def measure_large_topic(bootstrap: str, other: OtherClient) -> Iterator[Outcome]:
    """Raise AssertionError where a request is refused."""
    partitions = PARTITIONS_PER_REQUEST_MAX
    connection = Connection(bootstrap)
    requests: list[tuple[ApiKey, int, str, Request]] = [
        (
            ApiKey.CREATE_TOPICS,
            7,
            f"a topic of {partitions:,} partitions",
            CreateTopicsRequest([CreatableTopic(LARGE_TOPIC, partitions, 1)], _TIMEOUT_MS),
        ),
        (ApiKey.METADATA, 12, f"all topics, one of {partitions:,} partitions", MetadataRequest(None)),
        (
            ApiKey.CREATE_PARTITIONS,
            3,
            f"{_GROWN:,} partitions more",
            CreatePartitionsRequest([CreatePartitionsTopic(LARGE_TOPIC, partitions + _GROWN)], _TIMEOUT_MS),
        ),
        (
            ApiKey.DELETE_TOPICS,
            6,
            f"a topic of {partitions + _GROWN:,} partitions",
            DeleteTopicsRequest(topics=[DeleteTopicState(LARGE_TOPIC)], timeout_ms=_TIMEOUT_MS),
        ),
    ]
    for api_key, version, label, request in requests:
        frame = b"".join(encode_request(request, version, 1, "costly"))
        other.begin()
        _, response = decode_response(api_key, version, memoryview(connection.ask(frame)))
        time.sleep(_SETTLE_SECONDS)
        assert not _errors(response), _errors(response)
        waits = other.waits
        yield Outcome(api_key, label, len(frame), waits.longest_ms, 1, 0, tuple(waits.failures))
    connection.close()


def _errors(response: Response) -> list[str]:
    """The names of the errors in the results of its topics."""
    results = next(
        value for name in ("topics", "results", "responses") if (value := getattr(response, name, None)) is not None
    )
    return [ErrorCode(each.error_code).name for each in results if each.error_code]
