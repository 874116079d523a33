"""Produce with acks=all: what is not committed yet waits in purgatory, and what becomes of it when a pod dies."""

from __future__ import annotations

from barnabas.channel.messages import Outcome
from barnabas.wire.errors import ErrorCode
from tests.unit.gateway.world import ScriptedPod, World, topic

NONE = ErrorCode.NONE


def parked() -> tuple[World, ScriptedPod]:
    """A produce with acks=all that waits in the one pod."""
    world = World(pods=("p-0",))
    world.client().produce(0, acks=-1, timeout_ms=10_000)
    world.logstore.append_result(required_offset=8)
    return world, world.pod


def test_what_is_committed_already_is_not_parked() -> None:
    world = World(pods=("p-0",))
    client = world.client()
    client.produce(0, acks=-1)
    world.logstore.append_result(committed=True)
    assert client.error_codes() == [[NONE]]
    assert not world.pod.produces


def test_what_is_not_committed_waits_in_purgatory() -> None:
    world, pod = parked()
    entry = pod.produces[0]
    condition = entry.conditions[0]
    assert (condition.leader_id, condition.leader_epoch, condition.required_offset) == (1, 5, 8)
    assert entry.wait_ms == 10_000
    assert not world.clients[1].answers
    pod.complete(entry.entry_id, Outcome.SATISFIED, NONE)
    assert world.clients[1].error_codes() == [[NONE]]
    assert world.clients[1].answers[0].responses[0].partition_responses[0].base_offset == 7


def test_purgatory_says_which_partition_failed() -> None:
    world = World(topic(leaders=(1, 1)), pods=("p-0",))
    client = world.client()
    client.produce(0, 1, acks=-1)
    world.logstore.append_result()
    world.logstore.append_result()
    entry = world.pod.produces[0]
    world.pod.complete(entry.entry_id, Outcome.FENCED, NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    assert client.error_codes() == [[NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]]


def test_all_entries_go_to_the_pod_of_the_leader() -> None:
    world = World(topic(leaders=(1, 2)), nodes=(1, 2), pods=("p-0", "p-1"))
    client = world.client()
    client.produce(1, acks=-1)
    world.logstores[2].append_result()
    client.produce(0, acks=-1)
    world.logstores[1].append_result()
    assert (len(world.pods["p-0"].produces), len(world.pods["p-1"].produces)) == (1, 1)
    assert world.pods["p-0"].produces[0].conditions[0].leader_id == 2


def test_a_silent_purgatory_is_not_waited_for_longer_than_the_timeout() -> None:
    world, pod = parked()
    world.pass_ms(10_300)
    assert world.clients[1].error_codes() == [[ErrorCode.REQUEST_TIMED_OUT]]
    assert pod.cancels == [pod.produces[0].entry_id]


def test_a_client_that_is_gone_cancels_its_entry() -> None:
    world, pod = parked()
    world.clients[1].close()
    assert pod.cancels == [pod.produces[0].entry_id]


def test_a_dead_pod_is_replaced_by_the_leaders_word() -> None:
    world, pod = parked()
    pod.down()
    assert not world.clients[1].answers
    world.logstore.state_answer(high_watermark=8)
    assert world.clients[1].error_codes() == [[NONE]]


def test_a_dead_pods_entry_is_parked_elsewhere_when_not_satisfied() -> None:
    world = World(pods=("p-0", "p-1"))
    client = world.client()
    client.produce(0, acks=-1)
    world.logstore.append_result()
    world.pods["p-1"].down()
    world.logstore.state_answer(high_watermark=7)
    entry = world.pods["p-0"].produces[0]
    world.pods["p-0"].complete(entry.entry_id, Outcome.SATISFIED, NONE)
    assert client.error_codes() == [[NONE]]


def test_without_any_pod_the_leader_is_asked_again_until_it_is_committed() -> None:
    world, pod = parked()
    pod.down()
    world.logstore.state_answer(high_watermark=7)
    assert not world.logstore.state_queries
    world.pass_ms(200)
    world.logstore.state_answer(high_watermark=8)
    assert world.clients[1].error_codes() == [[NONE]]


def test_without_any_pod_and_never_committed_it_times_out() -> None:
    world, pod = parked()
    pod.down()
    for _ in range(500):
        if world.logstore.state_queries:
            world.logstore.state_answer(high_watermark=7)
        world.pass_ms(30)
    assert world.clients[1].error_codes() == [[ErrorCode.REQUEST_TIMED_OUT]]


def test_another_epoch_is_never_success() -> None:
    world, pod = parked()
    pod.down()
    world.logstore.state_answer(high_watermark=100, leader_epoch=6)
    assert world.clients[1].error_codes() == [[ErrorCode.NOT_LEADER_OR_FOLLOWER]]


def test_a_leader_no_more_is_never_success() -> None:
    """The next one is looked for, and the produce may have been written."""
    world, pod = parked()
    pod.down()
    for _ in range(200):
        if world.logstore.state_queries:
            world.logstore.state_answer(high_watermark=100, leading=False)
        world.pass_ms(30)
    assert world.clients[1].error_codes() == [[ErrorCode.REQUEST_TIMED_OUT]]


def test_a_leader_that_is_not_reached_by_the_deadline_is_a_timeout() -> None:
    world, pod = parked()
    world.logstore.down()
    pod.down()
    world.pass_ms(9_000)
    assert not world.clients[1].answers
    world.pass_ms(1_100)
    assert world.clients[1].error_codes() == [[ErrorCode.REQUEST_TIMED_OUT]]


def test_a_leader_that_comes_back_in_time_is_asked() -> None:
    world, pod = parked()
    world.logstore.down()
    pod.down()
    world.pass_ms(1_000)
    world.logstore.up()
    world.pass_ms(200)
    world.logstore.state_answer(high_watermark=8)
    assert world.clients[1].error_codes() == [[NONE]]


def test_a_late_completion_changes_nothing() -> None:
    world, pod = parked()
    entry_id = pod.produces[0].entry_id
    world.pass_ms(10_300)
    pod.complete(entry_id, Outcome.SATISFIED, NONE)
    assert world.clients[1].error_codes() == [[ErrorCode.REQUEST_TIMED_OUT]]


def test_a_timeout_of_0_does_not_park() -> None:
    world = World(pods=("p-0",))
    client = world.client()
    client.produce(0, acks=-1, timeout_ms=0)
    world.logstore.append_result()
    assert client.error_codes() == [[ErrorCode.REQUEST_TIMED_OUT]]
    assert not world.pod.produces
