"""A replica moves from one log directory to another, by its broker's own port and by the bootstrap address."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.client.kafka_connection import KafkaConnection
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from barnabas.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from barnabas_cli.local.layout import HOST
from tests.integration.kafka_clients import CLIENTS, MODES
from tests.integration.running_cluster import RunningCluster

pytestmark = [pytest.mark.integration, pytest.mark.deep]

LOGSTORES = 1
SECONDS = 30.0


@pytest.fixture(scope="module")
def log_dirs(cluster: RunningCluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two of them, by what the tests call them."""
    service = cluster.local.service("logstore-0")
    first, second = Path(service.properties["log.dirs"]), tmp_path_factory.mktemp("second")
    service.properties["log.dirs"] = f"{first},{second}"
    cluster.up()
    return {"first": first, "second": second}


class Broker:
    """The directories of logstore 0, as one address tells them, and where in them the replica of a topic is."""

    def __init__(self, topic: str, port: int, prefix: str) -> None:
        self.topic = topic
        self._connection = KafkaConnection(HOST, port, SECONDS)
        self._prefix = prefix

    def places(self) -> dict[str, list[bool]]:
        """By directory, whether each of the partition's replicas there is a future one."""
        asked = [DescribableLogDirTopic(self.topic, [0])]
        response = self._connection.ask(DescribeLogDirsRequest(asked), 4, DescribeLogDirsResponse, SECONDS)
        assert response.error_code == 0
        assert all(0 < result.usable_bytes <= result.total_bytes for result in response.results)
        assert all(result.log_dir.startswith(self._prefix) for result in response.results)
        return {
            result.log_dir.removeprefix(self._prefix): [
                partition.is_future_key for topic in result.topics for partition in topic.partitions
            ]
            for result in response.results
        }

    def move(self, path: str) -> int:
        dirs = [AlterReplicaLogDir(self._prefix + path, [AlterReplicaLogDirTopic(self.topic, [0])])]
        response = self._connection.ask(AlterReplicaLogDirsRequest(dirs), 2, AlterReplicaLogDirsResponse, SECONDS)
        return response.results[0].partitions[0].error_code

    def close(self) -> None:
        self._connection.close()


@pytest.fixture(params=["own port", "bootstrap address"])
def broker(request: pytest.FixtureRequest, cluster: RunningCluster, log_dirs: dict[str, Path]) -> Iterator[Broker]:
    port = cluster.local.layout.kafka_port
    at_bootstrap = request.param == "bootstrap address"
    found = Broker("moves-by-path", port, "0:") if at_bootstrap else Broker("moves-by-port", port + 1, "")
    yield found
    found.close()


def test_a_replica_moves_with_its_records(broker: Broker, bootstrap: str, log_dirs: dict[str, Path]) -> None:
    client = CLIENTS["confluent-kafka"](bootstrap)
    client.create_topic(broker.topic, 1)
    values = [f"value {number}".encode() for number in range(1_000)]
    client.produce(broker.topic, 0, values, MODES["acks-all"])
    (here,) = [path for path, replicas in broker.places().items() if replicas]
    (there,) = [str(path) for path in log_dirs.values() if str(path) != here]
    assert broker.move(here) == ErrorCode.NONE
    assert broker.move("/no/such/directory") == ErrorCode.LOG_DIR_NOT_FOUND
    assert broker.move(there) == ErrorCode.NONE
    until = time.monotonic() + SECONDS
    while broker.places() != {here: [], there: [False]} and time.monotonic() < until:
        time.sleep(0.1)
    assert broker.places() == {here: [], there: [False]}
    assert (Path(there) / f"{broker.topic}-0").is_dir()
    assert client.consume(broker.topic, 0, 1_000) == values
