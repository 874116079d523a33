"""Commands of the controller for many partitions: carried out over several steps, and answered after the last."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from barnabas.cluster.messages import (
    LeaderAndIsr,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadata,
)
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.control.control_inbox import (
    LOGS_MADE_PER_STEP,
    REPLICAS_STOPPED_PER_STEP,
    STATES_LEARNED_PER_STEP,
)
from barnabas_logstore.core.storage.directories.log_directory import DELETIONS_PER_TICK
from barnabas_logstore.core.storage.effects import DeleteDirectoryEffect, FileReplacement, ReplaceEffect
from tests.unit.logstore.service.support import (
    CONTROLLER_EPOCH,
    EXCHANGE,
    READ,
    WATCH,
    Host,
    append_results,
    states,
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


def lead_two_topics(host: Host, partitions: int, **fields: Any) -> None:
    """ "orders" of one partition, and "many" of `partitions`."""
    host.lead(topic(), topic(name="many", topic_id=OTHER_TOPIC_ID, partitions=partitions, **fields))


def stop_many(partitions: int) -> StopReplica:
    """A deletion of `partitions` of the topic "many"."""
    return StopReplica([StopReplicaPartition("many", OTHER_TOPIC_ID, number, -2, True) for number in range(partitions)])


def test_many_new_partitions_are_made_over_several_steps_with_data_between(host: Host) -> None:
    host.lead(topic())
    many = LeaderAndIsr(False, [topic(name="many", topic_id=OTHER_TOPIC_ID, partitions=3 * LOGS_MADE_PER_STEP)])
    host.core.on_control(7, host.command(many))
    after = host.command(LeaderAndIsr(False, [topic(1, 0)]))
    host.core.on_control(7, after)
    host.send(host.append_request())
    said = host.settle()
    assert [len(out.controls) for out in said] == [0, 0, 0, 2]
    assert [response.sequence for _, response in said[-1].controls] == [after.sequence - 1, after.sequence]
    assert append_results(said[0])[0].error_code == ErrorCode.NONE
    assert len(names(host)) == 1 + 3 * LOGS_MADE_PER_STEP


def test_a_turn_waits_for_the_files_of_two_logs(host: Host) -> None:
    """On a disk that others keep busy each file takes milliseconds to be created: with eight logs a turn was 60 ms."""
    many = LeaderAndIsr(False, [topic(name="many", topic_id=OTHER_TOPIC_ID, partitions=20)])
    host.core.on_control(7, host.command(many))
    logs = [0]
    while not host.turn().controls:
        logs.append(len(names(host)))
    assert len(names(host)) == 20
    assert max(after - before for before, after in pairwise(logs)) == 2


def test_states_of_many_partitions_are_learned_over_several_steps_with_data_between(host: Host) -> None:
    partitions = 2 * STATES_LEARNED_PER_STEP
    lead_two_topics(host, partitions)
    host.watch()
    later = LeaderAndIsr(False, [topic(1, name="many", topic_id=OTHER_TOPIC_ID, partitions=partitions), topic(1)])
    host.core.on_control(7, host.command(later))
    host.send(host.append_request())
    said = host.settle()
    assert [len(out.controls) for out in said] == [0, 0, 1]
    assert append_results(said[0])[0].error_code == ErrorCode.NONE
    assert [state.leader_epoch for out in said for state in states(out)][-1] == 1


def test_settings_of_many_partitions_change_over_several_steps_and_the_answer_comes_last(host: Host) -> None:
    partitions = STATES_LEARNED_PER_STEP + 1
    lead_two_topics(host, partitions)
    configs = {"max.message.bytes": "10"}
    many = topic(name="many", topic_id=OTHER_TOPIC_ID, partitions=partitions, configs=configs)
    command = UpdateMetadata(2, False, "", CONTROLLER_EPOCH, [], [], [many])
    host.core.on_control(7, host.command(command))
    assert host.turn().controls == []
    ((_, response),) = host.turn().controls
    assert response.error_code == ErrorCode.NONE
    logs = host.log_directories[0].logs
    assert [log.config.max_message_bytes for (name, _), log in logs.items() if name == "many"] == [10] * partitions


def test_many_replicas_are_stopped_over_several_steps_with_data_between_and_the_answer_comes_last(host: Host) -> None:
    partitions = 3 * REPLICAS_STOPPED_PER_STEP
    lead_two_topics(host, partitions)
    host.core.on_control(7, host.command(stop_many(partitions)))
    host.send(host.append_request())
    turns = []
    while host.core.has_work:
        before = len(host.core.partitions)
        out = host.turn()
        turns.append((before - len(host.core.partitions), len(out.controls), len(append_results(out))))
    stopped = REPLICAS_STOPPED_PER_STEP
    assert turns == [(stopped, 0, 1), (stopped, 0, 0), (stopped, 0, 0), (0, 1, 0)]


def test_a_deletion_of_many_partitions_writes_each_checkpoint_once(host: Host) -> None:
    """After the last: one that is written while some of the logs are here has to be written again for those."""
    partitions = 3 * REPLICAS_STOPPED_PER_STEP
    lead_two_topics(host, partitions)
    host.core.on_control(7, host.command(stop_many(partitions)))
    written: list[FileReplacement] = []
    host.holds_effects = True
    while host.core.has_work or host.held:
        host.turn()
        written += [each.replacement for each in host.held if isinstance(each, ReplaceEffect)]
        for effect in list(host.held):
            host.run_effect(effect)
    path = "/data0/recovery-point-offset-checkpoint"
    assert [(each.path, each.content) for each in written] == [(path, b"0\n1\norders 0 0\n")]


def test_a_topic_made_again_waits_until_the_checkpoint_has_forgotten_all_of_the_old_one(host: Host) -> None:
    partitions = 2 * REPLICAS_STOPPED_PER_STEP
    lead_two_topics(host, partitions)
    host.holds_effects = True
    host.core.on_control(7, host.command(stop_many(partitions)))
    host.core.on_control(7, host.command(LeaderAndIsr(False, [topic(name="many", topic_id=bytes(15) + b"1")])))
    answered = [len(host.turn().controls) for _ in range(4)]
    assert (sum(answered), "many-0" in names(host)) == (1, False)
    (checkpoint,) = [effect for effect in host.held if isinstance(effect, ReplaceEffect)]
    host.run_effect(checkpoint)
    host.turn()
    assert "many-0" in names(host)


def test_one_tick_removes_the_files_of_a_bounded_number_of_partitions(host: Host) -> None:
    partitions = DELETIONS_PER_TICK + 1
    lead_two_topics(host, partitions, configs={"file.delete.delay.ms": "0"})
    host.control(stop_many(partitions))
    counts = []
    for now_ms in (1, 2, 3):
        host.core.tick(now_ms)
        effects = [effect for effect in host.take_effects() if isinstance(effect, DeleteDirectoryEffect)]
        counts.append(len(effects))
    assert counts == [DELETIONS_PER_TICK, 1, 0]
