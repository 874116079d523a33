"""Find out what runs, what does not and what to do about it, from pid files, ports, the controller and a client."""

from __future__ import annotations

import time
import urllib.error
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from barnabas.client.client_security import ClientSecurity
from barnabas.client.kafka_connection import KafkaConnection
from barnabas.cores import cores_of_process
from barnabas_cli.local import ports, processes
from barnabas_cli.local.cluster import LocalCluster
from barnabas_cli.local.cores_in_use import name_of
from barnabas_cli.local.etcd import ask_etcd_over_http
from barnabas_cli.local.layout import HOST
from barnabas_cli.local.restarts import (
    Restarts,
    Supervised,
    SupervisorStatus,
    notices_of,
    problems_of,
    recent_restarts,
    supervisor_status,
)
from barnabas_cli.local.secrets import local_access, local_security
from barnabas_cli.local.services import Role, Service
from barnabas_cli.record_client import CLIENT_ID, KafkaError, RecordClient
from barnabas_cli.transactions import MAX_TRANSACTION_TIMEOUT_MINUTES, TransactionsClient

if TYPE_CHECKING:
    from barnabas_protos.controller.v1.operations_pb2 import DescribeClusterResponse, Node

ANSWER_SECONDS_MAX = 3.0
HANGING_SILENT_MS = MAX_TRANSACTION_TIMEOUT_MINUTES * 60_000
_HANGING_LISTED_MAX = 5
START_AGAIN = "start it again with `make up` or `barnabas up`"
STARTED_SOON = "the supervisor starts it again, after a longer pause each time"


class State(StrEnum):
    UP = "up"
    DOWN = "down"
    SILENT = "silent"
    """The process runs but does not do its work."""


@dataclass(slots=True)
class ServiceStatus:
    name: str
    role: Role
    state: State
    pid: int | None
    addresses: dict[str, str]
    problem: str = ""
    """Why it is not up; empty if it is."""
    advice: str = ""
    restarts: int = 0
    """In the last hour, by the supervisor."""
    last_death: str = ""
    """How it ended last; empty if it did not in the last hour."""
    cores: str = ""
    """`compiled` or `interpreted`; empty if it is down, and of etcd."""


@dataclass(slots=True)
class ClusterStatus:
    healthy: bool
    bootstrap: str
    ops: str
    data_dir: str
    cluster_id: str
    """Empty if the controller can't be asked, as are all fields below that come from it."""
    controller_epoch: int | None
    topics: int | None
    partitions: int | None
    services: list[ServiceStatus]
    problems: list[str]
    """Problems of the cluster as a whole."""
    notices: list[str]
    """What has happened and is over: no reason to call the cluster unhealthy."""
    supervisor: SupervisorStatus
    cores: str
    """`compiled` or `interpreted`: what the services run that are up; empty if they don't agree, or none is up."""


def inspect(cluster: LocalCluster) -> ClusterStatus:
    """Check everything, whatever has failed. Takes up to a few seconds."""
    supervisor = supervisor_status(cluster.directory)
    restarts = recent_restarts(cluster.directory, time.time_ns() // 1_000_000)
    services = [_process_status(cluster, service, supervisor, restarts) for service in cluster.services]
    _check_etcd(cluster, services)
    from barnabas_cli.operations import notices_of_members

    described, refused = _describe(cluster, services)
    problems = _unsupervised(supervisor) + problems_of(restarts)
    notices = notices_of(restarts) + _on_other_cores(cluster)
    if described is not None:
        _check_registrations(described, services)
        problems += described.problems
        notices += notices_of_members(described)
    elif refused:
        problems.append(refused)
    problems += _check_kafka(cluster, services, is_said=any("(hanging-transaction)" in each for each in problems))
    return ClusterStatus(
        healthy=not problems and all(service.state is State.UP for service in services),
        bootstrap=f"{HOST}:{cluster.layout.kafka_port}",
        ops=f"{HOST}:{cluster.layout.operations_port}",
        data_dir=str(cluster.directory.path),
        cluster_id=described.cluster_id if described else "",
        controller_epoch=described.controller_epoch if described else None,
        topics=described.topics if described else None,
        partitions=described.partitions if described else None,
        services=services,
        problems=problems,
        notices=notices,
        supervisor=supervisor,
        cores=_cores_of(services),
    )


def _cores_of(services: list[ServiceStatus]) -> str:
    found = {service.cores for service in services if service.cores}
    return found.pop() if len(found) == 1 else ""


def _on_other_cores(cluster: LocalCluster) -> list[str]:
    by_cores: dict[str, list[str]] = {}
    for service, library in cluster.on_other_cores():
        by_cores.setdefault(name_of(library), []).append(service.name)
    return [
        f"{', '.join(names)} would run {wanted} if started now, and do not yet: `make up` or `barnabas up` moves "
        "one service after the other"
        for wanted, names in by_cores.items()
    ]


def _unsupervised(supervisor: SupervisorStatus) -> list[str]:
    if supervisor.state is not Supervised.DOWN:
        return []
    return ["the supervisor has died: a service that dies stays down; `make up` or `barnabas up` starts it again"]


def _process_status(
    cluster: LocalCluster, service: Service, supervisor: SupervisorStatus, restarts: dict[str, Restarts]
) -> ServiceStatus:
    identity = cluster.identity(service)
    status = ServiceStatus(service.name, service.role, State.UP, None, service.addresses)
    of_service = restarts.get(service.name)
    if of_service is not None:
        status.restarts, status.last_death = of_service.count, of_service.last_why
    if identity is None:
        return _down(status, "not started", START_AGAIN)
    if not processes.is_alive(identity):
        if identity.boot_id != processes.boot_id():
            return _down(status, "not started since the last reboot", START_AGAIN)
        log_path = cluster.directory.log_path(service.name)
        if supervisor.state is Supervised.UP and of_service is not None:
            return _down(status, f"died: {of_service.last_why}", f"{STARTED_SOON}; its log is {log_path}")
        lines = processes.last_lines(log_path, 1)
        last_words = f"; last log line: {lines[0]}" if lines else ""
        return _down(status, f"died (was pid {identity.pid}){last_words}", f"{START_AGAIN}; its log is {log_path}")
    status.pid = identity.pid
    status.cores = "" if service.role is Role.ETCD else cores_of_process(identity.pid)
    for name, port in service.ports.items():
        if not ports.accepts(port):
            return _silent(status, f"does not listen on {name} port {port}", cluster)
    return status


def _down(status: ServiceStatus, problem: str, advice: str) -> ServiceStatus:
    status.state, status.problem, status.advice = State.DOWN, problem, advice
    return status


def _silent(status: ServiceStatus, problem: str, cluster: LocalCluster) -> ServiceStatus:
    status.state, status.problem = State.SILENT, problem
    status.advice = f"see {cluster.directory.log_path(status.name)}; if this persists: make down, then make up"
    return status


def _one(services: list[ServiceStatus], role: Role) -> ServiceStatus:
    return next(service for service in services if service.role is role)


def _check_etcd(cluster: LocalCluster, services: list[ServiceStatus]) -> None:
    etcd = _one(services, Role.ETCD)
    if etcd.state is not State.UP:
        return
    try:
        ask_etcd_over_http(cluster.directory, cluster.layout, "health", ANSWER_SECONDS_MAX)
    except (OSError, urllib.error.URLError) as error:
        _silent(etcd, f"does not answer: {error}", cluster)


def _describe(cluster: LocalCluster, services: list[ServiceStatus]) -> tuple[DescribeClusterResponse | None, str]:
    """Return the cluster's description from the controller, or None and the reason."""
    from barnabas_cli.operations import OperationsClient, OperationsError

    controller = _one(services, Role.CONTROLLER)
    if controller.state is not State.UP:
        return None, ""
    try:
        access = local_access(cluster.directory, cluster.layout)
        with OperationsClient(access.address, ANSWER_SECONDS_MAX, access) as operations:
            return operations.describe_cluster(), ""
    except OperationsError as error:
        if _one(services, Role.ETCD).state is State.UP:
            _silent(controller, str(error), cluster)
            return None, ""
        return None, f"the controller can't act without etcd: {error}"


def _check_registrations(described: DescribeClusterResponse, services: list[ServiceStatus]) -> None:
    registered = {(node.role, node.id): node for node in described.nodes}
    for service in services:
        if service.state is not State.UP or service.role in (Role.ETCD, Role.CONTROLLER):
            continue
        node = registered.get((service.role, service.name.removeprefix("logstore-")))
        problem = _registration_problem(service, node)
        if problem:
            service.state, service.problem = State.SILENT, problem
            service.advice = "wait a few seconds; if this persists: make down, then make up"


def _registration_problem(service: ServiceStatus, node: Node | None) -> str:
    if node is None or not node.alive:
        return "runs, but is not registered with the controller"
    if service.role is Role.LOGSTORE and not node.connected:
        return "registered, but the controller's control channel to it is down"
    return ""


def _check_kafka(cluster: LocalCluster, services: list[ServiceStatus], *, is_said: bool) -> list[str]:
    """`is_said`: logstores have reported transactions that hang. Coordinators, which are asked here, know it sooner."""
    gateway = _one(services, Role.GATEWAY)
    if gateway.state is State.DOWN:
        return ["clients can't connect: the gateway is down"]
    try:
        security = local_security(cluster.directory, cluster.layout)
        with RecordClient(HOST, cluster.layout.kafka_port, ANSWER_SECONDS_MAX, security) as client:
            known = {broker.node_id for broker in client.metadata().brokers}
    except (KafkaError, OSError, ValueError) as error:
        if gateway.state is State.UP:
            _silent(gateway, f"does not answer a Kafka client: {error}", cluster)
        return []
    missing = [f"logstore-{each}" for each in cluster.layout.logstore_ids if each not in known]
    unseen = [f"clients don't see {', '.join(missing)}"] if missing else []
    return unseen + ([] if is_said else _hanging_transactions(cluster, security))


def _hanging_transactions(cluster: LocalCluster, security: ClientSecurity) -> list[str]:
    """Partitions whose committed records are not read. What does not answer is a problem that others report."""
    try:
        with KafkaConnection(HOST, cluster.layout.kafka_port, ANSWER_SECONDS_MAX, CLIENT_ID, security=security) as used:
            client = TransactionsClient(used, ANSWER_SECONDS_MAX)
            found = client.find_hanging(None, HANGING_SILENT_MS, time.time_ns() // 1_000_000)
    except (KafkaError, OSError):
        return []
    lines = [
        f"a transaction of producer {each.producer_id} hangs in {each.topic}-{each.partition}, and holds up consumers "
        f"of committed records: `barnabas transactions abort {each.topic} {each.partition} {each.start_offset}` ends it"
        for each in found[:_HANGING_LISTED_MAX]
    ]
    more = len(found) - len(lines)
    return [*lines, f"and {more} more hanging transactions: `barnabas transactions find-hanging`"] if more else lines
