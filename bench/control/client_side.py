"""The same for Apache Kafka and for Barnabas, as a client sees it: ElectLeaders, then the first produce that the new
leader accepts.

Three brokers each. The old leader is idle, or has as many connections with one unanswered produce each as its request
queue has places, and some more; elections are asked for at the third broker, where Kafka's controller is too. Kafka's
new leader is asked from the beginning, again and again, until it accepts. A Barnabas gateway would route an early
produce to the old leader; so there the produce goes out when ElectLeaders has been answered, and both are in the time.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from barnabas.cli.kafka_client import KafkaClient, KafkaError
from barnabas.cli.layout import HOST, ClusterDirectory, ClusterLayout
from barnabas.cli.local_cluster import cluster_to_start
from barnabas.cli.services import Role
from barnabas.client.kafka_connection import KafkaConnection
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.elect_leaders import ElectLeadersResponse
from barnabas.wire.messages.produce import ProduceResponse
from barnabas.wire.record_batch import Record, build_batch
from bench.apache_kafka import LIBS, VERSION, ApacheKafka, new_cluster_id
from bench.control.admin import ELECTION_VERSION, Admin, election_errors, election_request
from bench.control.connection import PRODUCE_VERSION, PipelinedConnection, produce_error, produce_request

FULL_CONNECTIONS = 600
"""Of 500 places in the queue of either side."""
_PARTITIONS = 10
_OLD, _NEW, _THIRD = range(3)
_BARNABAS_PORT, _KAFKA_PORT = 28_600, 28_700
_SECONDS_MAX = 60.0
_SETTLE_SECONDS = 1.0
_POINT_SECONDS_MAX = 15.0
_ACKS_LEADER = 1
_TOPIC, _LOAD_TOPIC = "moved", "load"


@dataclass(slots=True, frozen=True)
class ClientPoint:
    side: str
    connections: int
    milliseconds: list[float]
    """One per leader change."""
    produces_per_second: float


@dataclass(slots=True, frozen=True)
class Brokers:
    """Node ids and ports of the old leader, the new one, and the third."""

    side: str
    node_ids: tuple[int, int, int]
    ports: tuple[int, int, int]
    asks_early: bool
    """The new leader can be told from the old one by asking it."""


def measure_client_side(directory: Path, changes: int, value_bytes: int) -> list[ClientPoint]:
    """Both sides, one after the other, without and with load; Kafka only where its jars are."""
    points: list[ClientPoint] = []
    for start in (_barnabas, _apache_kafka):
        if start is _apache_kafka and (shutil.which("java") is None or not LIBS.exists()):
            continue
        shutil.rmtree(directory, ignore_errors=True)
        with start(directory) as brokers:
            points += _measure(brokers, changes, value_bytes)
    return points


def _measure(brokers: Brokers, changes: int, value_bytes: int) -> Iterator[ClientPoint]:
    with Admin(HOST, brokers.ports[_THIRD]) as admin:
        old = brokers.node_ids[_OLD]
        admin.create(_TOPIC, {number: list(brokers.node_ids) for number in range(_PARTITIONS)})
        admin.create(_LOAD_TOPIC, {0: [old]}, {"segment.bytes": str(64 << 20), "retention.bytes": str(64 << 20)})
        _time_changes(brokers, admin, _PARTITIONS)
        for connections in (0, FULL_CONNECTIONS):
            with _load(brokers, connections, value_bytes) as load:
                before, began = _acknowledged(load), time.monotonic()
                milliseconds = _time_changes(brokers, admin, changes)
                rate = (_acknowledged(load) - before) / (time.monotonic() - began)
            yield ClientPoint(brokers.side, connections, milliseconds, round(rate))


def _time_changes(brokers: Brokers, admin: Admin, count: int) -> list[float]:
    """Away from the old leader and timed, then back."""
    old, new, third = brokers.node_ids
    times: list[float] = []
    with ExitStack() as stack:
        electing = stack.enter_context(closing(PipelinedConnection(HOST, brokers.ports[_THIRD])))
        producing = stack.enter_context(closing(KafkaConnection(HOST, brokers.ports[_NEW], _SECONDS_MAX)))
        deadline = time.monotonic() + _POINT_SECONDS_MAX
        while len(times) < count and time.monotonic() < deadline:
            admin.reassign(_TOPIC, {number: [new, old, third] for number in range(_PARTITIONS)})
            times += [_time_change(brokers, electing, producing, number) for number in range(_PARTITIONS)]
            admin.reassign(_TOPIC, {number: [old, new, third] for number in range(_PARTITIONS)})
            admin.elect_preferred(_TOPIC, range(_PARTITIONS))
    return times


def _time_change(brokers: Brokers, electing: PipelinedConnection, producing: KafkaConnection, partition: int) -> float:
    batch = build_batch([Record(None, b"first", time.time_ns() // 1_000_000)])
    produce = produce_request(_TOPIC, partition, batch, _ACKS_LEADER, 1000)
    began_ns = time.monotonic_ns()
    electing.send(election_request(_TOPIC, [partition]), ELECTION_VERSION)
    if not brokers.asks_early:
        _await_election(electing, partition)
    while True:
        response = producing.ask(produce, PRODUCE_VERSION, ProduceResponse, _SECONDS_MAX)
        if produce_error(response) == ErrorCode.NONE:
            break
    accepted_ns = time.monotonic_ns()
    if brokers.asks_early:
        _await_election(electing, partition)
    return round((accepted_ns - began_ns) / 1e6, 3)


def _await_election(electing: PipelinedConnection, partition: int) -> None:
    (response,) = electing.await_responses(_SECONDS_MAX)
    assert isinstance(response, ElectLeadersResponse)
    assert election_errors(response) == {partition: ErrorCode.NONE}, response


@contextmanager
def _load(brokers: Brokers, connections: int, value_bytes: int) -> Iterator[subprocess.Popen[str] | None]:
    if not connections:
        yield None
        return
    arguments = (HOST, str(brokers.ports[_OLD]), _LOAD_TOPIC, str(connections), f"--value-bytes={value_bytes}")
    argv = [sys.executable, "-m", "bench.control.kafka_load", *arguments]
    load = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        time.sleep(_SETTLE_SECONDS)
        yield load
    finally:
        load.communicate()


def _acknowledged(load: subprocess.Popen[str] | None) -> int:
    if load is None:
        return 0
    assert load.stdin is not None
    assert load.stdout is not None
    load.stdin.write("\n")
    load.stdin.flush()
    return int(load.stdout.readline())


@contextmanager
def _barnabas(directory: Path) -> Iterator[Brokers]:
    layout = ClusterLayout(_BARNABAS_PORT, _BARNABAS_PORT + 40, logstores=3)
    cluster = cluster_to_start(ClusterDirectory(directory), layout, lambda _: None)
    own = {
        Role.CONTROLLER: {"auto.leader.rebalance.enable": "false"},
        Role.LOGSTORE: {"log.retention.check.interval.ms": "500", "log.segment.delete.delay.ms": "0"},
    }
    cluster.services = [
        replace(service, properties=service.properties | own.get(service.role, {})) for service in cluster.services
    ]
    try:
        cluster.start(lambda _: None)
        ports = (_BARNABAS_PORT + 1, _BARNABAS_PORT + 2, _BARNABAS_PORT + 3)
        yield Brokers("Barnabas", (0, 1, 2), ports, asks_early=False)
    finally:
        cluster.stop()


@contextmanager
def _apache_kafka(directory: Path) -> Iterator[Brokers]:
    ports = (_KAFKA_PORT, _KAFKA_PORT + 1, _KAFKA_PORT + 2)
    controller_port, cluster_id = _KAFKA_PORT + 10, new_cluster_id()
    brokers = []
    for node_id, port in enumerate(ports, start=1):
        is_controller = port == ports[_THIRD]
        listeners = f"PLAINTEXT://{HOST}:{port}" + (f",CONTROLLER://{HOST}:{controller_port}" if is_controller else "")
        settings = {
            "node.id": str(node_id),
            "process.roles": "broker,controller" if is_controller else "broker",
            "controller.quorum.voters": f"{len(ports)}@{HOST}:{controller_port}",
            "listeners": listeners,
            "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
            "auto.leader.rebalance.enable": "false",
            "log.retention.check.interval.ms": "500",
            "log.segment.delete.delay.ms": "0",
        }
        brokers.append(ApacheKafka(directory / str(node_id), port, controller_port, "512M", settings, cluster_id))
    with ExitStack() as stack:
        for broker in reversed(brokers):
            broker.start()
            stack.callback(broker.stop)
        _await_brokers(ports, brokers)
        yield Brokers(f"Apache Kafka {VERSION}", (1, 2, 3), ports, asks_early=True)


def _await_brokers(ports: Sequence[int], brokers: Sequence[ApacheKafka]) -> None:
    deadline = time.monotonic() + _SECONDS_MAX
    for port, broker in zip(ports, brokers, strict=True):
        while True:
            try:
                with KafkaClient(HOST, port, 5) as client:
                    if len(client.metadata().brokers) == len(ports):
                        break
            except KafkaError:
                pass
            assert time.monotonic() < deadline, broker.explain()
            time.sleep(0.2)
