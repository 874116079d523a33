"""The logstore's configuration, its directories at the start, and decompression."""

from __future__ import annotations

import threading
import uuid
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from barnabas.cluster.topic_config import TopicConfig
from barnabas.runtime.configuration.config import ConfigError, build_config
from barnabas_logstore.core.storage.directories.log_copy import MOVED_FROM, Origin
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.shell.config import LogstoreSettings
from barnabas_logstore.shell.log_dirs import DirectoryLocks, LoadedDirectories, StartRefused, load_directories
from barnabas_logstore.shell.posix_disk import PosixDisk

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
NEEDED = {"node.id": "3", "log.dirs": "/data", "etcd.endpoints": "127.0.0.1:2379"}


def settings(**keys: str) -> LogstoreSettings:
    values = NEEDED | {name.replace("_", "."): value for name, value in keys.items()}
    return build_config(LogstoreSettings, {key: (value, "--set") for key, value in values.items()})


# --- configuration ---


def test_defaults_are_kafkas() -> None:
    config = settings()
    assert (config.num_io_threads, config.queued_max_requests) == (8, 500)
    defaults = TopicConfig.from_overrides(config.topic_defaults())
    assert defaults == TopicConfig()


def test_the_control_listener_is_next_to_the_data_listener_by_default() -> None:
    assert settings(listeners="10.0.0.1:9300").control_listeners == "10.0.0.1:9301"
    assert settings(listeners="127.0.0.1:0").control_listeners == "127.0.0.1:0"
    assert settings(control_listeners="10.0.0.1:7").control_listeners == "10.0.0.1:7"


def test_others_get_the_advertised_host_for_both_listeners() -> None:
    reported = settings(listeners="0.0.0.0:9300", advertised_listeners="logstore-3.logstores:9300")
    assert reported.data_address(9300) == "logstore-3.logstores:9300"
    assert reported.control_address(9301) == "logstore-3.logstores:9301"
    assert settings(listeners="10.0.0.1:0").data_address(4711) == "10.0.0.1:4711"


def test_topics_get_the_logstores_settings_by_their_own_names() -> None:
    config = settings(log_segment_bytes="2097152", log_roll_ms="1000", message_max_bytes="99", min_insync_replicas="2")
    defaults = TopicConfig.from_overrides(config.topic_defaults())
    assert isinstance(defaults, TopicConfig)
    assert (defaults.segment_bytes, defaults.segment_ms) == (2_097_152, 1_000)
    assert (defaults.max_message_bytes, defaults.min_insync_replicas) == (99, 2)


@pytest.mark.parametrize(
    ("keys", "retention_ms"),
    [
        ({}, 7 * 24 * 3_600_000),
        ({"log_retention_hours": "2"}, 7_200_000),
        ({"log_retention_hours": "2", "log_retention_minutes": "3"}, 180_000),
        ({"log_retention_hours": "2", "log_retention_minutes": "3", "log_retention_ms": "4"}, 4),
        ({"log_retention_hours": "-1"}, -1),
        ({"log_retention_ms": "-1"}, -1),
    ],
)
def test_the_finest_unit_of_retention_counts(keys: dict[str, str], retention_ms: int) -> None:
    assert settings(**keys).topic_defaults()["retention.ms"] == str(retention_ms)


def test_rolls_and_flushes_have_coarser_keys_too() -> None:
    coarse = settings(log_roll_hours="1", log_roll_jitter_hours="2", log_flush_scheduler_interval_ms="5")
    defaults = coarse.topic_defaults()
    assert [defaults[name] for name in ("segment.ms", "segment.jitter.ms", "flush.ms")] == ["3600000", "7200000", "5"]


def test_log_dir_is_taken_where_log_dirs_is_not_set() -> None:
    assert settings(log_dirs="", log_dir="/a, /b").log_dirs == ["/a", "/b"]
    assert settings(log_dirs="/c", log_dir="/a").log_dirs == ["/c"]


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"log_dirs": ""}, "log.dirs is not set"),
        ({"log_cleanup_policy": "shred"}, "Invalid value shred for configuration cleanup.policy"),
        ({"listeners": "9300"}, "listeners=9300: expected host:port"),
        ({"control_listeners": "x:y"}, "control.listeners=x:y: expected host:port"),
        ({"listeners": "0.0.0.0:9300"}, "advertised.listeners is needed"),
        ({"etcd_prefix": "/barnabas"}, "must end with /"),
        ({"log_dirs": "/a,/a"}, "a path is listed twice"),
        ({"node_id": "-1"}, "node.id=-1"),
        ({"num_io_threads": "0"}, "num.io.threads=0"),
        ({"log_segment_bytes": "10"}, "log.segment.bytes=10"),
    ],
)
def test_a_wrong_value_is_named(keys: dict[str, str], line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        settings(**keys)


# --- directories ---


def load(
    *paths: Path,
    node_id: int = 3,
    cluster_id: str = CLUSTER_ID,
    kernel_boot_id: str = "boot-1",
    stopping: bool = False,
) -> LoadedDirectories:
    asked_to_stop = threading.Event()
    if stopping:
        asked_to_stop.set()
    names = [str(path) for path in paths]
    return load_directories(
        PosixDisk(), names, cluster_id, node_id, kernel_boot_id, TopicConfig(), asked_to_stop, threads=2, failed={}
    )


def make_partition(path: Path, topic: str = "orders") -> None:
    directory = LogDirectory.open(
        PosixDisk(),
        str(path),
        cluster_id=CLUSTER_ID,
        node_id=3,
        kernel_boot_id="boot-1",
        new_directory_id=uuid.uuid4().bytes,
        unique_name=lambda: uuid.uuid4().hex,
    )
    assert isinstance(directory, LogDirectory)
    directory.create((topic, 0), bytes(16), TopicConfig())


def test_a_directory_in_use_is_refused_until_its_process_ends(tmp_path: Path) -> None:
    path = f"{tmp_path}/new/logs"
    locks = DirectoryLocks([path])
    with pytest.raises(StartRefused, match="another process is using it"):
        DirectoryLocks([path])
    locks.close()
    DirectoryLocks([path]).close()


def test_a_path_that_cannot_be_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StartRefused, match=r"File exists|Not a directory"):
        DirectoryLocks([f"{tmp_path}/file"])


def test_partitions_are_found_and_the_directory_keeps_its_id(tmp_path: Path) -> None:
    make_partition(tmp_path)
    first, second = load(tmp_path), load(tmp_path)
    assert [each.topic_partition for each in first.partitions] == [("orders", 0)]
    assert first.directory_id == second.directory_id
    assert load(tmp_path, tmp_path / "other").directory_id != first.directory_id


@pytest.mark.parametrize(
    ("node_id", "cluster_id", "line"),
    [(4, CLUSTER_ID, "belongs to node 3, not to node 4"), (3, "b3RoZXIgb3RoZXIgb3RoZQ", "belongs to cluster MkU3")],
)
def test_the_directory_of_another_is_refused(tmp_path: Path, node_id: int, cluster_id: str, line: str) -> None:
    load(tmp_path)
    with pytest.raises(StartRefused, match=line):
        load(tmp_path, node_id=node_id, cluster_id=cluster_id)


def test_a_partition_without_its_topic_id_is_set_aside(tmp_path: Path) -> None:
    make_partition(tmp_path)
    (tmp_path / "orders-0" / "partition.metadata").unlink()
    assert load(tmp_path).partitions == []
    (stray,) = [path.name for path in tmp_path.iterdir() if path.is_dir()]
    assert stray.endswith("-stray")


def test_an_operator_is_warned_when_the_machine_may_have_lost_acknowledged_records(tmp_path: Path) -> None:
    make_partition(tmp_path)
    (directory,) = load(tmp_path).directories
    execute(PosixDisk(), directory.boot.trust())
    with capture_logs() as after_a_crash_of_the_process:
        load(tmp_path)
    with capture_logs() as after_one_of_the_machine:
        load(tmp_path, kernel_boot_id="boot-2")
    assert [line["event"] for line in after_a_crash_of_the_process if line["log_level"] == "warning"] == []
    assert [line["event"] for line in after_one_of_the_machine if line["log_level"] == "warning"] == [
        "the machine stopped, a flush failed, or a log is damaged: the last records may be lost"
    ]


def test_a_partition_in_two_directories_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        make_partition(tmp_path / name)
    with pytest.raises(StartRefused, match=f"{tmp_path}/b/orders-0 and {tmp_path}/a/orders-0 are the same partition"):
        load(tmp_path / "a", tmp_path / "b")


def test_loading_ends_when_the_process_is_stopped(tmp_path: Path) -> None:
    make_partition(tmp_path)
    with pytest.raises(StartRefused, match="stopped while the logs"):
        load(tmp_path, stopping=True)


def test_paths_may_be_relative_and_broker_id_is_node_id() -> None:
    config = settings(log_dirs="data,/b", node_id="3")
    assert config.log_dirs == [str(Path.cwd() / "data"), "/b"]
    assert config.broker_id == 3
    only_broker_id = build_config(
        LogstoreSettings,
        {key: (value, "") for key, value in (("etcd.endpoints", "a:1"), ("log.dir", "/a"), ("broker.id", "7"))},
    )
    assert (only_broker_id.node_id, only_broker_id.log_dirs) == (7, ["/a"])


def test_a_partition_that_a_crash_left_in_two_directories_is_the_one_that_was_moved(tmp_path: Path) -> None:
    for name in ("a", "b"):
        make_partition(tmp_path / name)
    (tmp_path / "b" / "orders-0" / MOVED_FROM).write_bytes(Origin(("orders", 0), f"{tmp_path}/a").format())
    (moved,) = load(tmp_path / "a", tmp_path / "b").partitions
    assert moved.opened.log.directory == f"{tmp_path}/b/orders-0"
    assert not (tmp_path / "a" / "orders-0").exists()
    load(tmp_path / "a", tmp_path / "b")
    assert not (tmp_path / "b" / "orders-0" / MOVED_FROM).exists()


def test_a_directory_whose_disk_fails_is_offline_from_the_start_and_the_others_are_served(tmp_path: Path) -> None:
    make_partition(tmp_path / "a")
    make_partition(tmp_path / "b", "payments")
    (tmp_path / "a" / "orders-0" / "leader-epoch-checkpoint").mkdir()
    loaded = load(tmp_path / "a", tmp_path / "b")
    assert [each.topic_partition for each in loaded.partitions] == [("payments", 0)]
    assert [directory.error is None for directory in loaded.directories] == [False, True]
    with pytest.raises(StartRefused, match=f"log.dirs={tmp_path}/a: "):
        load(tmp_path / "a")


def test_partitions_are_opened_by_several_threads_and_reported_in_order(tmp_path: Path) -> None:
    for number in range(12):
        make_partition(tmp_path, f"topic-{number:02d}")
    topics = [each.topic_partition[0] for each in load(tmp_path).partitions]
    assert topics == [f"topic-{number:02d}" for number in range(12)]
