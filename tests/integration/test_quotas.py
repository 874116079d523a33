"""Client quotas as Kafka's own kafka-configs sets, lists and removes them, and what a client feels of them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from time import monotonic

import pytest

from tests.integration.kafka_tools import KafkaTools
from tests.integration.running_cluster import RunningCluster

pytestmark = [pytest.mark.integration, pytest.mark.deep]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path_factory.mktemp("cluster"), 1) as running:
        yield running


def configs(tools: KafkaTools, cluster: RunningCluster, *arguments: str) -> str:
    """Run kafka-configs.sh."""
    done = tools.run("org.apache.kafka.tools.ConfigCommand", "--bootstrap-server", cluster.bootstrap, *arguments)
    return done.stdout + done.stderr


ENTITIES = (
    (("--entity-type", "users", "--entity-name", "alice"), "producer_byte_rate=1000000", "user-principal 'alice'"),
    (("--entity-type", "users", "--entity-default"), "request_percentage=200.0", "the default user-principal"),
    (("--entity-type", "clients", "--entity-name", "app"), "consumer_byte_rate=2000000", "client-id 'app'"),
    (("--entity-type", "clients", "--entity-default"), "controller_mutation_rate=3.5", "the default client-id"),
    (
        ("--entity-type", "users", "--entity-name", "bob", "--entity-type", "clients", "--entity-default"),
        "producer_byte_rate=4000000",
        "user-principal 'bob', the default client-id",
    ),
    (("--entity-type", "ips", "--entity-name", "10.1.2.3"), "connection_creation_rate=7", "ip '10.1.2.3'"),
    (("--entity-type", "ips", "--entity-default"), "connection_creation_rate=1000", "the default ip"),
)


def test_kafka_configs_sets_lists_and_removes(cluster: RunningCluster, kafka_tools: KafkaTools) -> None:
    for entity, value, _ in ENTITIES:
        assert "Completed updating" in configs(kafka_tools, cluster, "--alter", *entity, "--add-config", value)
    for entity, value, name in ENTITIES:
        described = configs(kafka_tools, cluster, "--describe", *entity)
        key, _, number = value.partition("=")
        assert f"Quota configs for {name} are {key}={float(number)}" in described, described
    everybody = configs(kafka_tools, cluster, "--describe", "--entity-type", "users")
    assert "'alice'" in everybody
    assert "the default user-principal" in everybody
    refused = configs(kafka_tools, cluster, "--alter", *ENTITIES[0][0], "--add-config", "connection_creation_rate=5")
    assert "Completed" not in refused
    for service in ("controller", "gateway"):
        cluster.stop(service)
        cluster.up()
    assert "producer_byte_rate=1000000.0" in configs(kafka_tools, cluster, "--describe", *ENTITIES[0][0])
    for entity, value, _ in ENTITIES:
        key = value.partition("=")[0]
        assert "Completed" in configs(kafka_tools, cluster, "--alter", *entity, "--delete-config", key)
        assert key not in configs(kafka_tools, cluster, "--describe", *entity)


def test_a_producer_over_its_quota_is_throttled(cluster: RunningCluster, kafka_tools: KafkaTools) -> None:
    from confluent_kafka import Producer

    entity = ("--entity-type", "clients", "--entity-name", "greedy")
    configs(kafka_tools, cluster, "--alter", *entity, "--add-config", "producer_byte_rate=200000")
    throttled: list[float] = []
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "client.id": "greedy",
            "batch.size": 50_000,
            "throttle_cb": lambda event: throttled.append(event.throttle_time),
        }
    )
    began_s = monotonic()
    for _ in range(2600):
        producer.produce("greedy", bytes(1000))
        producer.poll(0)
    assert producer.flush(60) == 0
    assert throttled
    assert monotonic() - began_s > 2, "2.6 MB, of which 2 MB were free"
    configs(kafka_tools, cluster, "--alter", *entity, "--delete-config", "producer_byte_rate")


def test_connections_over_the_rate_of_their_address_are_turned_away(
    cluster: RunningCluster, kafka_tools: KafkaTools
) -> None:
    entity = ("--entity-type", "ips", "--entity-default")
    configs(kafka_tools, cluster, "--alter", *entity, "--add-config", "connection_creation_rate=20")
    host, port = cluster.bootstrap.rsplit(":", 1)
    opened = [socket.create_connection((host, int(port)), 5) for _ in range(230)]
    try:
        opened[-1].settimeout(5)
        assert opened[-1].recv(1) == b"", "closed, after its delay"
        opened[0].settimeout(0.01)
        with pytest.raises(TimeoutError):
            opened[0].recv(1)
    finally:
        for each in opened:
            each.close()
    assert "Completed" in configs(
        kafka_tools, cluster, "--alter", *entity, "--delete-config", "connection_creation_rate"
    )
