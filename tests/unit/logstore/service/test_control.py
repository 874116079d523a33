"""Commands of the controller: fencing, staleness, creation, strays, deletion."""

from __future__ import annotations

import pytest

from barnabas.cluster.messages import (
    Broker,
    ControlRequest,
    LeaderAndIsr,
    StopReplica,
    UnknownPartitions,
    UpdateMetadata,
)
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.storage.effects import DeleteDirectoryEffect, FlushEffect
from tests.sim.disk_model import Fault
from tests.unit.logstore.service.support import (
    BROKER_EPOCH,
    CONTROLLER_EPOCH,
    EXCHANGE,
    READ,
    TOPIC_ID,
    WATCH,
    Host,
    append_results,
    fetch,
    offsets,
    topic,
)

OTHER_TOPIC_ID = bytes(16)


@pytest.fixture
def host() -> Host:
    host = Host()
    host.greet(EXCHANGE, READ, WATCH)
    return host


def names(host: Host) -> list[str]:
    """The directories of partitions."""
    return [entry.name for entry in host.disk.list("/data0") if entry.is_directory]


def full_update(revision: int = 1) -> UpdateMetadata:
    return UpdateMetadata(revision, True, "", CONTROLLER_EPOCH, [], [], [])


# --- fencing ---


def test_an_older_controller_is_refused_as_a_whole(host: Host) -> None:
    host.lead(topic())
    response = host.control(LeaderAndIsr(False, [topic(9, 9)]), controller_epoch=CONTROLLER_EPOCH - 1)
    assert (response.error_code, response.partition_errors) == (ErrorCode.STALE_CONTROLLER_EPOCH, [])
    assert host.append(leader_epoch=0).error_code == ErrorCode.NONE


def test_a_newer_controller_fences_the_older_one_even_where_it_means_another_registration(host: Host) -> None:
    response = host.control(LeaderAndIsr(False, []), controller_epoch=CONTROLLER_EPOCH + 1, broker_epoch=1)
    assert response.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert host.lead(topic()).error_code == ErrorCode.STALE_CONTROLLER_EPOCH


@pytest.mark.parametrize("broker_epoch", [BROKER_EPOCH - 1, BROKER_EPOCH + 1])
def test_a_command_for_another_registration_is_refused_as_a_whole(host: Host, broker_epoch: int) -> None:
    response = host.control(LeaderAndIsr(True, [topic()]), broker_epoch=broker_epoch)
    assert (response.error_code, names(host)) == (ErrorCode.STALE_BROKER_EPOCH, [])


def test_a_command_without_a_body_is_refused(host: Host) -> None:
    host.core.on_control(7, ControlRequest(1, CONTROLLER_EPOCH, BROKER_EPOCH))
    ((_, response),) = host.turn().controls
    assert response.error_code == ErrorCode.INVALID_REQUEST


# --- staleness ---


@pytest.mark.parametrize(
    ("leader_epoch", "partition_epoch", "error"),
    [
        (2, 9, ErrorCode.STALE_CONTROLLER_EPOCH),
        (3, 4, ErrorCode.STALE_CONTROLLER_EPOCH),
        (3, 5, None),
        (3, 6, None),
        (4, 0, None),
    ],
)
def test_a_state_is_stale_unless_its_leader_and_partition_epochs_are_newer(
    host: Host, leader_epoch: int, partition_epoch: int, error: ErrorCode | None
) -> None:
    host.lead(topic(3, 5))
    response = host.lead(topic(leader_epoch, partition_epoch))
    assert [each.error_code for each in response.partition_errors] == ([] if error is None else [error])
    state = host.query_state().state
    assert state is not None
    assert (state.leading, state.leader_epoch) == (True, max(3, leader_epoch) if error is None else 3)


def test_a_state_repeated_changes_nothing(host: Host) -> None:
    host.lead(topic(3, 5))
    host.holds_effects = True
    host.send(host.append_request(leader_epoch=3))
    host.turn()
    host.core.on_control(7, host.command(LeaderAndIsr(False, [topic(3, 5)])))
    assert append_results(host.turn()) == []
    host.run_effects()
    assert append_results(host.turn())[0].error_code == ErrorCode.NONE


def test_an_epoch_older_than_the_logs_own_is_stale_after_a_restart(host: Host) -> None:
    host.lead(topic(4, 0))
    host.append(leader_epoch=4)
    revived = Host(host.disk)
    response = revived.lead(topic(3, 0))
    assert [each.error_code for each in response.partition_errors] == [ErrorCode.STALE_CONTROLLER_EPOCH]


def test_a_restarted_replica_leads_again_under_a_new_epoch_with_all_its_records(host: Host) -> None:
    host.lead(topic(4, 0))
    host.append(leader_epoch=4)
    revived = Host(host.disk)
    revived.greet(EXCHANGE, READ)
    assert revived.read().partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    revived.lead(topic(5, 0))
    revived.append(leader_epoch=5)
    (result,) = revived.read().partitions
    assert (result.high_watermark, offsets(result.records)) == (2, [0, 1])


# --- creation ---


def test_a_new_partition_gets_a_directory_with_its_topic_id(host: Host) -> None:
    assert host.lead(topic(partitions=2)).partition_errors == []
    assert names(host) == ["orders-0", "orders-1"]
    content = host.disk.read_file("/data0/orders-1/partition.metadata")
    assert content == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"


def test_partitions_spread_over_the_directories() -> None:
    host = Host(directories=2)
    host.lead(topic(partitions=4))
    assert [[entry.name for entry in host.disk.list(path) if entry.is_directory] for path in ("/data0", "/data1")] == [
        ["orders-0", "orders-2"],
        ["orders-1", "orders-3"],
    ]


def test_a_disk_that_fails_while_a_partition_is_made_says_so_for_that_partition(host: Host) -> None:
    host.disk.faults.append(Fault("make_directory", "orders-1"))
    response = host.lead(topic(partitions=2))
    assert [(each.partition, each.error_code) for each in response.partition_errors] == [
        (1, ErrorCode.KAFKA_STORAGE_ERROR)
    ]
    assert host.core.all_directories_offline


def test_a_topic_with_unknown_settings_is_refused(host: Host) -> None:
    response = host.lead(topic(configs={"retention.ms": "soon"}))
    assert [each.error_code for each in response.partition_errors] == [ErrorCode.INVALID_CONFIG]


# --- settings ---


def test_settings_change_with_leader_and_isr_and_with_metadata(host: Host) -> None:
    host.lead(topic(0, 0))
    assert host.append().error_code == ErrorCode.NONE
    host.lead(topic(0, 0, configs={"max.message.bytes": "10"}))
    assert host.append().error_code == ErrorCode.MESSAGE_TOO_LARGE
    host.control(UpdateMetadata(2, False, "", CONTROLLER_EPOCH, [], [], [topic(configs={"max.message.bytes": "1000"})]))
    assert host.append().error_code == ErrorCode.NONE


def test_stale_metadata_changes_nothing(host: Host) -> None:
    host.lead(topic())
    host.control(UpdateMetadata(7, False, "", CONTROLLER_EPOCH, [Broker(1, "a:1", 4)], [], []))
    host.control(UpdateMetadata(6, False, "", CONTROLLER_EPOCH, [], [], [topic(configs={"max.message.bytes": "10"})]))
    assert host.append().error_code == ErrorCode.NONE


# --- strays and recreated topics ---


def test_a_recreated_topic_is_inconsistent_while_the_old_one_is_here(host: Host) -> None:
    host.lead(topic())
    response = host.lead(topic(topic_id=OTHER_TOPIC_ID))
    assert [each.error_code for each in response.partition_errors] == [ErrorCode.INCONSISTENT_TOPIC_ID]


def test_a_full_command_moves_the_old_topic_aside_for_the_recreated_one(host: Host) -> None:
    host.lead(topic())
    host.append()
    assert host.lead(topic(topic_id=OTHER_TOPIC_ID), full=True).partition_errors == []
    old, new = names(host)
    assert new.startswith("orders-0.")
    assert (old, new.endswith("-stray")) == ("orders-0", True)
    assert host.query_state().error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_what_a_full_command_does_not_name_is_stopped_and_set_aside_once_the_controller_has_sent_everything(
    host: Host,
) -> None:
    host.lead(topic())
    host.append()
    host.lead(topic(name="other", topic_id=OTHER_TOPIC_ID), full=True)
    assert host.append().error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert names(host) == ["orders-0", "other-0"]
    host.control(full_update())
    assert [name.endswith("-stray") for name in names(host)] == [True, False]
    assert host.append().error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_what_the_controller_wants_deleted_is_no_stray_though_a_full_command_does_not_name_it(host: Host) -> None:
    host.lead(topic())
    host.lead(topic(name="other", topic_id=OTHER_TOPIC_ID), full=True)
    assert host.stop_replica(delete=True).partition_errors == []
    host.control(full_update())
    assert [name.rpartition("-")[2] for name in names(host)] == ["delete", "0"]


def test_a_stray_that_is_named_again_is_none(host: Host) -> None:
    host.lead(topic(3, 5))
    host.append(leader_epoch=3)
    host.lead(topic(name="other", topic_id=OTHER_TOPIC_ID), full=True)
    host.lead(topic(3, 5))
    host.control(full_update())
    assert host.append(leader_epoch=3).base_offset == 1


@pytest.mark.parametrize(
    "unknown",
    [
        LeaderAndIsr(True, [], unknown_partitions=[UnknownPartitions(TOPIC_ID, 0, 500)]),
        LeaderAndIsr(True, [], unknown_topics=["orders"]),
    ],
    ids=["its chunk", "its topic"],
)
def test_what_the_controller_cannot_read_is_no_stray_and_goes_on_with_its_log(
    host: Host, unknown: LeaderAndIsr
) -> None:
    host.lead(topic(3, 5))
    host.append(leader_epoch=3)
    host.control(unknown)
    host.control(full_update())
    assert names(host) == ["orders-0"]
    assert host.append(leader_epoch=3).base_offset == 1
    host.lead(topic(3, 5), full=True)
    assert host.append(leader_epoch=3).base_offset == 2


def test_another_partition_that_is_unknown_keeps_no_stray(host: Host) -> None:
    host.lead(topic(name="other", topic_id=OTHER_TOPIC_ID), topic())
    host.control(LeaderAndIsr(True, [], unknown_partitions=[UnknownPartitions(TOPIC_ID, 0, 500)]))
    host.control(full_update())
    assert [name.endswith("-stray") for name in names(host)] == [False, True]


def test_records_that_may_be_lacking_are_not_forgotten_while_the_controller_cannot_read_all(host: Host) -> None:
    """Rule 15: no election has taken this logstore out of the ISR of what is unknown."""
    (directory,) = host.log_directories
    assert directory.boot.may_lack_records
    host.control(LeaderAndIsr(True, [topic()], unknown_topics=["payments"]))
    host.lead(topic(1, 1))
    assert directory.boot.may_lack_records
    host.lead(topic(1, 1), full=True)
    assert not directory.boot.may_lack_records


# --- stop and delete ---


def test_a_stopped_replica_keeps_its_records_and_serves_again_when_started(host: Host) -> None:
    host.lead(topic(2, 3))
    host.append(leader_epoch=2)
    assert host.stop_replica(2, delete=False).partition_errors == []
    assert host.append(leader_epoch=2).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert host.read().partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    host.lead(topic(3, 0))
    assert offsets(host.read().partitions[0].records) == [0]


def test_a_stop_of_an_older_epoch_is_fenced(host: Host) -> None:
    host.lead(topic(2, 0))
    response = host.stop_replica(1)
    assert [each.error_code for each in response.partition_errors] == [ErrorCode.FENCED_LEADER_EPOCH]
    assert host.append(leader_epoch=2).error_code == ErrorCode.NONE


def test_a_deleted_partition_is_gone_at_once_and_its_files_after_the_delay(host: Host) -> None:
    host.lead(topic(configs={"file.delete.delay.ms": "60000"}))
    host.append()
    assert host.stop_replica(-2).partition_errors == []
    assert host.append().error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (name,) = names(host)
    assert name.startswith("orders-0.")
    assert name.endswith("-delete")
    for now_ms, count in ((59_000, 0), (60_000, 1)):
        host.core.tick(now_ms)
        effects = [effect for effect in host.take_effects() if isinstance(effect, DeleteDirectoryEffect)]
        assert len(effects) == count
    host.held += effects
    host.run_effects()
    assert names(host) == []


def test_a_deletion_repeated_is_fine(host: Host) -> None:
    host.lead(topic())
    host.stop_replica()
    response = host.stop_replica()
    assert (response.error_code, response.partition_errors) == (ErrorCode.NONE, [])


def test_a_read_under_way_of_a_deleted_partition_is_answered(host: Host) -> None:
    host.lead(topic())
    host.append()
    host.holds_effects = True
    request = host.read_request(fetch())
    host.turn()
    host.core.on_control(7, host.command(StopReplica([host.stopped()])))
    host.turn()
    assert host.read_results[request].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def recreated(host: Host) -> None:
    """Have the topic deleted and recreated, at once."""
    host.core.on_control(7, host.command(StopReplica([host.stopped()])))
    host.core.on_control(7, host.command(LeaderAndIsr(False, [topic(0, 0, topic_id=OTHER_TOPIC_ID)])))


def test_a_recreated_topic_waits_for_the_flush_of_the_old_one(host: Host) -> None:
    """The old log's flush puts its leader epochs in place by a path that would be the new log's."""
    host.lead(topic(8, 0, configs={"flush.ms": "0"}))
    host.append(leader_epoch=8)
    host.holds_effects = True
    host.core.tick(1_000)
    host.turn()
    (flush,) = [effect for effect in host.held if isinstance(effect, FlushEffect)]
    recreated(host)
    for _ in range(3):
        answered = len(host.turn().controls)
        for effect in [effect for effect in host.held if effect is not flush]:
            host.run_effect(effect)
    assert (answered, host.held) == (0, [flush])
    host.run_effect(flush)
    ((_, response),) = host.turn().controls
    assert response.partition_errors == []
    assert not host.core.all_directories_offline
    assert not host.disk.exists("/data0/orders-0/leader-epoch-checkpoint")


def test_a_recreated_topic_waits_until_the_recovery_point_of_the_old_one_is_forgotten(host: Host) -> None:
    """After a power cut recovery would take the new log's bytes on trust up to there."""
    host.lead(topic(configs={"flush.messages": "1"}))
    host.append()
    host.core.tick(0)
    host.settle()
    path = "/data0/recovery-point-offset-checkpoint"
    assert host.disk.read_file(path) == b"0\n1\norders 0 1\n"
    host.holds_effects = True
    recreated(host)
    assert len(host.turn().controls) == 1
    assert (host.core.has_work, names(host) == ["orders-0"]) == (False, False)
    (checkpoint,) = host.held
    host.run_effect(checkpoint)
    assert host.disk.read_file(path) == b"0\n0\n"
    assert host.core.has_work
    assert len(host.turn().controls) == 1
    assert "orders-0" in names(host)


def test_a_recreated_topic_does_not_wait_for_a_disk_that_has_failed() -> None:
    host = Host(directories=2)
    host.greet(EXCHANGE)
    host.lead(topic())
    host.disk.faults.append(Fault("replace_file", "/data0/"))
    recreated(host)
    answers = [response for out in host.settle() for _, response in out.controls]
    assert [answer.partition_errors for answer in answers] == [[], []]
    assert host.disk.exists("/data1/orders-0/partition.metadata")
