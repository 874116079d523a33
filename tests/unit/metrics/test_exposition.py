"""The endpoint over HTTP, and what a Prometheus would read there."""

from __future__ import annotations

import asyncio
import socket
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from barnabas import __version__
from barnabas.metrics.catalogue import FAMILIES, FAMILIES_BY_MODULE
from barnabas.metrics.etcd_families import REQUEST_TIME
from barnabas.metrics.family import Family, Kind, Sample
from barnabas.metrics.histogram import Histogram
from barnabas.metrics.process_families import CPU_SECONDS
from barnabas.metrics.snapshot import pack, unpack
from barnabas.runtime.metrics import endpoint as metrics_endpoint
from barnabas.runtime.metrics import pod_metrics
from barnabas.runtime.metrics.endpoint import MetricsEndpoint
from barnabas.runtime.metrics.listener import advertised_metrics_address, bind_metrics, check_metrics_listener
from barnabas.runtime.metrics.pod_metrics import PodMetrics
from barnabas.runtime.metrics.process_metrics import ProcessMeter

REQUESTS = Family("kafka_requests", Kind.COUNTER, 'Of "all" kinds.', ("api",))
SIZE = Family("kafka_queue_size", Kind.GAUGE, "How many wait.")
TIMES = Family("kafka_times_ms", Kind.HISTOGRAM, "How long it took.", ("api",))


def times(*values_us: int) -> Histogram:
    histogram = Histogram()
    for value in values_us:
        histogram.add(value)
    return histogram


async def some_samples() -> list[Sample]:
    return [
        Sample(TIMES, ("Fetch",), times(49, 50, 51, 90_000_000)),
        Sample(REQUESTS, ("Produce",), 3),
        Sample(REQUESTS, ('a "quoted"\nname\\',), 4),
        Sample(SIZE, (), 1.5),
    ]


def bound() -> socket.socket:
    listening = bind_metrics("127.0.0.1:0")
    assert listening is not None
    return listening


def url(listening: socket.socket, path: str = metrics_endpoint.PATH) -> str:
    return f"http://127.0.0.1:{listening.getsockname()[1]}{path}"


async def read(address: str, accept: str = "*/*") -> str:
    def get() -> str:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(urllib.request.Request(address, headers={"Accept": accept}), timeout=20) as response:
            text: str = response.read().decode()
            return text

    return await asyncio.to_thread(get)


async def read_error(address: str) -> tuple[int, str]:
    with pytest.raises(urllib.error.HTTPError) as caught:
        await read(address)
    return caught.value.code, caught.value.read().decode()


def parsed(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
async def listening() -> AsyncIterator[socket.socket]:
    listening = bound()
    endpoint = MetricsEndpoint(listening, some_samples)
    endpoint.start()
    yield listening
    await asyncio.to_thread(endpoint.stop)


async def test_what_is_measured_is_read_back(listening: socket.socket) -> None:
    found = parsed(await read(url(listening)))
    assert found["kafka_requests_total", (("api", "Produce"),)] == 3
    assert found["kafka_requests_total", (("api", 'a "quoted"\nname\\'),)] == 4
    assert found["kafka_queue_size", ()] == 1.5
    fetch = ("api", "Fetch")
    assert found["kafka_times_ms_bucket", (fetch, ("le", "0.05"))] == 2, "a bound is within its own bucket"
    assert found["kafka_times_ms_bucket", (fetch, ("le", "0.1"))] == 3
    assert found["kafka_times_ms_bucket", (fetch, ("le", "60000.0"))] == 3
    assert found["kafka_times_ms_bucket", (fetch, ("le", "+Inf"))] == 4
    assert found["kafka_times_ms_count", (fetch,)] == 4
    assert found["kafka_times_ms_sum", (fetch,)] == pytest.approx(90_000.150)


async def test_help_and_type_are_exposed(listening: socket.socket) -> None:
    families = {family.name: family for family in text_string_to_metric_families(await read(url(listening)))}
    assert (families["kafka_requests"].type, families["kafka_requests"].documentation) == ("counter", 'Of "all" kinds.')
    assert families["kafka_times_ms"].type == "histogram"


async def test_other_paths_and_methods_are_refused_in_words(listening: socket.socket) -> None:
    assert await read_error(url(listening, "/")) == (404, "metrics are at /metrics\n")

    def post() -> int:
        request = urllib.request.Request(url(listening), data=b"x")
        try:
            urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=20)
        except urllib.error.HTTPError as error:
            return error.code
        return 200

    assert await asyncio.to_thread(post) == 405


async def test_who_asks_while_samples_are_collected_gets_the_same_ones() -> None:
    collections = 0
    go_on = asyncio.Event()

    async def collect() -> Iterable[Sample]:
        nonlocal collections
        collections += 1
        await go_on.wait()
        return await some_samples()

    with bound() as listening:
        endpoint = MetricsEndpoint(listening, collect)
        asked = [asyncio.ensure_future(endpoint.collect_once()) for _ in range(3)]
        await asyncio.sleep(0)
        go_on.set()
        first, *others = await asyncio.gather(*asked)
        assert all(other is first for other in others)
        assert collections == 1
        assert await endpoint.collect_once() is not first, "and the next one is a new one"


async def test_more_connections_than_are_served_at_once_are_closed(listening: socket.socket) -> None:
    address = listening.getsockname()
    idle = [await asyncio.open_connection(*address) for _ in range(metrics_endpoint.REQUESTS_MAX)]
    reader, writer = await asyncio.open_connection(*address)
    assert await reader.read() == b""
    for _, each in idle:
        each.close()
    writer.close()


async def test_a_loop_that_gives_no_samples_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_endpoint, "COLLECT_S_MAX", 0.01)

    async def never() -> Iterable[Sample]:
        await asyncio.Event().wait()
        return []

    async def broken() -> Iterable[Sample]:
        raise ZeroDivisionError

    listening = bound()
    endpoint = MetricsEndpoint(listening, never)
    endpoint.start()
    assert (await read_error(url(listening)))[0] == 503
    await asyncio.to_thread(endpoint.stop)
    listening = bound()
    endpoint = MetricsEndpoint(listening, broken)
    endpoint.start()
    monkeypatch.setattr(metrics_endpoint, "COLLECT_S_MAX", 20.0)
    assert (await read_error(url(listening)))[0] == 500
    await asyncio.to_thread(endpoint.stop)


# --- listeners -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["9095", ":9095", "host:", "host:port", "host:70000"])
def test_a_bad_listener_is_one_line(address: str) -> None:
    with pytest.raises(ValueError, match=f"metrics.listeners={address}: expected host:port"):
        check_metrics_listener(address)


def test_no_listener_is_no_metrics() -> None:
    check_metrics_listener("")
    assert bind_metrics("") is None
    assert advertised_metrics_address("", None, "10.0.0.1:9092") == ""


def test_a_port_in_use_is_named() -> None:
    with bound() as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(OSError, match=rf"metrics.listeners={address}: cannot listen there: Address already in use"):
            bind_metrics(address)


def test_who_listens_on_all_addresses_is_reached_by_the_services_own() -> None:
    with bound() as listening:
        port = listening.getsockname()[1]
        assert advertised_metrics_address("127.0.0.1:0", listening, "10.0.0.1:9092") == f"127.0.0.1:{port}"
        assert advertised_metrics_address("0.0.0.0:0", listening, "10.0.0.1:9092") == f"10.0.0.1:{port}"


# --- the pod ---------------------------------------------------------------------------------------------------------


class Counted:
    def __init__(self, value: float) -> None:
        self.value = value

    def samples(self) -> list[Sample]:
        return [Sample(CPU_SECONDS, ("processor-0",), self.value)]


def cpu(samples: Iterable[Sample]) -> float:
    return sum(sample.value for sample in samples if sample.family is CPU_SECONDS and isinstance(sample.value, float))


def value(samples: Iterable[Sample], name: str) -> float:
    (found,) = [sample.value for sample in samples if sample.family.name == name]
    assert not isinstance(found, Histogram)
    return found


async def test_a_pod_is_its_processes_and_those_before_them() -> None:
    pod = PodMetrics("gateway", "gateway-0", [Counted(1.0)])
    pod.add_process(1, lambda: pod.heard(1, pack(Counted(10.0).samples())))
    assert cpu(await pod.collect()) == 11.0
    pod.gone(1)
    assert cpu(await pod.collect()) == 11.0, "dead, not forgotten"
    pod.add_process(2, lambda: pod.heard(2, pack(Counted(0.5).samples())))
    samples = await pod.collect()
    assert cpu(samples) == 11.5
    assert value(samples, "barnabas_metrics_processes") == 2
    assert value(samples, "barnabas_metrics_silent_processes") == 0


async def test_a_process_that_does_not_answer_is_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_metrics, "ANSWER_S_MAX", 0.01)
    pod = PodMetrics("gateway", "gateway-0", [])
    pod.add_process(1, lambda: None)
    pod.add_process(2, lambda: pod.heard(2, pack(Counted(2.0).samples())))
    samples = await pod.collect()
    assert cpu(samples) == 2.0
    assert value(samples, "barnabas_metrics_processes") == 2, "itself and the one that has answered"
    assert value(samples, "barnabas_metrics_silent_processes") == 1


async def test_one_that_dies_while_it_is_asked_is_not_waited_for() -> None:
    pod = PodMetrics("gateway", "gateway-0", [])
    pod.add_process(1, lambda: pod.gone(1))
    assert value(await pod.collect(), "barnabas_metrics_silent_processes") == 0


def test_what_a_process_costs() -> None:
    samples = list(ProcessMeter("data").samples())
    reported = {(sample.family.name, sample.labels): sample.value for sample in unpack(pack(samples))}
    assert reported == {(sample.family.name, sample.labels): sample.value for sample in samples}
    for name in ("process_cpu_seconds", "process_resident_memory_bytes", "process_open_fds"):
        number = reported[name, ("data",)]
        assert isinstance(number, float)
        assert number > 0


def test_histograms_survive_the_way_between_processes() -> None:
    family = REQUEST_TIME
    gauge = Sample(CPU_SECONDS, ("data",), True)
    back, truth = unpack(pack([Sample(family, (), times(10, 20_000, 90_000_000)), gauge]))
    assert truth.value == 1.0
    assert back == Sample(family, (), times(10, 20_000, 90_000_000))


def test_every_family_is_declared_well() -> None:
    assert set(FAMILIES_BY_MODULE) >= {"process_families", "replica_families"}
    for family in FAMILIES.values():
        assert family.name.startswith(("kafka_", "barnabas_", "process_", "python_")), family.name
        assert family.name.islower(), family.name
        assert not family.name.endswith("_total"), f"{family.name}: exposition puts it there"
        assert family.help.endswith("."), family.name
        assert len(set(family.labels)) == len(family.labels)


@pytest.mark.parametrize("version", ["abc", "1..0", "x; escaping"])
async def test_a_format_of_a_version_that_is_no_number_is_answered_with_text(version: str) -> None:
    listening = bound()
    endpoint = MetricsEndpoint(listening, some_samples)
    endpoint.start()
    try:
        text = await read(url(listening), f"application/openmetrics-text; version={version}")
        assert "kafka_queue_size 1.5" in text
    finally:
        await asyncio.to_thread(endpoint.stop)


async def test_an_endpoint_can_be_stopped_before_its_thread_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = MetricsEndpoint(bound(), some_samples)
    begin: list[Callable[[], None]] = []
    monkeypatch.setattr(metrics_endpoint, "start_thread", lambda _place, work, _name: begin.append(work))
    endpoint.start()
    stopping = asyncio.create_task(asyncio.to_thread(endpoint.stop))
    while not endpoint._is_stopped.is_set():
        await asyncio.sleep(0)
    await asyncio.to_thread(begin[0])
    await stopping


async def test_the_version_is_exposed() -> None:
    samples = await PodMetrics("controller", "controller-0", []).collect()
    assert [sample.labels for sample in samples if sample.family.name == "barnabas_build_info"] == [
        (__version__, "controller", "controller-0")
    ]
