"""What a suite is run against: three logstores as `barnabas up` starts them, Apache Kafka, or an unused port."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

import click
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from barnabas.cli.local.cluster import Started
from barnabas.cli.local.layout import HOST
from barnabas.cli.local.services import Role, Service
from barnabas.cores import COMPILED, INTERPRETED, VARIABLE, cores_of_process, find_build, problem_of
from bench.apache_kafka import VERSION, ApacheKafka, new_cluster_id
from tests.acceptance.suite import Broker, Suite
from tests.compat.matrix.toolchains import prepare
from tests.integration.reserved_ports import free_port
from tests.integration.running_cluster import ROOT, RunningCluster

CACHE: Final = ROOT / ".cache/acceptance"
"""What suites need, and the logs of their last runs."""
LOGSTORES: Final = 3
_LISTENERS: Final = "PLAINTEXT://{host}:{plain},SASL_PLAINTEXT://{host}:{sasl}"
_SASL: Final = {"sasl.enabled.mechanisms": "SCRAM-SHA-256"}
_SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_KAFKA_START_SECONDS_MAX: Final = 180.0


class EndedError(Exception):
    """A process of the cluster ended while the suite ran."""


Subject: TypeAlias = tuple[Broker, str]
"""The cluster, and what it is built of."""
Start: TypeAlias = Callable[[Suite], AbstractContextManager[Subject]]


class _Barnabas(RunningCluster):
    """As `barnabas up` starts it, with the suite's settings, on the cores that are wanted."""

    def __init__(self, directory: Path, suite: Suite, cores: str) -> None:
        super().__init__(directory, LOGSTORES, self._listeners)
        self._suite = suite
        self._cores = cores
        self.sasl_port = 0

    def __enter__(self) -> _Barnabas:
        super().__enter__()
        return self

    def _listeners(self, first_port: int) -> dict[str, str]:
        self.sasl_port = first_port
        listeners = _LISTENERS.format(host=HOST, plain=self.local.layout.kafka_port, sasl=first_port)
        return {"listeners": listeners, "advertised.listeners": listeners, **_SASL}

    def up(self) -> Started:
        self.local.services = [self._prepared(each) for each in self.local.services]
        return super().up()

    def _prepared(self, service: Service) -> Service:
        wanted: dict[str, str] = {}
        if service.role is Role.GATEWAY:
            wanted = dict(self._suite.gateway)
        elif service.role is Role.LOGSTORE:
            identity = service.name.rpartition("-")[2]
            wanted = {key: value.format(id=identity) for key, value in self._suite.logstore.items()}
        properties = {**service.properties, **wanted}
        return replace(service, properties=properties, environment={**service.environment, VARIABLE: self._cores})

    @property
    def cores(self) -> str:
        """What its logstores really run."""
        found = {cores_of_process(pid) for name, pid in self.pids.items() if name.startswith(Role.LOGSTORE)}
        return " and ".join(sorted(found))

    @property
    def ended(self) -> list[str]:
        return sorted({service.name for service in self.local.services} - self.pids.keys())


def cores_here() -> str:
    """Return what a process of this tree runs unless the environment says otherwise."""
    return INTERPRETED if problem_of(find_build()) else COMPILED


def barnabas(cores: str) -> Start:
    """Its context manager raises EndedError if a service has ended by the end."""

    @contextmanager
    def start(suite: Suite) -> Iterator[Subject]:
        with _temporary() as directory, _Barnabas(directory, suite, cores) as cluster:
            running = cluster.cores
            assert running == cores, f"the logstores run {running} cores instead of {cores} ones"
            yield Broker(cluster.bootstrap, f"{HOST}:{cluster.sasl_port}", LOGSTORES), f"{cores} cores"
            if cluster.ended:
                raise EndedError(f"{', '.join(cluster.ended)} ended during the suite\n{cluster.last_words()}")

    return start


@contextmanager
def kafka(suite: Suite) -> Iterator[Subject]:
    """Yield as many brokers of Apache Kafka as the suite is compared with; the first is the only controller."""
    prepare("peer")
    controller, cluster_id = free_port(), new_cluster_id()
    ports = {broker: (free_port(), free_port()) for broker in range(suite.kafka_brokers)}
    with _temporary() as directory, ExitStack() as stack:
        brokers = []
        for broker, (plain, sasl) in ports.items():
            settings = _kafka_settings(suite, broker, _LISTENERS.format(host=HOST, plain=plain, sasl=sasl), controller)
            place = directory / f"broker-{broker}"
            brokers.append(ApacheKafka(place, plain, controller, "512M", settings, cluster_id))
        for each in brokers:
            each.start()
            stack.callback(each.stop)
        bootstrap = ",".join(each.bootstrap for each in brokers)
        sasl_bootstrap = ",".join(f"{HOST}:{sasl}" for _, sasl in ports.values())
        _wait_for(brokers)
        yield Broker(bootstrap, sasl_bootstrap, len(brokers)), f"Apache Kafka {VERSION}"


def _kafka_settings(suite: Suite, broker: int, listeners: str, controller: int) -> dict[str, str]:
    of_controller = f",CONTROLLER://{HOST}:{controller}" if broker == 0 else ""
    replicas = str(suite.kafka_brokers)
    return {
        **suite.gateway,
        **{key: value.format(id=broker) for key, value in suite.logstore.items()},
        **_SASL,
        "node.id": str(broker),
        "process.roles": "broker,controller" if broker == 0 else "broker",
        "controller.quorum.voters": f"0@{HOST}:{controller}",
        "listeners": listeners + of_controller,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": f"{_SCRAM_MODULE} required;",
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": "1",
    }


@contextmanager
def nothing(_: Suite) -> Iterator[Subject]:
    """Yield ports where nothing listens: no suite may pass."""
    yield Broker(f"{HOST}:{free_port()}", f"{HOST}:{free_port()}", LOGSTORES), "no broker"


def _wait_for(brokers: list[ApacheKafka]) -> None:
    deadline = time.monotonic() + _KAFKA_START_SECONDS_MAX
    while True:
        try:
            admin = AdminClient({"bootstrap.servers": brokers[0].bootstrap, "log_level": "0"})
            if len(admin.list_topics(timeout=2).brokers) == len(brokers):
                return
        except KafkaException:
            pass
        if time.monotonic() > deadline:
            raise click.ClickException("\n".join(each.explain() for each in brokers))
        time.sleep(0.5)


@contextmanager
def _temporary() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="barnabas-acceptance-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
