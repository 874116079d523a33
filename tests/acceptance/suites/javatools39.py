"""Kafka's tools of 3.9, the last ones before those of 4: operators still have them, and their clients."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.acceptance.clusters import CACHE
from tests.acceptance.suite import Suite
from tests.acceptance.suites import javatools
from tests.acceptance.suites.java_checks import Check, run_checks, says, tool
from tests.compat.building import build, need

_VERSION: Final = "3.9.1"
_SOURCES: Final = Path(__file__).parents[1] / "java/tools39"
_CORE: Final = "kafka.admin"
"""The package of tools that 4 has moved to that of the others."""
_TO: Final = "--bootstrap-server {bootstrap}"
_PRODUCED: Final = "--topic performed --num-records 20000 --record-size 200 --throughput -1 --producer-props"
_CONFIGS: Final = f"{_TO} --entity-type topics --entity-name verified"
_CLIENT_METRICS: Final = f"{_TO} --name all-producers"


def _as_in_4(name: str) -> Check:
    """Return the check that has this name, and its tool the same arguments, in Kafka 4."""
    return next(check for check in javatools.CHECKS if check.name == name)


CHECKS: Final = (
    _as_in_4("VerifiableProducer"),
    _as_in_4("VerifiableConsumer, classic"),
    *(
        tool(
            f"ProducerPerformance, {codec}",
            "ProducerPerformance",
            f"{_PRODUCED} bootstrap.servers={{bootstrap}} acks=all compression.type={codec}",
            says("^20000 records sent"),
        )
        for codec in javatools.CODECS
    ),
    tool(
        "ProducerPerformance, transactions",
        "ProducerPerformance",
        f"{_PRODUCED} bootstrap.servers={{bootstrap}} --transaction-duration-ms 200 --transactional-id performance",
        says("^20000 records sent"),
    ),
    tool(
        "ConsumerPerformance",
        "ConsumerPerformance",
        f"{_TO} --topic performed --messages 120000 --group performance --timeout 20000",
        says(", 120000, "),
    ),
    tool("EndToEndLatency", "EndToEndLatency", "{bootstrap} latency 1000 all 100", says("Avg latency")),
    tool("", "VerifiableProducer", f"{_TO} --topic copied --max-messages 5000 --throughput -1", None),
    _as_in_4("TransactionalMessageCopier"),
    _as_in_4("TransactionalMessageCopier, group mode"),
    _as_in_4("ClientCompatibilityTest"),
    _as_in_4("ReplicaVerificationTool"),
    tool("BrokerApiVersionsCommand", "BrokerApiVersionsCommand", _TO, says(r"Produce\(0\)"), package=_CORE),
    _as_in_4("GetOffsetShell"),
    _as_in_4("TopicCommand, describe"),
    _as_in_4("ConsumerGroupCommand, describe"),
    tool(
        "ConsumerGroupCommand, reset",
        "consumer.group.ConsumerGroupCommand",
        f"{_TO} --topic verified --group classic --reset-offsets --to-earliest --execute",
        # All in one line.
        says("classic +verified +[0-2] +0 "),
    ),
    tool(
        "ConfigCommand, alter",
        "ConfigCommand",
        f"{_CONFIGS} --alter --add-config retention.ms=1000000",
        says("Completed"),
        package=_CORE,
    ),
    tool(
        "ConfigCommand, describe",
        "ConfigCommand",
        f"{_CONFIGS} --describe",
        says("retention.ms=1000000"),
        package=_CORE,
    ),
    tool(
        "ConfigCommand, quota",
        "ConfigCommand",
        f"{_TO} --alter --entity-type clients --entity-name slow --add-config producer_byte_rate=1048576",
        says("Completed"),
        package=_CORE,
    ),
    tool(
        "ClientMetricsCommand, alter",
        "ClientMetricsCommand",
        f"{_CLIENT_METRICS} --alter --metrics org.apache.kafka.producer. --interval 30000",
        says("^Altered client metrics config for all-producers"),
    ),
    tool("ClientMetricsCommand, describe", "ClientMetricsCommand", f"{_CLIENT_METRICS} --describe", says("30000")),
    tool(
        "LeaderElectionCommand",
        "LeaderElectionCommand",
        f"{_TO} --election-type preferred --topic verified --partition 0",
        says("(Successfully completed leader election|Valid replica already elected)"),
    ),
    _as_in_4("LogDirsCommand"),
    _as_in_4("TransactionsCommand, list"),
    _as_in_4("TransactionsCommand, describe-producers"),
    _as_in_4("FeatureCommand, describe"),
    _as_in_4("MetadataQuorumCommand"),
    _as_in_4("ClusterTool, cluster-id"),
    _as_in_4("DeleteRecordsCommand"),
    _as_in_4("ConsoleConsumer"),
    _as_in_4("TopicCommand, delete"),
)
"""In their order: later ones read what earlier ones have written. Those of share groups came with 4."""


def _bring() -> Path:
    need("java", "mvn")
    copy = ["mvn", "--batch-mode", "--quiet", "dependency:copy-dependencies", "-DoutputDirectory=libs"]
    return build(_SOURCES, CACHE / "javatools39", [copy]) / "libs"


SUITE: Final = Suite(
    "javatools39",
    f"tools of Apache Kafka {_VERSION}",
    _bring,
    lambda libs, broker, logs: run_checks(CHECKS, libs, broker, logs),
)
