"""Real processes: every hop of a request is in its times, and all services are in its trace."""

from __future__ import annotations

import os
import signal
import threading
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from barnabas.wire.record_batch import Record
from barnabas_cli.local.layout import HOST
from barnabas_cli.record_client import RecordClient
from tests.integration.otlp_collector import CollectedSpan, Collector
from tests.integration.running_cluster import RunningCluster

pytestmark = [pytest.mark.integration, pytest.mark.deep]

RECORD = Record(None, b"x" * 100, 0)
STOPPED_MS = 300
SERVER_HOPS = {"channel", "logstore-queue", "logstore-work"}


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as collecting:
        yield collecting


@pytest.fixture(scope="module")
def cluster(collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """Three logstores; every request is traced."""
    keys = {
        "BARNABAS_TRACES_OTLP_ENDPOINT": collector.address,
        "BARNABAS_TRACES_SAMPLE_RATIO": "1.0",
        "BARNABAS_REQUEST_LOG_SLOW_MS": "0",
        "BARNABAS_DEFAULT_REPLICATION_FACTOR": "3",
        "BARNABAS_NUM_NETWORK_THREADS": "1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for key, value in keys.items():
            patch.setenv(key, value)
        with RunningCluster(tmp_path_factory.mktemp("cluster"), 3) as running:
            yield running


@pytest.fixture
def client(cluster: RunningCluster) -> Iterator[RecordClient]:
    with RecordClient(HOST, cluster.local.layout.kafka_port, 60) as client:
        yield client


def sums(cluster: RunningCluster, name: str) -> dict[tuple[str, str], float]:
    """The `_sum` of a family of the gateway, in ms, by request and hop."""
    (gateway,) = [each for each in cluster.status_json()["services"] if each["role"] == "gateway"]
    with urllib.request.urlopen(f"http://{gateway['addresses']['metrics']}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    return {
        (sample.labels["request"], sample.labels.get("hop", "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == f"{name}_sum"
    }


def services(spans: list[CollectedSpan]) -> set[str]:
    return {span.service for span in spans}


def root_of(spans: list[CollectedSpan]) -> CollectedSpan:
    (root,) = [span for span in spans if not span.parent_id]
    return root


def test_a_produce_to_three_replicas_is_one_trace_through_all_services(
    cluster: RunningCluster, client: RecordClient, collector: Collector
) -> None:
    client.topic("replicated", create=True)
    (partition,) = [each for topic in client.metadata("replicated").topics for each in topic.partitions]
    follower = next(node_id for node_id in partition.replica_nodes if node_id != partition.leader_id)
    pid = cluster.pids[f"logstore-{follower}"]
    # Purgatory is asked only for what its leader has held for some ms (ADR 0025).
    os.kill(pid, signal.SIGSTOP)
    resume = threading.Timer(STOPPED_MS / 1000, os.kill, (pid, signal.SIGCONT))
    try:
        resume.start()
        client.produce("replicated", 0, [RECORD])
    finally:
        resume.join()
    wanted = {"barnabas-gateway", "barnabas-logstore", "barnabas-purgatory"}
    spans = collector.trace_that(lambda spans: services(spans) >= wanted)
    root = root_of(spans)
    assert (root.service, root.name) == ("barnabas-gateway", "Produce")
    by_id = {span.span_id: span for span in spans}
    for span in spans:
        while span.parent_id:
            span = by_id[span.parent_id]
        assert span is root
    hops = sorted((span for span in spans if span.parent_id == root.span_id), key=lambda span: span.began_ns)
    assert {"Produce channel", "Produce purgatory", "parked"} <= {span.name for span in hops}
    line = f'"trace_id":"{root.trace_id.hex()}"', f"trace_id={root.trace_id.hex()}"
    log = cluster.directory.log_path("gateway").read_text()
    assert any(each in log for each in line), "what is logged about a traced request names its trace"


def test_a_topic_that_is_created_is_traced_to_the_controller(client: RecordClient, collector: Collector) -> None:
    client.topic("traced", create=True)
    spans = collector.trace_that(lambda spans: services(spans) >= {"barnabas-gateway", "barnabas-controller"})
    root = root_of(spans)
    assert root.service == "barnabas-gateway"
    (controller,) = [span for span in spans if span.service == "barnabas-controller"]
    assert (controller.name, controller.parent_id) == ("CreateTopics", root.span_id)


def test_the_hops_of_all_requests_add_up_to_their_time(cluster: RunningCluster, client: RecordClient) -> None:
    client.topic("added-up", create=True)
    for _ in range(50):
        client.produce("added-up", 0, [RECORD])
    client.fetch("added-up", 0, 0, 1000)
    totals = sums(cluster, "kafka_network_requestmetrics_totaltimems")
    hops = sums(cluster, "barnabas_request_hop_ms")
    assert ("Produce", "") in totals
    assert ("FetchConsumer", "") in totals
    # The scrapes are one after the other, and asked for by a client of their own: what it asks is left out.
    for request in ("Produce", "FetchConsumer"):
        parts = [value for (each, _), value in hops.items() if each == request]
        assert sum(parts) == pytest.approx(totals[request, ""], abs=0.001)


def test_a_logstore_that_stands_still_shows_where_it_is_waited_for(
    cluster: RunningCluster, client: RecordClient
) -> None:
    client.topic("slow", create=True)
    client.produce("slow", 0, [RECORD])
    (partition,) = [each for topic in client.metadata("slow").topics for each in topic.partitions]
    pid = cluster.pids[f"logstore-{partition.leader_id}"]
    before = sums(cluster, "barnabas_request_hop_ms")
    os.kill(pid, signal.SIGSTOP)
    resume = threading.Timer(STOPPED_MS / 1000, os.kill, (pid, signal.SIGCONT))
    try:
        resume.start()
        client.produce("slow", 0, [RECORD])
    finally:
        resume.join()
    after = sums(cluster, "barnabas_request_hop_ms")
    grown = {hop: value - before[request, hop] for (request, hop), value in after.items() if request == "Produce"}
    assert sum(grown[hop] for hop in SERVER_HOPS) > STOPPED_MS / 2
    assert max(grown, key=grown.__getitem__) in SERVER_HOPS
    # The wait is in one hop, not in several. An earlier request may have ended since the first scrape: some ms are its.
    assert sum(grown.values()) < 2 * max(grown.values())
