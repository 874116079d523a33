"""Which broker the client asks, with brokers that answer by script."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

pytest.importorskip("pyarrow", reason="no pyarrow here (make pipeline-test)")

from barnabas.client.kafka_connection import ConnectionBroken
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas_pipeline.core.errors import ClusterUnreachable
from barnabas_pipeline.core.settings import ClientSettings
from barnabas_pipeline.kafka import cluster_client
from barnabas_pipeline.kafka.cluster_client import ClusterClient, Retry

SETTINGS = ClientSettings(
    (("stale", 1), ("gone", 2), ("good", 3)), api_timeout_ms=60_000, retry_backoff_ms=1, retry_backoff_max_ms=1
)


def metadata(code: int) -> MetadataResponse:
    topic = MetadataResponseTopic(code, "orders", partitions=[MetadataResponsePartition(0, 0, 1)])
    return MetadataResponse(brokers=[MetadataResponseBroker(1, "good", 3)], topics=[topic])


class FakeConnection:
    """`stale` says for ever that the topic has no leader yet, `gone` can't be reached."""

    asked: ClassVar[list[str]] = []

    def __init__(self, host: str, port: int, *_: object) -> None:
        self.host, self.address = host, f"{host}:{port}"
        FakeConnection.asked.append(host)
        if host == "gone":
            raise ConnectionBroken(f"{self.address}: Connection refused")

    def learn_versions(self, *_: str) -> None:
        pass

    def version_of(self, key: ApiKey) -> int:
        del key
        return 12

    def call(self, request: object, answer: object) -> MetadataResponse:
        del request, answer
        return metadata(ErrorCode.LEADER_NOT_AVAILABLE if self.host == "stale" else ErrorCode.NONE)

    def close(self) -> None:
        pass


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(cluster_client, "KafkaConnection", FakeConnection)
    monkeypatch.setattr(FakeConnection, "asked", [])
    return FakeConnection.asked


def test_a_broker_that_is_behind_is_not_the_only_one_that_is_asked(asked: list[str]) -> None:
    client = ClusterClient(SETTINGS)
    assert list(client.topics(["orders"])) == ["orders"]
    assert asked == ["stale", "gone", "good"]


def test_attempts_go_round_the_bootstrap_servers(asked: list[str]) -> None:
    client = ClusterClient(SETTINGS)
    seen: list[Any] = []

    def attempt() -> None:
        seen.append(client.any_broker().address)
        if len(seen) < 5:
            raise Retry("not yet")

    client.retrying("something", attempt)
    assert seen == ["stale:1", "good:3", "good:3", "stale:1", "good:3"]


def test_one_bootstrap_server_is_asked_again(asked: list[str]) -> None:
    alone = ClientSettings((("gone", 2),), api_timeout_ms=5, retry_backoff_ms=1, retry_backoff_max_ms=1)
    with pytest.raises(ClusterUnreachable, match="Connection refused"):
        ClusterClient(alone).topics()
    assert set(asked) == {"gone"}
