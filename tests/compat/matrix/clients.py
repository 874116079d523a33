"""The clients of the matrix, in the order of its table."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.compat.matrix.toolchains import PEER_LIBS

SECONDS_MAX: Final = 600


@dataclass(slots=True, frozen=True)
class Client:
    name: str
    toolchain: str
    argv: Callable[[Path], list[str]]
    """From the directory of its toolchain; the bootstrap address, replication factor and prefix are added."""
    seconds_max: int = SECONDS_MAX


def _python(module: str) -> Callable[[Path], list[str]]:
    return lambda _: [sys.executable, "-W", "ignore", "-m", f"tests.compat.matrix.python.{module}"]


def _node(file: str) -> Callable[[Path], list[str]]:
    return lambda directory: ["node", str(directory / file)]


def _binary(path: str) -> Callable[[Path], list[str]]:
    return lambda directory: [str(directory / path)]


def _older_java(main_class: str, *before: str) -> Callable[[Path], list[str]]:
    """With the jars and classes of an older version; `before` begins the command."""
    return lambda directory: [
        *before,
        *("java", "-Xmx256M", "-XX:+UseSerialGC"),
        *("-cp", f"{directory}/classes:{directory}/older/libs/*", main_class),
    ]


def _java(main_class: str) -> Callable[[Path], list[str]]:
    def argv(directory: Path) -> list[str]:
        classpath = f"{directory}/classes:{directory}/libs/*:{PEER_LIBS}/*"
        settings = f"-Dlog4j2.configurationFile={directory}/log4j2.xml"
        return ["java", "-Xmx384M", "-XX:+UseSerialGC", settings, "-cp", classpath, main_class]

    return argv


# Java 0.10.2 has no client for administration.
_TOPICS: Final = ("topic", "shared", "timed", "produce", "acks-0", "acks-1", "gzip", "snappy", "lz4")
_WITH_TOPICS: Final = (*_python("with_topics")(Path()), ",".join(_TOPICS))

CLIENTS: Final = (
    Client("kcat", "kcat", _python("kcat")),
    Client("confluent-kafka", "python", _python("confluent")),
    Client("kafka-python", "python", _python("kafka_python")),
    Client("kafka-python's own tests", "kafka-python-suite", _python("kafka_python_suite"), 900),
    Client("aiokafka", "python", _python("aiokafka_client")),
    Client("kafkajs", "node", _node("kafkajs.mjs")),
    Client("@platformatic/kafka", "node", _node("platformatic.mjs")),
    Client("node-rdkafka", "node-rdkafka", _node("rdkafka/rdkafka.mjs")),
    Client("sarama", "go", _binary("bin/sarama")),
    Client("sarama 1.43", "go-older", _binary("bin/sarama")),
    Client("kafka-go", "go", _binary("bin/kafka-go")),
    Client("franz-go", "go", _binary("bin/franz-go")),
    Client("rdkafka for Rust", "rust", _binary("target/debug/rdkafka-checks")),
    Client("rskafka", "rskafka", _binary("target/debug/rskafka-checks")),
    Client("Java clients", "java", _java("JavaClients"), 1200),
    Client("Java clients 3.9", "java-3.9", _older_java("JavaClients"), 1200),
    Client("Java clients 2.1", "java-2.1", _older_java("Clients21"), 1200),
    Client("Java clients 0.10.2", "java-0.10.2", _older_java("Clients0102", *_WITH_TOPICS), 1200),
    Client("VerifiableProducer, VerifiableConsumer", "java", _java("VerifiableClients"), 1200),
    Client("Kafka Streams", "java", _java("WordCount"), 1200),
    Client("Kafka Connect", "java", _java("ConnectFiles"), 1200),
)
