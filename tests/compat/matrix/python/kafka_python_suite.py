"""kafka-python's own integration tests, from its sdist (where this is started), against a broker that runs already.

The suite is configured for Kafka 4.4, and creates its topics with one replica. What needs SASL is skipped by it, what
needs TLS is left out.
"""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import kafka
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import TopicAlreadyExistsError

from tests.compat.matrix.python.checks import target_of_arguments

KAFKA_VERSION = "4.4.0"
TRANSACTIONS_TOPIC = "transactional_test_topic"
PARTITIONS = 4
"""What the suite's own broker gives a topic that it creates: a test of transactions commits an offset of partition 1,
and waits for ever where there is none.
"""


def main() -> None:
    target = target_of_arguments()
    print("version", kafka.__version__, flush=True)
    results = Path.cwd() / f"{target.prefix}.xml"
    admin = KafkaAdminClient(bootstrap_servers=target.bootstrap)
    try:
        admin.create_topics([NewTopic(TRANSACTIONS_TOPIC, num_partitions=PARTITIONS, replication_factor=1)])
    except TopicAlreadyExistsError:
        pass
    admin.close()
    subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "test/integration", "-p", "no:cacheprovider", "-p", "no:asyncio"),
            # It starts a broker of its own, with TLS.
            "--ignore=test/integration/test_ssl_integration.py",
            *(
                "--timeout=120",
                "--timeout-method=signal",
                "--durations=0",
                "-v",
                "--log-level=ERROR",
                "--junit-xml",
                str(results),
            ),
        ],
        env={
            **os.environ,
            "KAFKA_URI": f"kafka://{target.bootstrap}",
            "KAFKA_VERSION": KAFKA_VERSION,
            "KAFKA_ROOT": str(Path.cwd()),
        },
        check=False,
    )
    cases = list(ElementTree.parse(results).iter("testcase"))
    run = [case for case in cases if case.find("skipped") is None]
    print("plan", *map(_name, run))
    for case in run:
        bad = [each for kind in ("failure", "error") for each in case.findall(kind)]
        why = " ".join((bad[0].get("message") or "").split())[:400] if bad else ""
        print(f"failed {_name(case)}: {why}" if bad else f"ok {_name(case)}")


def _name(case: ElementTree.Element) -> str:
    return str(case.get("name")).replace(" ", "_").replace(":", "_")


main()
