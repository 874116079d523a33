"""Clusters of real processes.

A module that sets LOGSTORES gets so many, one otherwise. One that sets PROCESSORS gets so many in each gateway, and
Kafka's default where it sets None.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest

from tests.integration.kafka_tools import KafkaTools, kafka_libs
from tests.integration.running_cluster import RunningCluster


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bootstrap",
        metavar="HOST:PORT",
        help="run the client tests against this cluster, say Apache Kafka, to check the tests themselves",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Modules that are marked slow come first, in the order in which they were collected, as all others do."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


PROCESSORS = 1
"""Of a gateway. Each is a process, and a process that starts takes a second of CPU."""


@pytest.fixture(scope="module", autouse=True)
def processors_of_gateways(request: pytest.FixtureRequest) -> Iterator[None]:
    """For clusters of this process, and for programs that start their own."""
    processors = getattr(request.module, "PROCESSORS", PROCESSORS)
    with pytest.MonkeyPatch.context() as environment:
        if processors is not None:
            environment.setenv("BARNABAS_NUM_NETWORK_THREADS", str(processors))
        yield


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """A cluster for the tests of one module."""
    directory = tmp_path_factory.mktemp("cluster")
    with RunningCluster(directory, getattr(request.module, "LOGSTORES", 1)) as running:
        yield running


@pytest.fixture(scope="module")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """The address for Kafka clients."""
    given = request.config.getoption("--bootstrap")
    if given:
        return str(given)
    running: RunningCluster = request.getfixturevalue("cluster")
    return running.bootstrap


@pytest.fixture(scope="session")
def kafka_tools() -> Iterator[KafkaTools]:
    """Kafka's own tools. The test is skipped where there is no JDK or no Maven to fetch them with."""
    kafka_libs()
    with KafkaTools() as tools:
        yield tools


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test shows what the services said last."""
    report = yield
    running = item.funcargs.get("cluster")
    if report.failed and isinstance(running, RunningCluster):
        report.sections.append(("the ends of the services' logs", running.last_words()))
    return report
