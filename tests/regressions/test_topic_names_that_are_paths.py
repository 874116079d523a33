"""A name that is no topic's, from a controller, from etcd or from a backup, becomes no path of a logstore.

A log's directory is named after its topic. A stolen key of a controller could have any directory that ends in a number
opened, filled and deleted as a log; and one name with a slash in etcd took the log directories of its replicas offline.
"""

from __future__ import annotations

import pytest

from barnabas.cluster.backup import Backup, BackupEntry, BackupHeader
from barnabas.cluster.keys import Keys, TopicRecord, encode_record
from barnabas.cluster.messages import LeaderAndIsr
from barnabas.cluster.recovery.remembered import remember
from barnabas.ports.etcd import KeyValue, WatchBatch, WatchEvent
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.state.image import ControllerImage
from tests.unit.logstore.service.support import EXCHANGE, Host, topic

KEYS = Keys()
TOPIC_ID = bytes(range(16))
PATHS = ["../elsewhere", "..", "a/b", "/etc", "a\nb", "a b", "", "x" * 250, "a\0"]


@pytest.fixture
def host() -> Host:
    host = Host()
    host.greet(EXCHANGE)
    return host


@pytest.mark.parametrize("name", PATHS)
def test_a_logstore_makes_no_log_of_it_and_serves_the_others(host: Host, name: str) -> None:
    host.disk.make_directory("/elsewhere-0")
    response = host.control(LeaderAndIsr(False, [topic(name=name, topic_id=TOPIC_ID), topic()]))
    assert [(each.topic_id, each.error_code) for each in response.partition_errors] == [
        (TOPIC_ID, ErrorCode.INVALID_TOPIC_EXCEPTION)
    ]
    assert [entry.name for entry in host.disk.list("/data0") if entry.is_directory] == ["orders-0"]
    assert host.disk.list("/elsewhere-0") == []
    assert host.append(leader_epoch=0).error_code == ErrorCode.NONE


@pytest.mark.parametrize("name", PATHS)
def test_a_controller_knows_no_such_topic(name: str) -> None:
    key, value = KEYS.topic(name), encode_record(TopicRecord(name, TOPIC_ID, 1, 1, {}))
    image = ControllerImage(KEYS)
    image.apply(WatchBatch(1, (WatchEvent(KeyValue(key, value, 1, 1)),)))
    assert list(image.unreadable) == [key]
    assert not image.topics


@pytest.mark.parametrize("name", PATHS)
def test_a_backup_restores_no_such_topic(name: str) -> None:
    value = encode_record(TopicRecord(name, TOPIC_ID, 1, 1, {}))
    entry = BackupEntry(KEYS.topic(name).removeprefix(KEYS.prefix), value)
    found = remember(Backup(BackupHeader("c", KEYS.prefix, 1, 1, "0", 1), (entry,)), KEYS)
    assert found.topics == {}
    assert len(found.problems) == 1
