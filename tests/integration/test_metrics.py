"""Every pod of a real cluster is scraped: what it tells makes sense, and goes on making sense when processes die."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from prometheus_client.parser import text_string_to_metric_families

from barnabas.metrics.catalogue import FAMILIES
from barnabas.metrics.family import Kind
from barnabas_cli.local.services import service_environment
from tests.integration.running_cluster import ROOT, RunningCluster

pytestmark = [pytest.mark.integration, pytest.mark.deep]

PROCESSORS = None
LOGSTORES = 3
TOPIC = "measured"
RECORDS = 60
SECONDS_MAX = 60.0

OCCASIONAL = {
    # Not before something has gone wrong, or a client has asked.
    "barnabas_etcd_request_errors",
    "barnabas_gateway_connections_refused",
    "barnabas_streams_lost",
    "barnabas_streams_attempts_failed",
    "barnabas_streams_lanes_lost",
    "barnabas_streams_lanes_refused",
    "barnabas_controller_control_streams_lost",
    "kafka_network_requestmetrics_messageconversionstimems",
    "kafka_network_requestmetrics_temporarymemorybytes",
    # Not without listeners that authenticate, and an authorizer.
    "barnabas_authorizations_denied",
    "barnabas_audit_records",
    "barnabas_gateway_authentications",
    "barnabas_gateway_tls_handshakes_failed",
    # Not without quotas.
    "barnabas_gateway_connections_throttled",
    "barnabas_quota_throttle_time_ms",
    "barnabas_quota_throttled",
    "barnabas_quota_used",
}
if os.environ.get("BARNABAS_LANE") == "off":
    OCCASIONAL.add("barnabas_streams_lanes_opened")

Values = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class Scrape:
    def __init__(self, address: str) -> None:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{address}/metrics", timeout=20) as response:
            self.families = {each.name: each for each in text_string_to_metric_families(response.read().decode())}

    def sum(self, name: str, **labels: str) -> float:
        """Of the samples of this name that have these labels."""
        return sum(
            sample.value
            for family in self.families.values()
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )


def scrapes(cluster: RunningCluster) -> dict[str, Scrape]:
    return {
        service.name: Scrape(service.addresses["metrics"])
        for service in cluster.local.services
        if "metrics" in service.ports and service.name in cluster.pids
    }


def total(cluster: RunningCluster, name: str, **labels: str) -> float:
    return sum(each.sum(name, **labels) for each in scrapes(cluster).values())


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.2)


def produce(bootstrap: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 2})
    for number in range(records):
        producer.produce(TOPIC, str(number))
    assert producer.flush(60) == 0


@pytest.fixture(scope="module")
def used(cluster: RunningCluster) -> RunningCluster:
    """Something has been written, read, committed."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 3, 3, config={"min.insync.replicas": "2"})])[TOPIC].result()
    produce(cluster.bootstrap, RECORDS)
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "auto.offset.reset": "earliest", "log_level": 2}
    )
    consumer.subscribe([TOPIC])
    for _ in range(RECORDS):
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
    consumer.commit(asynchronous=False)
    consumer.close()
    return cluster


def test_every_pod_says_where_it_is_scraped(used: RunningCluster) -> None:
    status = used.status()
    reported = {service.name: service.addresses.get("metrics") for service in status.services if service.role != "etcd"}
    assert reported == {each.name: each.addresses["metrics"] for each in used.local.services if each.role != "etcd"}


def test_every_family_of_the_table_is_exposed(used: RunningCluster) -> None:
    exposed = {name for each in scrapes(used).values() for name in each.families}
    assert set(FAMILIES) - exposed - OCCASIONAL == set()
    assert exposed - set(FAMILIES) == set(), "every exposed family is declared"


def test_kinds_are_those_of_the_table(used: RunningCluster) -> None:
    for each in scrapes(used).values():
        for name, family in each.families.items():
            assert Kind(family.type) is FAMILIES[name].kind, name


def test_what_was_written_and_read_is_counted(used: RunningCluster) -> None:
    topic = "kafka_server_brokertopicmetrics_"
    assert total(used, f"{topic}messagesinpersec_total", topic=TOPIC) == RECORDS
    assert total(used, f"{topic}bytesinpersec_total", topic=TOPIC) > 0
    written = total(used, f"{topic}bytesinpersec_total", topic=TOPIC)
    assert total(used, f"{topic}bytesoutpersec_total", topic=TOPIC) >= written, "by consumers, at least once"
    assert total(used, f"{topic}replicationbytesinpersec_total", topic=TOPIC) == 2 * written
    assert total(used, f"{topic}failedproducerequestspersec_total", topic=TOPIC) == 0


def test_the_cluster_is_counted(used: RunningCluster) -> None:
    assert total(used, "kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert total(used, "kafka_controller_kafkacontroller_activebrokercount") == LOGSTORES
    assert total(used, "kafka_controller_kafkacontroller_offlinepartitionscount") == 0
    partitions = total(used, "kafka_controller_kafkacontroller_globalpartitioncount")
    assert total(used, "kafka_server_replicamanager_leadercount") == partitions
    assert total(used, "kafka_server_replicamanager_partitioncount") == 3 * partitions
    assert total(used, "kafka_server_replicamanager_underreplicatedpartitions") == 0
    assert total(used, "kafka_coordinator_group_groupmetadatamanager_numgroups") == 1
    assert total(used, "kafka_coordinator_group_groupmetadatamanager_numoffsets") >= 1
    assert total(used, "kafka_server_group_coordinator_metrics_group_completed_rebalance_count_total") >= 1


def test_a_pod_is_all_of_its_processes(used: RunningCluster) -> None:
    exposed = scrapes(used)
    gateway = exposed["gateway"]
    assert gateway.sum("barnabas_metrics_processes") == 1 + gateway.sum("barnabas_gateway_processors")
    assert exposed["logstore-0"].sum("barnabas_metrics_processes") == 2
    for process in ("data", "control"):
        assert exposed["logstore-0"].sum("process_resident_memory_bytes", process=process) > 1 << 20


def test_counters_do_not_fall_when_a_processor_dies(used: RunningCluster) -> None:
    requests = "kafka_network_requestmetrics_requestspersec_total"
    before = total(used, requests, request="Produce")
    assert before > 0
    for child in _children_of(used.pids["gateway"]):
        os.kill(child, signal.SIGKILL)
    wait_until(lambda: total(used, "barnabas_gateway_processor_deaths_total") == 3)
    assert total(used, requests, request="Produce") >= before
    wait_until(lambda: total(used, "barnabas_gateway_processors") == 3)
    produce(used.bootstrap, 1)
    assert total(used, requests, request="Produce") > before


def _children_of(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_replica_that_is_gone_is_missed_until_it_is_back(used: RunningCluster) -> None:
    under = "kafka_server_replicamanager_underreplicatedpartitions"
    controller = "barnabas_controller_under_replicated_partitions"
    used.kill("logstore-2")
    wait_until(lambda: total(used, under) > 0 and total(used, controller) > 0)
    assert total(used, "kafka_controller_kafkacontroller_fencedbrokercount") == 1
    assert total(used, "kafka_server_replicamanager_underminisrpartitioncount") == 0
    assert total(used, "barnabas_controller_node_changes_total", role="logstore", change="down") == 1
    produce(used.bootstrap, 10)
    used.up()
    wait_until(lambda: total(used, under) == 0 and total(used, controller) == 0)
    assert total(used, "kafka_controller_controllerstats_uncleanleaderelectionspersec_total") == 0
    assert total(used, "kafka_server_replicamanager_isrexpandspersec_total") > 0


def test_a_control_process_that_dies_is_scraped_again(used: RunningCluster) -> None:
    """The endpoint is its; the numbers are the data process's, and stay."""
    written = "kafka_server_brokertopicmetrics_messagesinpersec_total"
    before = scrapes(used)["logstore-0"].sum(written, topic=TOPIC)
    (child,) = _children_of(used.pids["logstore-0"])
    os.kill(child, signal.SIGKILL)

    def is_scraped() -> bool:
        try:
            return scrapes(used)["logstore-0"].sum("barnabas_metrics_processes") == 2
        except (urllib.error.URLError, ConnectionError):
            return False

    wait_until(is_scraped)
    assert scrapes(used)["logstore-0"].sum(written, topic=TOPIC) == before


@pytest.mark.parametrize("role", ["gateway", "purgatory", "controller", "logstore"])
def test_a_metrics_port_that_is_taken_is_one_line(role: str, tmp_path: Path) -> None:
    """Before anything else is begun: there need be no etcd."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        settings = {
            "etcd.endpoints": "127.0.0.1:1",
            "metrics.listeners": address,
            "listeners": "PLAINTEXT://127.0.0.1:0" if role == "gateway" else "127.0.0.1:0",
        }
        if role == "logstore":
            settings |= {"node.id": "9", "log.dirs": str(tmp_path)}
        given = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        ended = subprocess.run(
            [sys.executable, "-m", f"barnabas_{role}", *given],
            env=service_environment(),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
        )
    expected = f"barnabas-{role}: metrics.listeners={address}: cannot listen there: Address already in use\n"
    starting, *reported = ended.stderr.splitlines(keepends=True)
    assert '"event":"starting"' in starting
    assert (ended.returncode, reported) == (1, [expected])
