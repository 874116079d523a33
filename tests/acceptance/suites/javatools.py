"""Kafka's own tools of Java: what its system tests are made of, and what operators call."""

from __future__ import annotations

from typing import Final

from bench.apache_kafka import VERSION
from tests.acceptance.suite import Suite
from tests.acceptance.suites.java_checks import consumes, is_silent, run_checks, runs_on_and_says, says, tool
from tests.compat.matrix.toolchains import prepare

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_COPIER: Final = (
    "--broker-list {bootstrap} --input-topic copied --input-partition 0 --output-topic copies --transaction-size 100 "
    "--max-messages 1000 --enable-random-aborts"
)
_FEATURES: Final = (
    "--offsets-for-times-supported true --cluster-id-supported true --expect-record-too-large-exception false "
    "--create-topics-supported true --describe-acls-supported true --describe-configs-supported true "
    "--idempotent-producer-supported true"
)
_TO: Final = "--bootstrap-server {bootstrap}"
_VERIFIED: Final = f"{_TO} --topic verified"
_VERIFIABLE_CONSUMER: Final = f"{_VERIFIED} --max-messages 5000"
_GROUP_CONFIG: Final = f"{_TO} --alter --entity-type groups --add-config share.auto.offset.reset=earliest --entity-name"
_CONFIGS: Final = f"{_TO} --entity-type topics --entity-name verified"
_PRODUCED: Final = f"{_TO} --topic performed --num-records 20000 --record-size 200 --throughput -1"


CHECKS: Final = (
    tool(
        "VerifiableProducer",
        "VerifiableProducer",
        f"{_VERIFIED} --max-messages 5000 --throughput -1",
        says('"acked":5000'),
    ),
    tool(
        "VerifiableConsumer, classic",
        "VerifiableConsumer",
        f"{_VERIFIABLE_CONSUMER} --reset-policy earliest --group-id classic",
        consumes(5000),
    ),
    tool(
        "VerifiableConsumer, consumer",
        "VerifiableConsumer",
        f"{_VERIFIABLE_CONSUMER} --reset-policy earliest --group-id consumer --group-protocol consumer",
        consumes(5000),
    ),
    tool(
        "VerifiableShareConsumer",
        "VerifiableShareConsumer",
        f"{_VERIFIABLE_CONSUMER} --offset-reset-strategy earliest --group-id share",
        consumes(5000),
    ),
    *(
        tool(
            f"ProducerPerformance, {codec}",
            "ProducerPerformance",
            f"{_PRODUCED} --command-property acks=all compression.type={codec}",
            says("^20000 records sent"),
        )
        for codec in CODECS
    ),
    tool(
        "ProducerPerformance, transactions",
        "ProducerPerformance",
        f"{_PRODUCED} --transaction-duration-ms 200 --transactional-id performance",
        says("^20000 records sent"),
    ),
    tool(
        "ConsumerPerformance",
        "ConsumerPerformance",
        f"{_TO} --topic performed --num-records 120000 --group performance --timeout 20000",
        says(", 120000, "),
    ),
    tool("", "ConfigCommand", f"{_GROUP_CONFIG} share-performance", None),
    tool("", "ConfigCommand", f"{_GROUP_CONFIG} share-console", None),
    tool(
        "ShareConsumerPerformance",
        "ShareConsumerPerformance",
        f"{_TO} --topic performed --num-records 5000 --group share-performance --timeout 20000",
        says(", [5-9][0-9]{3}, [0-9]+$"),
    ),
    tool(
        "EndToEndLatency",
        "EndToEndLatency",
        f"{_TO} --topic latency --num-records 1000 --producer-acks all --record-size 100",
        says("Avg latency"),
    ),
    tool("", "VerifiableProducer", f"{_TO} --topic copied --max-messages 5000 --throughput -1", None),
    tool(
        "TransactionalMessageCopier",
        "TransactionalMessageCopier",
        f"{_COPIER} --transactional-id one --consumer-group copier-one",
        says('ShutdownComplete.*"totalProcessed":1000,.*"remaining":0'),
    ),
    tool(
        "TransactionalMessageCopier, group mode",
        "TransactionalMessageCopier",
        f"{_COPIER} --transactional-id two --consumer-group copier-two --group-mode --use-group-metadata",
        says('ShutdownComplete.*"totalProcessed":5000,.*"remaining":0'),
    ),
    tool(
        "ClientCompatibilityTest",
        "ClientCompatibilityTest",
        f"{_TO} --topic compatible --num-cluster-nodes {{brokers}} {_FEATURES}",
        says("^SUCCESS"),
    ),
    tool(
        "LogCompactionTester",
        "LogCompactionTester",
        f"{_TO} --messages 20000 --topics 1 --percent-deletes 10 --sleep 20",
        says(", 0 mismatches"),
    ),
    tool(
        "ReplicaVerificationTool",
        "ReplicaVerificationTool",
        "--broker-list {bootstrap} --time -2 --topics-include verified --report-interval-ms 2000",
        runs_on_and_says("max lag is 0"),
        seconds_max=15,
    ),
    tool("BrokerApiVersionsCommand", "BrokerApiVersionsCommand", _TO, says(r"Produce\(0\)")),
    tool("GetOffsetShell", "GetOffsetShell", _VERIFIED, says("^verified:[0-2]:[0-9]+")),
    tool("TopicCommand, describe", "TopicCommand", f"{_VERIFIED} --describe", says("PartitionCount: 3")),
    tool("GroupsCommand, list", "GroupsCommand", f"{_TO} --list", says("^classic ")),
    tool(
        "ConsumerGroupCommand, describe",
        "consumer.group.ConsumerGroupCommand",
        f"{_TO} --describe --group classic",
        says("^classic +verified "),
    ),
    tool(
        "ConsumerGroupCommand, reset",
        "consumer.group.ConsumerGroupCommand",
        f"{_VERIFIED} --group classic --reset-offsets --to-earliest --execute",
        says("^classic +verified "),
    ),
    tool(
        "ShareGroupCommand, describe",
        "consumer.group.ShareGroupCommand",
        f"{_TO} --describe --group share",
        says("^share +verified "),
    ),
    tool(
        "ConfigCommand, alter",
        "ConfigCommand",
        f"{_CONFIGS} --alter --add-config retention.ms=1000000",
        says("Completed"),
    ),
    tool("ConfigCommand, describe", "ConfigCommand", f"{_CONFIGS} --describe", says("retention.ms=1000000")),
    tool("LogDirsCommand", "LogDirsCommand", f"{_TO} --describe --topic-list verified", says('"partition"')),
    tool("TransactionsCommand, list", "TransactionsCommand", f"{_TO} list", says("Complete(Commit|Abort)")),
    tool(
        "TransactionsCommand, describe-producers",
        "TransactionsCommand",
        f"{_TO} describe-producers --topic performed --partition 0",
        says("^[0-9]+ .*None"),
    ),
    tool("FeatureCommand, describe", "FeatureCommand", f"{_TO} describe", says("Feature:")),
    tool("MetadataQuorumCommand", "MetadataQuorumCommand", f"{_TO} describe --status", says("LeaderId")),
    tool("ClusterTool, cluster-id", "ClusterTool", f"cluster-id {_TO}", says("Cluster ID")),
    tool(
        "DeleteRecordsCommand",
        "DeleteRecordsCommand",
        f"{_TO} --offset-json-file {{deletions}}",
        says("low_watermark: 10$"),
    ),
    tool(
        "ConsoleConsumer",
        "consumer.ConsoleConsumer",
        f"{_VERIFIED} --from-beginning --max-messages 100",
        says("Processed a total of 100 messages"),
    ),
    tool(
        "ConsoleShareConsumer",
        "consumer.ConsoleShareConsumer",
        f"{_VERIFIED} --group share-console --max-messages 100 --timeout-ms 15000",
        says("Processed a total of 100 messages"),
    ),
    tool("TopicCommand, delete", "TopicCommand", f"{_VERIFIED} --delete", is_silent),
)
"""In their order: later ones read what earlier ones have written."""

SUITE: Final = Suite(
    "javatools",
    f"tools of Apache Kafka {VERSION}",
    lambda: prepare("peer"),
    lambda libs, broker, logs: run_checks(CHECKS, libs, broker, logs),
)
