from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path

import confluent_kafka.admin

from bench.apache_kafka import LIBS, ApacheKafka
from tests.integration.reserved_ports import free_port
from tests.unit.wire.recorded import FRAMES_FILE
from tests.unit.wire.recorded.python_clients import aiokafka_client, authenticate, kafka_python, kcat, librdkafka
from tests.unit.wire.recorded.tee import Tee

BROKER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required"
    ' user_someone="secret";',
    "delegation.token.secret.key": "secret",
    # So that what lists all partitions stays small.
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}


def java(*bootstraps: str) -> None:
    program = Path(__file__).parent / "JavaClients.java"
    subprocess.run(["java", "-cp", f"{LIBS}/*", program, *bootstraps], check=True, timeout=300)


def wait_until_it_answers(bootstrap: str) -> None:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    deadline = time.monotonic() + 60
    while True:
        try:
            admin.list_topics(timeout=2)
            return
        except confluent_kafka.KafkaException:
            assert time.monotonic() < deadline, "the broker does not answer"


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        port, sasl_port, controller_port = (free_port() for _ in range(3))
        tee, sasl_tee = Tee(port), Tee(sasl_port)
        bootstrap, sasl_bootstrap = f"127.0.0.1:{tee.port}", f"127.0.0.1:{sasl_tee.port}"
        broker = ApacheKafka(Path(directory), port, controller_port, "512m", BROKER)
        broker.settings["listeners"] += f",SASL://127.0.0.1:{sasl_port}"
        broker.settings["advertised.listeners"] = f"PLAINTEXT://{bootstrap},SASL://{sasl_bootstrap}"
        broker.start()
        try:
            wait_until_it_answers(bootstrap)
            for name, client in (
                ("librdkafka", librdkafka),
                ("kafka-python", kafka_python),
                ("aiokafka", aiokafka_client),
                ("kcat", kcat),
            ):
                print(name, flush=True)
                with tee.named(name), sasl_tee.named(name):
                    client(bootstrap)
                    authenticate(name, sasl_bootstrap)
            with tee.named("java"), sasl_tee.named("java"):
                java(bootstrap, sasl_bootstrap)
        finally:
            broker.stop()
    kept = sasl_tee.kept | tee.kept
    FRAMES_FILE.write_text("".join(exchange.line() for _, exchange in sorted(kept.items())))


main()
