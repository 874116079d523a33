"""Send the costliest requests of an API key on one connection, while another client produces record after record."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import decode_response, encode_request
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tests.costly.connection import Connection
from tests.costly.other_client import OtherClient
from tests.costly.requests import Costly, costly_requests

TOPIC: Final = "costly"
PARTITIONS: Final = 50
_SETTLE_SECONDS: Final = 0.3


def create_topic(bootstrap: str) -> None:
    """The topic that costly requests name, and that the other client produces to."""
    connection = Connection(bootstrap)
    request = CreateTopicsRequest([CreatableTopic(TOPIC, PARTITIONS, -1)], 30_000)
    answer = connection.ask(b"".join(encode_request(request, 5, 1, "costly")))
    _, response = decode_response(ApiKey.CREATE_TOPICS, 5, memoryview(answer))
    assert isinstance(response, CreateTopicsResponse)
    assert response.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS), response
    connection.close()


@dataclass(frozen=True)
class Outcome:
    """What came of the requests of one API key."""

    api_key: ApiKey
    label: str
    """Of the request by which the other client waited longest."""
    request_bytes: int
    longest_wait_ms: float
    answered: int
    closed: int
    """Requests that the broker refused by closing the connection."""
    failures: tuple[str, ...]


def measure(
    bootstrap: str, other: OtherClient, api_key: int, elements: int, times: int, *, only: Collection[str] | None = None
) -> Outcome:
    """Send each costly request of an API key so often, or those of them with `only` these labels, on one connection."""
    worst: tuple[float, str, int] = (0.0, "", 0)
    answered = closed = 0
    failures: list[str] = []
    connection: Connection | None = None
    for costly in costly_requests(elements, TOPIC, api_key, labels=only):
        frame = _frame(costly)
        other.begin()
        for _ in range(times):
            connection = connection or Connection(bootstrap)
            try:
                connection.ask(frame)
                answered += 1
            except OSError:
                connection.close()
                connection = None
                closed += 1
        time.sleep(_SETTLE_SECONDS)
        waits = other.waits
        failures += waits.failures
        worst = max(worst, (waits.longest_ms, costly.label, len(frame)))
    if connection is not None:
        connection.close()
    longest_ms, label, size = worst
    return Outcome(ApiKey(api_key), label, size, longest_ms, answered, closed, tuple(failures))


def _frame(costly: Costly) -> bytes:
    return b"".join(encode_request(costly.request, costly.version, 1, "costly"))
