"""Problems are named, one line each, and go away."""

from __future__ import annotations

from dataclasses import replace

from barnabas.cluster.keys import Role, encode_registration
from barnabas.cluster.messages import (
    AlterReassignmentsRequest,
    ControlResponse,
    NewTopic,
    PartitionError,
    Reassignment,
)
from barnabas.ports.etcd import Put, Txn
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.description import describe_nodes, describe_problems
from barnabas_controller.core.known_members import FORGET_MS
from barnabas_controller.core.partition_listing import Condition, count_partitions
from tests.unit.controller.cluster import KEYS, LEASE_MS, Cluster, ControllerNode, create
from tests.unit.controller.replicated import shrink, with_topic


def a_whole_cluster() -> tuple[Cluster, ControllerNode]:
    cluster = Cluster()
    controller = cluster.controller()
    cluster.logstore(1)
    cluster.logstore(2)
    cluster.settle()
    cluster.gateway(controller)
    cluster.purgatory(controller)
    cluster.settle()
    return cluster, controller


def under_replicated(controller: ControllerNode) -> int:
    counts = count_partitions(controller.core.image, controller.core.rules)
    return counts.conditions[Condition.UNDER_REPLICATED]


def test_a_whole_cluster_has_no_problems() -> None:
    _, controller = a_whole_cluster()
    assert describe_problems(controller.core) == []


def test_an_empty_cluster_names_what_to_start() -> None:
    cluster = Cluster()
    controller = cluster.controller()
    cluster.settle()
    assert describe_problems(controller.core) == [
        "no logstore has ever registered: start one",
        "no gateway has ever registered: start one",
        "no purgatory has ever registered: start one",
    ]


def test_a_dead_logstore_stays_listed_and_is_named_with_its_partitions() -> None:
    cluster, controller = a_whole_cluster()
    controller.request(create(NewTopic("events", 4, 1)))
    cluster.settle()
    cluster.stop(2)
    cluster.settle()
    assert describe_problems(controller.core) == [
        "logstore 2 is down since 2023-11-14 22:13:20 UTC: start it",
        "2 partitions have no leader",
    ]
    logstores = [node for node in describe_nodes(controller.core) if node.role is Role.LOGSTORE]
    assert [(node.member_id, node.alive, node.leaders) for node in logstores] == [("1", True, 2), ("2", False, 0)]
    assert logstores[1].addresses == {"data": "logstore-2:9500", "control": "logstore-2:9501"}
    cluster.logstore(2)
    cluster.settle()
    assert describe_problems(controller.core) == []


def test_members_known_to_the_controller_before_are_known_to_the_next() -> None:
    cluster, controller = a_whole_cluster()
    cluster.stop(1)
    cluster.settle()
    controller.cut_off = True
    successor = cluster.controller("controller-1")
    cluster.advance(LEASE_MS + 1000)
    assert successor.is_active()
    assert "logstore 1 is down since 2023-11-14 22:13:20 UTC: start it" in describe_problems(successor.core)


def test_a_logstore_that_registers_but_does_not_answer_is_named() -> None:
    cluster, controller = a_whole_cluster()
    cluster.logstore(3).alive = False
    cluster.settle()
    assert describe_problems(controller.core) == ["logstore 3 does not answer at its control address logstore-3:9501"]


def test_a_log_directory_that_goes_offline_is_named_and_the_logstore_stays_what_it_was() -> None:
    cluster, controller = a_whole_cluster()
    logstore = cluster.logstores[2]
    before = controller.core.image.logstores[2]
    reported = replace(before.record, offline_log_dirs={"/data/b": "fdatasync /data/b/events-0: EIO"})
    key = KEYS.registration(Role.LOGSTORE, "2")
    cluster.etcd.txn(Txn((), (Put(key, encode_registration(reported), logstore.lease),)))
    cluster.settle()
    assert controller.core.image.logstores[2].epoch == before.epoch
    assert describe_problems(controller.core) == [
        "logstore 2: log directory /data/b is offline: fdatasync /data/b/events-0: EIO; "
        "replace the disk and restart the logstore"
    ]
    cluster.stop(2)
    cluster.logstore(2)
    cluster.settle()
    assert describe_problems(controller.core) == []


def test_a_log_directory_that_is_full_is_named_until_there_is_room() -> None:
    cluster, controller = a_whole_cluster()
    before = controller.core.image.logstores[2]
    key = KEYS.registration(Role.LOGSTORE, "2")
    reported = replace(before.record, full_log_dirs={"/data/b": "write /data/b/events-0/0.log: ENOSPC"})
    for record in (reported, before.record):
        cluster.etcd.txn(Txn((), (Put(key, encode_registration(record), cluster.logstores[2].lease),)))
        cluster.settle()
        told = describe_problems(controller.core)
        assert told == (
            [
                "logstore 2: log directory /data/b is full: write /data/b/events-0/0.log: ENOSPC; "
                "appends are refused and reads go on until there is room, no restart is needed"
            ]
            if record is reported
            else []
        )


def test_a_gateway_that_registers_but_does_not_follow_is_named() -> None:
    cluster, controller = a_whole_cluster()
    for subscriber_id in list(controller.subscribers):
        del controller.subscribers[subscriber_id]
        controller.do(controller.core.on_unsubscribed(subscriber_id, cluster.now_ms))
    assert describe_problems(controller.core) == [
        "gateway gateway-0 does not follow the controller's metadata",
        "purgatory purgatory-0 does not follow the controller's metadata",
    ]


def test_stateless_pods_long_gone_are_forgotten_and_logstores_never() -> None:
    cluster, controller = a_whole_cluster()
    cluster.stop(1)
    cluster.advance(LEASE_MS + 1000)
    assert sum("is down" in problem for problem in describe_problems(controller.core)) == 3
    cluster.advance(FORGET_MS + 120_000, step_ms=2000)
    down = [problem for problem in describe_problems(controller.core) if "is down" in problem]
    assert len(down) == 1
    assert down[0].startswith("logstore 1 ")


def test_an_unreadable_key_is_named_and_harms_nothing_else() -> None:
    cluster, controller = a_whole_cluster()
    key = KEYS.registration(Role.LOGSTORE, "9")
    cluster.etcd.txn(Txn((), (Put(key, b"not json"),)))
    cluster.settle()
    assert controller.is_active()
    (problem,) = describe_problems(controller.core)
    assert problem.startswith(f"{key} in etcd is unreadable: JSONDecodeError")


def test_partitions_with_replicas_out_of_sync_are_counted_and_those_of_a_move_are_not() -> None:
    cluster = with_topic([1, 2], [1, 2], [2, 3], logstores=4)
    controller = cluster.controllers[0]
    moves = [Reassignment("events", 2, [4, 3])]
    controller.request(AlterReassignmentsRequest(moves, 1000))
    cluster.settle()
    assert under_replicated(controller) == 0
    shrink(cluster, 1)
    assert under_replicated(controller) == 1
    assert "1 partition has replicas that are not in sync" in describe_problems(controller.core)


def test_a_log_that_is_ahead_of_etcd_is_named_with_the_reason() -> None:
    cluster, controller = a_whole_cluster()
    controller.request(create(NewTopic("events", 1, 2)))
    cluster.settle()
    (topic_id,) = controller.core.image.topics_by_id
    cluster.logstore(2).ahead.add((topic_id, 0))
    cluster.settle()
    (problem, _) = reversed(describe_problems(controller.core))
    assert problem.startswith("partition events-0 failed on logstore 2: STALE_CONTROLLER_EPOCH: its log has later")


def test_a_state_that_was_overtaken_on_its_way_is_no_failure() -> None:
    """A leader hears of its ISR by the answer of AlterPartition too: the command of before comes too late by then."""
    cluster, controller = a_whole_cluster()
    controller.request(create(NewTopic("events", 1, 2)))
    cluster.settle()
    (topic_id,) = controller.core.image.topics_by_id
    logstore = cluster.logstores[1]
    logstore.answering = False
    cluster.stop(2)
    cluster.settle()
    # Its next change, while the first is unanswered.
    controller.request(AlterReassignmentsRequest([Reassignment("events", 0, [1])], 10_000))
    cluster.settle()
    commands = list(logstore.unanswered)
    assert sum(each.leader_and_isr is not None for each in commands) >= 2
    logstore.unanswered.clear()
    first = next(each.sequence for each in commands if each.leader_and_isr is not None)
    for command in commands:
        is_first = command.sequence == first
        errors = [PartitionError(topic_id, 0, ErrorCode.STALE_CONTROLLER_EPOCH)] if is_first else []
        response = ControlResponse(command.sequence, ErrorCode.NONE, errors)
        controller.do(controller.core.on_control_response(1, logstore.broker_epoch, response, cluster.now_ms))
    assert not [each for each in describe_problems(controller.core) if "failed on" in each]
