"""The tests of franz-go's package kgo: a client of Go, its groups and its transactions."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click
from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.acceptance.clusters import CACHE
from tests.acceptance.outcomes import Outcomes
from tests.acceptance.suite import Broker, Suite
from tests.acceptance.suites.go_tests import module_directory, run_tests
from tests.compat.building import build, need

_MODULE: Final = "github.com/twmb/franz-go"
_SOURCES: Final = Path(__file__).parents[1] / "go/kgo"
_RECORDS: Final = 20_000
"""For each test that reads and writes through three groups; the suite's own default is half a million."""
_SECONDS_MAX: Final = 480
_USER, _PASSWORD = "kgo", "kgo-secret"
WITH_SUBTESTS: Final = frozenset({"TestGroupETL", "TestTxnEtl"})
"""Where the suite leaves out the subtests that a broker's versions rule out, and reports success all the same."""


def _bring() -> Path:
    need("go")
    compile_tests = ["go", "test", "-c", "-o", "kgo.test", f"{_MODULE}/pkg/kgo"]
    return build(_SOURCES, CACHE / "kgo", [["go", "mod", "tidy"], compile_tests])


def _run(directory: Path, broker: Broker, logs: Path) -> Outcomes:
    environment = {
        "KGO_SEEDS": broker.bootstrap,
        "KGO_TEST_RF": str(min(broker.brokers, 3)),
        "KGO_TEST_RECORDS": str(_RECORDS),
        "KGO_TEST_SCRAM_SEEDS": broker.sasl_bootstrap,
        "KGO_TEST_SCRAM": f"{_USER}:{_PASSWORD}:256",
        "KGO_LOG_LEVEL": "none",
    }
    _create_user(broker)
    package = module_directory(directory, _MODULE) / "pkg/kgo"
    return select(run_tests(directory / "kgo.test", package, logs / "kgo.log", _SECONDS_MAX, environment))


def select(outcomes: Outcomes) -> Outcomes:
    """Return the tests themselves, and those subtests that may be left out."""
    return {name: each for name, each in outcomes.items() if "/" not in name or name.split("/")[0] in WITH_SUBTESTS}


def _create_user(broker: Broker) -> None:
    credential = UserScramCredentialUpsertion(
        _USER, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), _PASSWORD.encode()
    )
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": "0"})
    try:
        for future in admin.alter_user_scram_credentials([credential]).values():
            future.result(timeout=20)
    except (KafkaException, TimeoutError) as error:
        click.echo(f"kgo: the user for its tests of SCRAM can't be created, so they fail: {error!r}")


SUITE: Final = Suite("kgo", "franz-go 1.22.2, package kgo", _bring, _run)
