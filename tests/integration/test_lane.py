"""A real cluster whose streams go by lanes, some of them, or none: it serves, and says which."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.integration.running_cluster import RunningCluster
from tests.integration.test_metrics import produce, total, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.deep]

LOGSTORES = 3
TOPIC = "measured"
RECORDS = 60
STREAMS = ("Exchange", "Read", "Coordinate", "Park", "Watch", "Replicate", "Control", "Subscribe")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the sockets are."""
    home = tmp_path_factory.mktemp("lanes")
    home.chmod(0o700)
    return home


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Iterator[RunningCluster]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("BARNABAS_LANE", "on")
        environment.setenv("BARNABAS_LANE_DIRECTORY", str(home))
        with RunningCluster(tmp_path_factory.mktemp("cluster"), LOGSTORES) as running:
            admin = AdminClient({"bootstrap.servers": running.bootstrap})
            admin.create_topics([NewTopic(TOPIC, 6, 3, config={"min.insync.replicas": "2"})])[TOPIC].result()
            yield running


def produce_and_consume(cluster: RunningCluster, group: str) -> None:
    produce(cluster.bootstrap, RECORDS)
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": group, "auto.offset.reset": "earliest", "log_level": 2}
    )
    consumer.subscribe([TOPIC])
    for _ in range(RECORDS):
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
    consumer.commit(asynchronous=False)
    consumer.close()


def lanes(cluster: RunningCluster, outcome: str, **labels: str) -> float:
    return total(cluster, f"barnabas_streams_lanes_{outcome}_total", **labels)


def test_every_stream_goes_by_a_lane(cluster: RunningCluster) -> None:
    produce_and_consume(cluster, "all")
    for stream in STREAMS:
        opened = total(cluster, "barnabas_streams_opened_total", stream=stream)
        assert opened > 0, stream
        assert lanes(cluster, "opened", stream=stream) == opened, stream
    assert lanes(cluster, "refused") == 0


def test_after_a_kill_streams_go_by_lanes_again(cluster: RunningCluster, home: Path) -> None:
    before = lanes(cluster, "opened", stream="Exchange")
    cluster.kill("logstore-1")
    cluster.up()
    wait_until(lambda: lanes(cluster, "opened", stream="Exchange") > before)
    produce_and_consume(cluster, "killed")
    assert lanes(cluster, "refused") == 0
    assert lanes(cluster, "lost") == 0, "a peer that was killed is not a lane that failed"
    pids = {int(path.name.partition("-")[0], 16) for path in home.glob("*.lane")}
    assert all(Path(f"/proc/{pid}").exists() for pid in pids), "what the dead have left is removed"


def test_a_service_without_lanes_and_those_with_are_one_cluster(
    cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.stop("logstore-2")
    monkeypatch.setenv("BARNABAS_LANE", "off")
    opened = lanes(cluster, "opened", stream="Exchange")
    cluster.up()
    produce_and_consume(cluster, "mixed")
    assert lanes(cluster, "opened", stream="Exchange") == opened
    assert lanes(cluster, "refused") == 0


def test_a_directory_that_is_not_private_means_grpc_and_sockets_that_are_gone_are_replaced(
    cluster: RunningCluster, home: Path
) -> None:
    for path in home.glob("*.lane"):
        path.unlink()
    home.chmod(0o755)
    cluster.stop("gateway")
    cluster.up()
    produce_and_consume(cluster, "not private")
    assert lanes(cluster, "opened", stream="Exchange") == 0
    home.chmod(0o700)
    cluster.stop("gateway")
    cluster.up()
    wait_until(lambda: lanes(cluster, "opened", stream="Exchange") == LOGSTORES - 1)
    produce_and_consume(cluster, "private")
    assert lanes(cluster, "refused") == 0
