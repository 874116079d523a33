"""kafka-python's integration tests, from its sdist, against its installed package.

Those of TLS start a broker of their own, and are left out; those of SASL skip themselves.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from importlib.metadata import version
from pathlib import Path
from typing import Final

from tests.acceptance.outcomes import Outcome, Outcomes
from tests.acceptance.suite import Broker, Suite
from tests.compat.matrix.programs import run_logged
from tests.compat.matrix.toolchains import prepare

_KAFKA_VERSION: Final = "4.4.0"
_SECONDS_MAX: Final = 900
_SECONDS_EACH_MAX: Final = 60
_BY_CHANCE: Final = frozenset(
    {"test_admin_integration::test_alter_replica_log_dirs", "test_admin_integration::test_delete_records"}
)
"""Tests that pass by chance unless there is one broker: they are run, and not judged.

The first expects the replica of a new partition on the first broker, the other the records of six partitions in a poll.
"""
_TROUBLE: Final = ("failure", "error")


def _run(directory: Path, broker: Broker, logs: Path) -> Outcomes:
    results = logs / "results.xml"
    argv = [
        *(sys.executable, "-m", "pytest", "test/integration", "-v", "--log-level=ERROR"),
        *("--ignore=test/integration/test_ssl_integration.py", "-p", "no:cacheprovider", "-p", "no:asyncio"),
        *(f"--timeout={_SECONDS_EACH_MAX}", "--timeout-method=signal", f"--junit-xml={results}"),
    ]
    environment = {
        "KAFKA_URI": f"kafka://{broker.bootstrap.partition(',')[0]}",
        "KAFKA_VERSION": _KAFKA_VERSION,
        "KAFKA_ROOT": str(logs),
    }
    run_logged(argv, directory, logs / "kafka-python.log", _SECONDS_MAX, environment)
    outcomes = read_results(results.read_text()) if results.exists() else {}
    return {test: outcome for test, outcome in outcomes.items() if test not in _BY_CHANCE}


def read_results(text: str) -> Outcomes:
    """Return the outcome of each test from pytest's XML. One with an error at its end has failed."""
    outcomes: Outcomes = {}
    for case in ElementTree.fromstring(text).iter("testcase"):
        name = f"{str(case.get('classname')).rpartition('integration.')[2]}::{case.get('name')}"
        if any(case.find(each) is not None for each in _TROUBLE):
            outcomes[name] = Outcome.FAIL
        elif case.find("skipped") is not None:
            outcomes.setdefault(name, Outcome.SKIP)
        else:
            outcomes.setdefault(name, Outcome.PASS)
    return dict(sorted(outcomes.items()))


SUITE: Final = Suite(
    "kafka-python",
    f"kafka-python {version('kafka-python')}, integration tests",
    lambda: prepare("kafka-python-suite"),
    _run,
    gateway={
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "num.partitions": "4",
    },
    logstore={"group.initial.rebalance.delay.ms": "100", "group.min.session.timeout.ms": "1000"},
    kafka_brokers=3,
)
