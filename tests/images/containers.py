"""A cluster of containers under testcontainers: etcd, three logstores, and one of each other role.

Only the gateway's Kafka ports are published, to this machine. Containers run as the chart runs them: read-only, without
capabilities, configured by their environment. A service keeps its name, its identity and its volume when its container
is replaced.
"""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata, NewTopic
from docker import DockerClient
from testcontainers.core.container import DockerContainer
from testcontainers.core.labels import SESSION_ID
from testcontainers.core.network import Network

from tests.images.builds import Images, Version
from tests.images.engine import LABELS, host_of_ports, remove_leftovers
from tests.k8s.load_process import Report, running_load

LOGSTORES: Final = 3
PARTITIONS: Final = 6
ORDER: Final = (*(f"logstore-{node_id}" for node_id in range(LOGSTORES)), "purgatory-0", "controller-0", "gateway-0")
"""That of an upgrade: docs/operate/upgrade.md."""
WAIT_S: Final = 120.0
STOP_S: Final = 60
KILLED: Final = 137
_KAFKA: Final = 9092
_PORTS: Final = 1 + LOGSTORES
"""The bootstrap port, and one for each broker behind it."""
_CONFINED: Final = {
    "read_only": True,
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges:true"],
    "labels": LABELS,
}
_ETCD_COMMAND: Final = [
    "etcd",
    "--data-dir=/tmp/etcd",
    "--listen-client-urls=http://0.0.0.0:2379",
    "--advertise-client-urls=http://etcd:2379",
]


class ContainerCluster:
    def __init__(self, engine: DockerClient, images: Images) -> None:
        self._engine = engine
        self._images = images
        self._network = Network(docker_network_kw={"labels": LABELS})
        self._containers: dict[str, DockerContainer] = {}
        self._host = host_of_ports()
        self._down: set[str] = set()
        """Services that were killed and not started again."""
        self._port = _free_ports(_PORTS)
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "socket.timeout.ms": 10_000, "log_level": 0})

    @property
    def bootstrap(self) -> str:
        return f"{self._host}:{self._port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        try:
            if isinstance(error, Exception):
                error.add_note(f"the containers' logs are in {self._save_logs()}")
        finally:
            remove_leftovers(self._engine)

    def start(self, version: Version) -> float:
        """Start everything; return after how many seconds a client sees all brokers."""
        started_s = time.monotonic()
        self._network.create()
        etcd = DockerContainer(self._images.etcd).with_command(_ETCD_COMMAND).with_kwargs(labels=LABELS)
        self._containers["etcd"] = etcd.with_network(self._network).with_network_aliases("etcd").start()
        for node_id in range(LOGSTORES):
            self._engine.volumes.create(_volume(f"logstore-{node_id}"), labels=LABELS)
        for service in reversed(ORDER):
            self._run(service, version)
        self.wait_until("a client sees every broker", lambda metadata: len(metadata.brokers) == LOGSTORES)
        return time.monotonic() - started_s

    def _run(self, service: str, version: Version) -> None:
        role, _, number = service.rpartition("-")
        container = DockerContainer(version.image(role)).with_kwargs(**_CONFINED, hostname=service)
        container.with_network(self._network).with_network_aliases(service)
        container.with_envs(BARNABAS_ETCD_ENDPOINTS="etcd:2379", **self._environment(service, role, number))
        if role == "logstore":
            container.with_volume_mapping(_volume(service), "/data", "rw")
        if role == "gateway":
            for offset in range(_PORTS):
                container.with_bind_ports(_KAFKA + offset, self._port + offset)
        self._containers[service] = container.start()

    def _environment(self, service: str, role: str, number: str) -> dict[str, str]:
        match role:
            case "gateway":
                return {
                    "BARNABAS_GATEWAY_ID": service,
                    "BARNABAS_LISTENERS": f"PLAINTEXT://0.0.0.0:{_KAFKA}",
                    "BARNABAS_ADVERTISED_LISTENERS": f"PLAINTEXT://{self.bootstrap}",
                    "BARNABAS_OPS_LISTENERS": "0.0.0.0:9400",
                    "BARNABAS_NUM_NETWORK_THREADS": "1",
                }
            case "logstore":
                return {
                    "BARNABAS_NODE_ID": number,
                    "BARNABAS_LOG_DIRS": "/data/logs",
                    "BARNABAS_LISTENERS": "0.0.0.0:9300",
                    "BARNABAS_CONTROL_LISTENERS": "0.0.0.0:9301",
                    "BARNABAS_ADVERTISED_LISTENERS": f"{service}:9300",
                }
            case "purgatory":
                return {
                    "BARNABAS_POD_ID": service,
                    "BARNABAS_LISTENERS": "0.0.0.0:9600",
                    "BARNABAS_ADVERTISED_LISTENERS": f"{service}:9600",
                }
            case _:
                return {
                    "BARNABAS_CONTROLLER_ID": service,
                    "BARNABAS_LISTENERS": "0.0.0.0:9091",
                    "BARNABAS_ADVERTISED_LISTENERS": f"{service}:9091",
                    "BARNABAS_OPERATIONS_LISTENERS": "0.0.0.0:9090",
                    "BARNABAS_OPERATIONS_ADVERTISED_LISTENERS": f"{service}:9090",
                    "BARNABAS_OPERATIONS_AUTHENTICATION": "none",
                    "BARNABAS_OFFSETS_TOPIC_NUM_PARTITIONS": "6",
                }

    # --- What happens to containers ---

    def kill(self, service: str) -> None:
        """kill -9. Raises AssertionError when the container ends in another way."""
        container = self._containers[service].get_wrapped_container()
        self._down.add(service)
        container.kill("SIGKILL")
        exit_code = container.wait()["StatusCode"]
        assert exit_code == KILLED, f"{service} ended with {exit_code}"

    def start_again(self, service: str) -> None:
        """Start the same container, as an engine's restart policy would."""
        self._containers[service].get_wrapped_container().start()
        self._down.discard(service)

    def replace(self, service: str, version: Version) -> None:
        """Stop the container by SIGTERM and run one of another version in its place."""
        self.stop(service)
        self._containers.pop(service).get_wrapped_container().remove(v=True)
        self._run(service, version)

    def stop(self, service: str) -> None:
        """Raises AssertionError: the service did not end in time, or not with 0."""
        container = self._containers[service].get_wrapped_container()
        container.stop(timeout=STOP_S)
        exit_code = container.wait()["StatusCode"]
        assert exit_code == 0, f"{service} ended with {exit_code} at SIGTERM"

    def version_in(self, service: str) -> str:
        """Return the version of the package that the container has."""
        program = "from importlib.metadata import version; print(version('barnabas'))"
        exit_code, output = self._containers[service].exec(["python", "-c", program])
        assert exit_code == 0, output.decode()
        return output.decode().strip()

    # --- What a client outside sees ---

    def create_topic(self, topic: str) -> None:
        """Create a topic with a replica on each logstore, trying again until the controller has made it."""
        new = NewTopic(topic, PARTITIONS, LOGSTORES, config={"min.insync.replicas": str(LOGSTORES - 1)})
        deadline_s = time.monotonic() + WAIT_S
        while True:
            try:
                self._admin.create_topics([new], request_timeout=10)[topic].result()
                return
            except KafkaException as error:
                if error.args[0].name() == "TOPIC_ALREADY_EXISTS":
                    return
                if time.monotonic() > deadline_s:
                    raise AssertionError(f"topic {topic} could not be created: {error}") from error
            time.sleep(0.5)

    def leader(self, topic: str) -> str:
        """Return the logstore that leads the topic's first partition."""
        return f"logstore-{self._admin.list_topics(timeout=10).topics[topic].partitions[0].leader}"

    def wait_led_by_others(self, service: str) -> None:
        """Wait until every partition is led by another logstore."""
        node_id = int(service.rpartition("-")[2])
        self.wait_until(
            f"other leaders than {service}",
            lambda metadata: all(
                partition.leader not in (node_id, -1)
                for topic in metadata.topics.values()
                for partition in topic.partitions.values()
            ),
        )

    def wait_in_sync(self) -> float:
        """Return after how many seconds every replica is in sync."""
        return self.wait_until(
            "every replica in sync",
            lambda metadata: all(
                partition.leader != -1 and set(partition.isrs) == set(partition.replicas)
                for topic in metadata.topics.values()
                for partition in topic.partitions.values()
            ),
        )

    def wait_until(self, what: str, holds: Callable[[ClusterMetadata], bool]) -> float:
        """Return after how many seconds the metadata held. Raises AssertionError."""
        started_s = time.monotonic()
        while time.monotonic() - started_s < WAIT_S:
            self._assert_all_run()
            try:
                if holds(self._admin.list_topics(timeout=10)):
                    return time.monotonic() - started_s
            except KafkaException:
                pass  # the gateway is not there
            time.sleep(0.2)
        raise AssertionError(f"not within {WAIT_S:.0f} s: {what}")

    def _assert_all_run(self) -> None:
        """Raise AssertionError with the last line of a container that ended by itself."""
        for service in self._containers.keys() - self._down:
            container = self._containers[service].get_wrapped_container()
            container.reload()
            if container.status == "exited":
                lines = container.logs().decode(errors="replace").splitlines() or ["it wrote no line"]
                raise AssertionError(f"{service} ended with {container.attrs['State']['ExitCode']}: {lines[-1]}")

    @contextmanager
    def load(self, topic: str) -> Generator[list[Report]]:
        """Idempotent producers and a group outside of the containers, while the block runs; their report afterwards."""
        self.create_topic(topic)
        with running_load(self.bootstrap, topic) as reports:
            yield reports

    def _save_logs(self) -> Path:
        directory = Path(tempfile.mkdtemp(prefix="image-test-"))
        for service, container in self._containers.items():
            (directory / f"{service}.log").write_bytes(container.get_wrapped_container().logs())
        return directory


def _volume(service: str) -> str:
    return f"barnabas-image-test-{SESSION_ID[:8]}-{service}"


def _free_ports(count: int) -> int:
    """Return the first of `count` ports in a row that no process here listens on."""
    while True:
        with ExitStack() as stack:
            first = stack.enter_context(socket.create_server(("", 0))).getsockname()[1]
            try:
                for port in range(first + 1, first + count):
                    stack.enter_context(socket.create_server(("", port)))
            except (OSError, OverflowError):
                continue
            return int(first)
