"""A Kafka broker's own file starts every service, and says in each what has no effect there."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from barnabas.cores import running
from barnabas.runtime.configuration.config import Loaded, load_config
from barnabas_controller.shell.config import ControllerConfig
from barnabas_gateway.shell.config import GatewayProperties
from barnabas_logstore.shell.config import LogstoreSettings
from barnabas_purgatory.shell.config import PurgatoryConfig

# What Kafka 4.3 brings along, without its comments.
SERVER_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""
KEYS = {line.partition("=")[0] for line in SERVER_PROPERTIES.split()}
ZOOKEEPER_AGE = """
broker.id=0
zookeeper.connect=localhost:2181
log.dirs=logs
inter.broker.protocol.version=3.9
listener.name.internal.ssl.keystore.location=/x
"""


def load(
    struct_type: type[msgspec.Struct], tmp_path: Path, text: str = SERVER_PROPERTIES, *argv: str
) -> Loaded[msgspec.Struct]:
    path = tmp_path / "server.properties"
    path.write_text(text)
    return load_config(
        struct_type, ["--config", str(path), "--set", "etcd.endpoints=localhost:2379", *argv], program="barnabas"
    )


@pytest.mark.parametrize("struct_type", [LogstoreSettings, GatewayProperties, PurgatoryConfig, ControllerConfig])
def test_every_key_is_taken_or_named(struct_type: type[msgspec.Struct], tmp_path: Path) -> None:
    loaded = load(struct_type, tmp_path)
    taken = {key for key, setting in loaded.settings.items() if setting.is_given}
    named = {notice.key for notice in loaded.notices}
    # These came from elsewhere, or follow from node.id and listeners.
    assert (taken | named) - {"etcd.endpoints", "broker.id", "control.listeners"} == KEYS
    with capture_logs() as lines:
        loaded.log_start()
    assert (lines[0]["event"], lines[0]["cores"]) == ("starting", running())
    assert [line["key"] for line in lines[1:]] == [notice.key for notice in loaded.notices]
    assert {line["log_level"] for line in lines[1:]} == {"warning"}


def test_a_logstore_takes_what_is_about_logs(tmp_path: Path) -> None:
    loaded = load(LogstoreSettings, tmp_path)
    config = loaded.config
    assert isinstance(config, LogstoreSettings)
    assert (config.node_id, config.log_dirs, config.listeners) == (1, ["/tmp/kraft-combined-logs"], "127.0.0.1:9300")
    reasons = {notice.key: notice.reason for notice in loaded.notices}
    assert reasons["num.network.threads"] == "it is a key of the gateway"
    assert reasons["num.partitions"] == "it is a key of the controller and the gateway"
    assert reasons["listeners"] == (
        "PLAINTEXT://:9092,CONTROLLER://:9093 is for a gateway; this service needs one host:port"
    )
    assert reasons["process.roles"] == (
        "cluster state is in etcd, see etcd.endpoints; controllers are separate processes"
    )


def test_a_gateway_takes_the_listeners_but_for_krafts(tmp_path: Path) -> None:
    loaded = load(GatewayProperties, tmp_path)
    config = loaded.config
    assert isinstance(config, GatewayProperties)
    assert config.listeners == ["PLAINTEXT://:9092"]
    assert config.advertised_listeners == ["PLAINTEXT://localhost:9092"]
    reasons = {notice.key: notice.reason for notice in loaded.notices}
    assert reasons["listeners"] == "CONTROLLER://:9093: there is no KRaft controller to listen for"
    assert reasons["node.id"] == "it is a key of the logstore"


def test_what_zookeeper_needed_is_named_with_what_to_use_instead(tmp_path: Path) -> None:
    loaded = load(LogstoreSettings, tmp_path, ZOOKEEPER_AGE)
    assert isinstance(loaded.config, LogstoreSettings)
    assert (loaded.config.node_id, loaded.config.log_dirs) == (0, [str(Path.cwd() / "logs")])
    assert {notice.key: notice.reason for notice in loaded.notices} == {
        "zookeeper.connect": "Kafka 4 has no ZooKeeper; cluster state is in etcd, see etcd.endpoints",
        "inter.broker.protocol.version": (
            "Kafka 4 removed it: versions are negotiated, and batches are stored as they are sent"
        ),
        "listener.name.internal.ssl.keystore.location": "listeners with names are the gateway's",
    }


def test_an_unknown_key_is_a_slip(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        load(GatewayProperties, tmp_path, "num.netwrok.threads=3")
    assert "unknown key num.netwrok.threads" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        load(GatewayProperties, tmp_path, "", "--set", "num.io.threads=3")
    assert "unknown key num.io.threads (--set): it is a key of the logstore" in capsys.readouterr().err


def test_a_setting_knows_whether_it_was_given(tmp_path: Path) -> None:
    settings = load(LogstoreSettings, tmp_path, "node.id=1\nlog.dirs=/a\nlog.cleanup.policy=\n").settings
    assert (settings["log.dirs"].value, settings["log.dirs"].default, settings["log.dirs"].is_given) == (
        "/a",
        None,
        True,
    )
    assert (settings["log.cleanup.policy"].value, settings["log.cleanup.policy"].default) == ("", "delete")
    assert (settings["log.retention.ms"].value, settings["log.retention.ms"].is_given) == (None, False)
    assert (settings["log.preallocate"].value, settings["broker.rack"].value) == ("false", None)
