"""A real cluster whose streams go by lanes, some of them, or none: it serves, and says which."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from barnabas.wire.record_batch import crc_is_valid, iterate_headers
from barnabas_cli.local.processes import session_members
from tests.integration.retried_calls import create_topic
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
            create_topic(running.bootstrap, NewTopic(TOPIC, 6, 3, config={"min.insync.replicas": "2"}))
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


def shared_memory_used(pid: int) -> list[int]:
    """Return for each memory that the process shares with another how many bytes of it were written."""
    used: list[int] = []
    is_shared = False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        name, _, value = line.partition(":")
        if "-" in name.partition(" ")[0]:
            is_shared = "memfd:barnabas-lane" in line
        elif is_shared and name == "Rss":
            used.append(int(value.split()[0]) * 1024)
    return used


def replicas_of(cluster: RunningCluster, topic: str) -> list[Path]:
    return sorted(cluster.directory.path.rglob(f"{topic}-0/00000000000000000000.log"))


def test_large_records_go_through_shared_memory_and_are_the_same_everywhere(cluster: RunningCluster) -> None:
    create_topic(cluster.bootstrap, NewTopic("large", 1, 3, config={"min.insync.replicas": "3"}))
    random = Random(11)
    values = [random.randbytes(random.choice((10, 20_000, 60_000, 900_000))) for _ in range(200)]
    settings: dict[str, str | int] = {
        "bootstrap.servers": cluster.bootstrap,
        "linger.ms": 5,
        "acks": "all",
        "log_level": 2,
    }
    producer = Producer(settings)
    for value in values:
        producer.produce("large", value, partition=0)
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g", "check.crcs": True, "log_level": 2})
    consumer.assign([TopicPartition("large", 0, OFFSET_BEGINNING)])
    messages = [consumer.poll(60) for _ in values]
    consumer.close()
    assert [message.value() for message in messages if message is not None] == values
    leader, *followers = (path.read_bytes() for path in replicas_of(cluster, "large"))
    assert followers == [leader, leader]
    by_service: dict[str, list[int]] = {}
    for service in cluster.local.services:
        identity = cluster.local.identity(service)
        assert identity is not None
        by_service[service.name] = [used for pid in session_members(identity) for used in shared_memory_used(pid)]
    assert any(used > 100_000 for used in by_service["gateway"])
    logstores = [by_service[f"logstore-{number}"] for number in range(LOGSTORES)]
    assert sum(any(used > 100_000 for used in each) for each in logstores) == LOGSTORES, by_service


def processors_of(cluster: RunningCluster) -> list[int]:
    gateway = next(service for service in cluster.local.services if service.name == "gateway")
    identity = cluster.local.identity(gateway)
    assert identity is not None
    return [pid for pid in session_members(identity) if pid != identity.pid]


def test_processors_that_die_while_they_share_records_leave_no_damage(cluster: RunningCluster) -> None:
    create_topic(cluster.bootstrap, NewTopic("shared", 1, 3, config={"min.insync.replicas": "3"}))
    random = Random(12)
    bodies = [random.randbytes(1_000) for _ in range(50)]
    settings: dict[str, str | int | bool] = {
        "bootstrap.servers": cluster.bootstrap,
        "linger.ms": 20,
        "enable.idempotence": True,
        "log_level": 2,
    }
    producer = Producer(settings)
    sent = 0
    for _ in range(5):
        for _ in range(8_000):
            producer.produce("shared", sent.to_bytes(8, "big") + bodies[sent % 50], partition=0)
            sent += 1
        producer.poll(random.uniform(0, 0.3))
        wait_until(lambda: bool(processors_of(cluster)))
        os.kill(random.choice(processors_of(cluster)), signal.SIGKILL)
        assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g", "check.crcs": True, "log_level": 2})
    consumer.assign([TopicPartition("shared", 0, OFFSET_BEGINNING)])
    for number in range(sent):
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
        assert message.value() == number.to_bytes(8, "big") + bodies[number % 50]
    consumer.close()
    leader, *followers = (path.read_bytes() for path in replicas_of(cluster, "shared"))
    assert followers == [leader, leader]
    assert all(crc_is_valid(leader, position) for position, _ in iterate_headers(leader))


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
