"""The wheels in empty environments: every role, the commands and a whole cluster run from an empty directory."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from barnabas.cores import COMPILED, INTERPRETED
from barnabas_cli.etcd_binary import pick_etcd
from barnabas_cli.local.layout import HOST
from tests.integration.reserved_ports import reserve_ports
from tests.integration.running_cluster import reaper_of
from tests.packaging.conftest import Distribution, Environment

pytestmark = [pytest.mark.integration, pytest.mark.deep, pytest.mark.timeout(900)]

ROLES = ("controller", "gateway", "logstore", "purgatory")
RECORDS = [f"record {number}".encode() for number in range(100)]
CLIENT_SECONDS_MAX = 60.0


@pytest.fixture(scope="module", params=[INTERPRETED, COMPILED])
def cores(request: pytest.FixtureRequest) -> str:
    """What the installed wheel has."""
    assert isinstance(request.param, str)
    return request.param


@pytest.fixture(scope="module")
def broker(
    request: pytest.FixtureRequest,
    cores: str,
    distributions: dict[str, Distribution],
    new_environment: Callable[[], Environment],
) -> Environment:
    wheel = distributions["barnabas"].wheel if cores == INTERPRETED else request.getfixturevalue("compiled_wheel")
    environment = new_environment()
    environment.install(f"{wheel}[all]")
    return environment


@pytest.fixture
def cluster(broker: Environment, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The port of a cluster that `barnabas up` started."""
    etcd = pick_etcd(print)
    monkeypatch.setenv("PATH", f"{etcd.path.parent}:{os.environ['PATH']}")
    port, lock = reserve_ports()
    with lock, reaper_of(broker.directory / "data"):
        broker.run("barnabas", "up", "--port", str(port))
        yield port


def test_all_packages_are_the_installed_ones(broker: Environment) -> None:
    packages = ["barnabas", "barnabas_protos", *(f"barnabas_{role}" for role in ROLES)]
    look = f"import importlib; print(*(importlib.import_module(name).__file__ for name in {packages}), sep='\\n')"
    found = [Path(line) for line in broker.run("python", "-c", look).splitlines()]
    assert len(found) == len(packages)
    assert [path for path in found if not path.is_relative_to(broker.path)] == []


def test_a_process_runs_the_cores_of_its_wheel(broker: Environment, cores: str) -> None:
    ask = "from barnabas.channel import credits; from barnabas.cores import running; print(running())"
    assert broker.run("python", "-c", ask) == f"{cores}\n"
    plain = f"import os; os.environ['BARNABAS_CORES'] = 'interpreted'; {ask}"
    assert broker.run("python", "-c", plain) == "interpreted\n"


def test_requirements_are_satisfied(broker: Environment) -> None:
    broker.run("python", "-m", "pip", "check")


def test_the_command_explains_itself(broker: Environment) -> None:
    assert "Commands:" in broker.run("barnabas", "--help")
    assert list(broker.directory.iterdir()) == []


@pytest.mark.parametrize("role", ROLES)
def test_a_role_explains_itself(broker: Environment, role: str) -> None:
    assert f"barnabas-{role}" in broker.run("python", "-m", f"barnabas_{role}", "--help")


def test_a_cluster_runs(broker: Environment, cores: str, cluster: int) -> None:
    """`up`, a client that is no part of Barnabas, `status` and `down`."""
    bootstrap = f"{HOST}:{cluster}"
    status = json.loads(broker.run("barnabas", "status", "--json"))
    assert status["cores"] == cores
    pids = {service["role"]: service["pid"] for service in status["services"]}
    assert pids.keys() == {"etcd", *ROLES}
    for role in ROLES:
        command = command_of(pids[role])
        assert Path(os.fsdecode(command[0])).is_relative_to(broker.path)
        assert command[2] == f"barnabas_{role}".encode()
        assert variables_of(pids[role]).get(b"PYTHONPATH", b"") == b""
    produce(bootstrap, "orders", RECORDS)
    assert consume(bootstrap, "orders", len(RECORDS)) == RECORDS
    assert broker.run("barnabas", "consume", "orders", "--count", "1") == "record 0\n"
    broker.run("barnabas", "status")
    broker.run("barnabas", "down")
    assert [name for name, pid in pids.items() if command_of(pid) != [b""]] == []


def test_the_pipelines_command_explains_itself(
    distributions: dict[str, Distribution], new_environment: Callable[[], Environment]
) -> None:
    """Without Spark, whose archive of 400 MB only running jobs needs: `make pipeline-test` runs them."""
    environment = new_environment()
    environment.install(f"{distributions['barnabas'].wheel}[logstore]", "pyyaml")
    environment.install("--no-deps", str(distributions["barnabas_pipeline"].wheel))
    assert "Write topics to tables" in environment.run("barnabas-pipeline", "--help")
    for command in ("tables", "replay", "maintain"):
        assert "Usage: barnabas-pipeline" in environment.run("barnabas-pipeline", command, "--help")


def command_of(pid: int) -> list[bytes]:
    """Empty when the process has ended, whether or not something has waited for it."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except FileNotFoundError:
        return [b""]


def variables_of(pid: int) -> dict[bytes, bytes]:
    pairs = [each.partition(b"=") for each in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")]
    return {name: value for name, _, value in pairs}


def produce(bootstrap: str, topic: str, values: list[bytes]) -> None:
    failures: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(CLIENT_SECONDS_MAX) == 0
    assert [error for error in failures if error is not None] == []


def consume(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "packaging", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    values = []
    for message in consumer.consume(count, CLIENT_SECONDS_MAX):
        assert message.error() is None
        values.append(message.value())
    consumer.close()
    return values
