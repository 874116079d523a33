"""What a suite is run against: three logstores as `barnabas up` starts them, Apache Kafka, or an unused port."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

import click
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from barnabas.cores import COMPILED, INTERPRETED, VARIABLE, cores_of_process, find_build, problem_of
from barnabas_cli.local.cluster import Started
from barnabas_cli.local.layout import HOST, ClusterLayout
from barnabas_cli.local.services import Role, Service
from bench.apache_kafka import VERSION, ApacheKafka, new_cluster_id
from tests.acceptance.listeners import (
    PROXIED,
    Listener,
    gateway_listener,
    gateway_ports,
    listeners_at,
    numbered,
    settings_of,
)
from tests.acceptance.suite import Broker, Suite
from tests.compat.matrix.toolchains import prepare
from tests.integration.reserved_ports import free_port
from tests.integration.running_cluster import ROOT, RunningCluster

CACHE: Final = ROOT / ".cache/acceptance"
"""What suites need, and the logs of their last runs."""
LOGSTORES: Final = 3
_PROXIED_PORTS_AT: Final = 10
"""After the ports of the listener that authenticates."""
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
        self._sasl_port = 0

    def __enter__(self) -> _Barnabas:
        super().__enter__()
        return self

    def _layout(self, usual: ClusterLayout) -> ClusterLayout:
        addresses = self._suite.addresses
        return usual if addresses is None else numbered(usual, addresses.first_id)

    def _listeners(self, first_port: int) -> dict[str, str]:
        self._sasl_port = first_port
        addresses = self._suite.addresses
        proxied = None if addresses is None else gateway_listener(addresses, self._proxied_port)
        return settings_of(listeners_at(self.local.layout.kafka_port, first_port, proxied))

    @property
    def _proxied_port(self) -> int:
        return self._sasl_port + _PROXIED_PORTS_AT

    @property
    def broker(self) -> Broker:
        addresses = self._suite.addresses
        ids = self._suite.ids(LOGSTORES)
        behind = {} if addresses is None else gateway_ports(addresses, ids, self._proxied_port)
        return Broker(self.bootstrap, f"{HOST}:{self._sasl_port}", LOGSTORES, behind)

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
            yield cluster.broker, f"{cores} cores"
            if cluster.ended:
                raise EndedError(f"{', '.join(cluster.ended)} ended during the suite\n{cluster.last_words()}")

    return start


@contextmanager
def kafka(suite: Suite) -> Iterator[Subject]:
    """Yield as many brokers of Apache Kafka as the suite is compared with; the first is the only controller."""
    prepare("peer")
    controller, cluster_id = free_port(), new_cluster_id()
    behind = _unused_behind_proxy(suite, suite.kafka_brokers)
    with _temporary() as directory, ExitStack() as stack:
        brokers, sasl_ports = [], []
        for broker in suite.ids(suite.kafka_brokers):
            plain, sasl = free_port(), free_port()
            sasl_ports.append(sasl)
            settings = _kafka_settings(suite, broker, _kafka_listeners(suite, broker, plain, sasl, behind), controller)
            place = directory / f"broker-{broker}"
            brokers.append(ApacheKafka(place, plain, controller, "512M", settings, cluster_id))
        for each in brokers:
            each.start()
            stack.callback(each.stop)
        bootstrap = ",".join(each.bootstrap for each in brokers)
        sasl_bootstrap = ",".join(f"{HOST}:{sasl}" for sasl in sasl_ports)
        _wait_for(brokers)
        yield Broker(bootstrap, sasl_bootstrap, len(brokers), behind), f"Apache Kafka {VERSION}"


def _unused_behind_proxy(suite: Suite, brokers: int) -> dict[int, int]:
    """Return an unused port for each of so many brokers, by that which the suite wants it advertised at."""
    addresses = suite.addresses
    return {} if addresses is None else {addresses.port_of(broker): free_port() for broker in suite.ids(brokers)}


def _kafka_listeners(suite: Suite, broker: int, plain: int, sasl: int, behind: Mapping[int, int]) -> list[Listener]:
    if suite.addresses is None:
        return listeners_at(plain, sasl)
    advertised = suite.addresses.port_of(broker)
    return listeners_at(plain, sasl, Listener(PROXIED, behind[advertised], advertised))


def _kafka_settings(suite: Suite, broker: int, own: list[Listener], controller: int) -> dict[str, str]:
    first = suite.ids(1)[0]
    listeners = settings_of(own)
    if broker == first:
        listeners["listeners"] += f",CONTROLLER://{HOST}:{controller}"
    listeners["listener.security.protocol.map"] += ",CONTROLLER:PLAINTEXT"
    replicas = str(suite.kafka_brokers)
    return {
        **suite.gateway,
        **{key: value.format(id=broker) for key, value in suite.logstore.items()},
        **listeners,
        "node.id": str(broker),
        "process.roles": "broker,controller" if broker == first else "broker",
        "controller.quorum.voters": f"{first}@{HOST}:{controller}",
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": f"{_SCRAM_MODULE} required;",
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": "1",
    }


@contextmanager
def nothing(suite: Suite) -> Iterator[Subject]:
    """Yield ports where nothing listens: no suite may pass."""
    behind = _unused_behind_proxy(suite, LOGSTORES)
    yield Broker(f"{HOST}:{free_port()}", f"{HOST}:{free_port()}", LOGSTORES, behind), "no broker"


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
