"""The functional tests of IBM's sarama, a client of Go, which break its connections by toxiproxy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.acceptance.clusters import CACHE
from tests.acceptance.outcomes import Outcomes
from tests.acceptance.suite import Addresses, Broker, Suite
from tests.acceptance.suites.go_tests import module_directory, run_tests
from tests.acceptance.suites.toxiproxy import COMMAND, Proxy, toxiproxy
from tests.compat.building import build, need

_MODULE: Final = "github.com/IBM/sarama"
_SOURCES: Final = Path(__file__).parents[1] / "go/sarama"
_TAG: Final = "functional"
_KAFKA_VERSION: Final = "4.4.0"
_SECONDS_MAX: Final = 900
_FIRST_PORT: Final = 29091
_PROXIES: Final = 5
"""Its code has five brokers, with ids from 1, at ports from 29091, behind proxies named kafka1 and so on."""
_NO_DOCKER: Final = "unix:///dev/null"
"""Some tests stop brokers by `docker compose`: they fail alike where there is a Docker, and leave it alone."""
ENDS_ALL: Final = frozenset({"TestConsumerFetchFollowerFailover"})
"""Where no broker can be stopped, it sends on a channel that it has closed, which ends the tests after it, too."""
_TEST: Final = re.compile(r"^func (Test\w+)\(t \*testing\.T\)", re.MULTILINE)


def _bring() -> Path:
    need("go")
    commands = [
        ["go", "mod", "tidy"],
        ["go", "build", "-o", "toxiproxy", COMMAND],
        ["go", "test", "-c", "-tags", _TAG, "-o", "sarama.test", _MODULE],
    ]
    return build(_SOURCES, CACHE / "sarama", commands)


def _run(directory: Path, broker: Broker, logs: Path) -> Outcomes:
    package = module_directory(directory, _MODULE)
    sources = {path.name: path.read_text() for path in sorted(package.glob("*_test.go"))}
    with toxiproxy(directory / "toxiproxy", proxies(broker.behind_proxy), logs) as url:
        environment = {"TOXIPROXY_ADDR": url, "KAFKA_VERSION": _KAFKA_VERSION, "DOCKER_HOST": _NO_DOCKER}
        binary, log, only = directory / "sarama.test", logs / "sarama.log", functional_tests(sources)
        return select(run_tests(binary, package, log, _SECONDS_MAX, environment, only))


def proxies(behind: Mapping[int, int]) -> list[Proxy]:
    """Return the proxies that the tests know; those of brokers that are not there lead to those that are."""
    upstreams = [behind[port] for port in sorted(behind)]
    ports = range(_FIRST_PORT, _FIRST_PORT + _PROXIES)
    return [Proxy(f"kafka{place + 1}", port, upstreams[place % len(upstreams)]) for place, port in enumerate(ports)]


def functional_tests(sources: Mapping[str, str]) -> list[str]:
    """Return the tests of the files that are compiled for this purpose alone: others need no broker."""
    own = [text for text in sources.values() if text.startswith(f"//go:build {_TAG}\n")]
    return [name for text in own for name in _TEST.findall(text) if name not in ENDS_ALL]


def select(outcomes: Outcomes) -> Outcomes:
    """Return the tests themselves: one of which a subtest fails has failed."""
    return {name: outcome for name, outcome in outcomes.items() if "/" not in name}


SUITE: Final = Suite(
    "sarama",
    "sarama 1.61.1, functional tests",
    _bring,
    _run,
    gateway={"auto.create.topics.enable": "false"},
    logstore={
        "broker.rack": "{id}",
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        "group.initial.rebalance.delay.ms": "0",
    },
    kafka_brokers=3,
    addresses=Addresses(first_id=1, first_port=_FIRST_PORT),
)
