"""A controller that lost its place changes nothing; a Txn whose outcome is unknown happens once."""

from __future__ import annotations

import pytest

from barnabas.cluster.messages import AllocateProducerIdsRequest, AllocateProducerIdsResponse, NewTopic
from barnabas.ports.etcd import CompareTarget, Delete, EtcdRefused, Put, Txn
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.observability.description import describe_problems
from barnabas_controller.core.state.effects import Reject
from tests.sim.etcd_model import Fate
from tests.unit.controller.cluster import KEYS, LEASE_MS, Cluster, create, delete, error_codes


def two_controllers() -> Cluster:
    cluster = Cluster()
    cluster.controller("controller-0")
    cluster.settle()
    cluster.controller("controller-1")
    cluster.logstore(1)
    cluster.settle()
    assert [controller.is_active() for controller in cluster.controllers] == [True, False]
    return cluster


def test_every_write_compares_the_election_key_and_all_that_it_changes() -> None:
    cluster = two_controllers()
    active = cluster.controllers[0]
    active.request(create(NewTopic("events", 600, 1)))
    cluster.stop(1)
    cluster.settle()
    claim, *others = active.submitted
    assert {compare.key for compare in claim.compares} >= {KEYS.election, KEYS.controller_epoch}
    for txn in others:
        fence, *targets = txn.compares
        assert (fence.key, fence.target) == (KEYS.election, CompareTarget.CREATE_REVISION)
        assert {target.target for target in targets} == {CompareTarget.MOD_REVISION}
        assert [target.key for target in targets] == [operation.key for operation in txn.success]
        assert targets[0].key == KEYS.controller_epoch


def test_a_standby_takes_over_when_the_lease_ends_under_the_next_epoch() -> None:
    cluster = two_controllers()
    first, second = cluster.controllers
    first.cut_off = True
    cluster.advance(LEASE_MS + 1000)
    assert second.is_active()
    assert second.core.image.controller_epoch == 2


def test_a_controller_stops_at_its_local_deadline_before_anyone_tells_it() -> None:
    cluster = two_controllers()
    first, _ = cluster.controllers
    subscriber = cluster.gateway(first)
    first.cut_off = True
    cluster.advance(LEASE_MS - 100)
    assert first.is_active()
    cluster.advance(100)
    assert not first.is_active()
    assert subscriber not in first.subscribers
    assert first.links == {}


def test_a_controller_that_slept_past_its_lease_does_nothing_with_what_it_hears_then() -> None:
    """SIGSTOP and SIGCONT: nothing ran when the deadline passed, and a request is the first thing that comes."""
    cluster = two_controllers()
    first, second = cluster.controllers
    controllers, cluster.controllers = cluster.controllers, [second]
    cluster.advance(LEASE_MS + 1000)
    cluster.controllers = controllers
    assert second.is_active()
    before = len(first.submitted)
    request = first.request(create(NewTopic("events", 1, 1)))
    assert first.responses[request] == Reject(request, untouched=True)
    assert len(first.submitted) == before


def test_a_write_on_its_way_from_a_deposed_controller_is_refused_by_etcd() -> None:
    cluster = two_controllers()
    first, second = cluster.controllers
    request = first.request(create(NewTopic("late", 1, 1)))
    (late,) = first.txns
    first.cut_off = True
    cluster.advance(LEASE_MS + 1000)
    assert second.is_active()
    result = cluster.etcd.txn(late.txn)
    assert not result.succeeded
    assert first.responses[request] == Reject(request, untouched=False)


def test_a_failed_fence_deposes_at_once() -> None:
    cluster = two_controllers()
    first, second = cluster.controllers
    cluster.etcd.revoke(first.lease)
    second.step()
    second.step()
    request = first.request(AllocateProducerIdsRequest("gateway-0"))
    first.submit(first.txns.popleft())
    assert not first.is_active()
    assert first.responses[request] == Reject(request, untouched=False)


def test_a_logstore_that_has_heard_a_newer_controller_deposes_this_one() -> None:
    cluster = two_controllers()
    first, _ = cluster.controllers
    cluster.logstores[1].error_code = ErrorCode.STALE_CONTROLLER_EPOCH
    cluster.logstores[1].answering = False
    first.request(create(NewTopic("events", 1, 1)))
    cluster.settle()
    cluster.logstores[1].answering = True
    cluster._step_logstores()
    assert not first.is_active()


def test_requests_in_progress_are_rejected_as_maybe_done_when_the_controller_resigns() -> None:
    cluster = two_controllers()
    first, _ = cluster.controllers
    cluster.logstores[1].answering = False
    begun = first.request(create(NewTopic("begun", 1, 1), timeout_ms=60_000))
    cluster.settle()
    first.cut_off = True
    cluster.advance(LEASE_MS)
    assert first.responses[begun] == Reject(begun, untouched=False)


def test_a_lease_that_comes_back_takes_a_new_epoch() -> None:
    """etcd was away for longer than the local deadline, and so was the lease clock of every process."""
    cluster = Cluster()
    controller = cluster.controller()
    cluster.settle()
    controller.core.on_tick(LEASE_MS)
    controller.carry_out()
    assert not controller.is_active()
    cluster.now_ms = LEASE_MS + 1
    controller.core.on_lease(controller.lease, cluster.now_ms + LEASE_MS, cluster.now_ms)
    controller.carry_out()
    cluster.settle()
    assert controller.is_active()
    assert controller.core.image.controller_epoch == 2


@pytest.mark.parametrize("fate", [Fate.APPLIED_UNANSWERED, Fate.LOST])
def test_a_txn_with_a_lost_answer_is_read_back_and_happens_once(fate: Fate) -> None:
    cluster = Cluster()
    controller = cluster.controller()
    cluster.logstore(1)
    cluster.settle()
    fates = iter([fate])
    cluster.fate = lambda txn: next(fates, Fate.ANSWERED)
    first = len(controller.submitted)
    request = controller.request(AllocateProducerIdsRequest("gateway-0"))
    cluster.advance(1000)
    assert controller.responses[request] == AllocateProducerIdsResponse(ErrorCode.NONE, 0, 1000)
    assert controller.core.image.next_producer_id == 1000
    writes = [txn for txn in controller.submitted[first:] if any(isinstance(each, Put) for each in txn.success)]
    assert len(writes) == (1 if fate is Fate.APPLIED_UNANSWERED else 2)


def test_a_lost_txn_that_arrives_after_its_repetition_changes_nothing() -> None:
    cluster = Cluster()
    controller = cluster.controller()
    cluster.logstore(1)
    cluster.settle()
    late: list[Txn] = []

    def delay_first_write(txn: Txn) -> Fate:
        if not late and any(isinstance(each, Put) for each in txn.success):
            late.append(txn)
            return Fate.LOST
        return Fate.ANSWERED

    cluster.fate = delay_first_write
    controller.request(AllocateProducerIdsRequest("gateway-0"))
    cluster.advance(1000)
    assert not cluster.etcd.txn(late[0]).succeeded


def test_a_lost_txn_that_arrives_before_its_repetition_counts() -> None:
    cluster = Cluster()
    controller = cluster.controller()
    cluster.logstore(1)
    cluster.settle()
    late: list[Txn] = []

    def delay_first_write(txn: Txn) -> Fate:
        if any(isinstance(each, Put) for each in txn.success):
            if not late:
                late.append(txn)
                return Fate.LOST
            if len(late) == 1:
                late.append(txn)
                cluster.fate = lambda txn: Fate.ANSWERED
                assert cluster.etcd.txn(late[0]).succeeded
        return Fate.ANSWERED

    cluster.fate = delay_first_write
    request = controller.request(AllocateProducerIdsRequest("gateway-0"))
    cluster.advance(1000)
    assert len(late) == 2
    assert controller.responses[request] == AllocateProducerIdsResponse(ErrorCode.NONE, 0, 1000)
    assert controller.core.image.next_producer_id == 1000


@pytest.mark.parametrize("fate", [Fate.APPLIED_UNANSWERED, Fate.LOST])
def test_a_claim_with_a_lost_answer_ends_in_one_active_controller(fate: Fate) -> None:
    fates = iter([fate])
    cluster = Cluster(lambda txn: next(fates, Fate.ANSWERED))
    first = cluster.controller("controller-0")
    cluster.settle()
    second = cluster.controller("controller-1")
    cluster.advance(2000)
    assert [first.is_active(), second.is_active()].count(True) == 1


def test_a_deletion_with_a_lost_answer_happens_once() -> None:
    cluster = Cluster()
    controller = cluster.controller()
    cluster.logstore(1)
    cluster.settle()
    controller.request(create(NewTopic("events", 1, 1)))
    cluster.settle()
    fates = {True: iter([Fate.APPLIED_UNANSWERED] * 3), False: iter([])}
    cluster.fate = lambda txn: next(fates[any(isinstance(each, Delete) for each in txn.success)], Fate.ANSWERED)
    request = controller.request(delete("events"))
    cluster.advance(2000)
    assert error_codes(controller, request) == [ErrorCode.NONE]
    assert controller.core.image.topics == {}
    assert controller.core.image.deletions == {}


def test_a_refused_write_is_tried_again_and_named_meanwhile() -> None:
    cluster = Cluster()
    controller = cluster.controller()
    cluster.logstore(1)
    cluster.settle()

    def full(txn: Txn) -> Fate:
        raise EtcdRefused("etcdserver: mvcc: database space exceeded")

    cluster.fate = full
    request = controller.request(create(NewTopic("events", 1, 1)))
    cluster.settle()
    assert any("database space exceeded" in problem for problem in describe_problems(controller.core))
    cluster.fate = lambda txn: Fate.ANSWERED
    cluster.advance(1000)
    assert error_codes(controller, request) == [ErrorCode.NONE]
    assert not any("database space" in problem for problem in describe_problems(controller.core))


def test_a_logstore_that_takes_no_commands_yet_is_sent_everything_again_ever_later() -> None:
    """It may take seconds until it learns of its registration from etcd."""
    cluster = Cluster()
    controller = cluster.controller()
    logstore = cluster.logstore(1)
    cluster.settle()
    logstore.error_code = ErrorCode.STALE_BROKER_EPOCH
    request = controller.request(create(NewTopic("events", 1, 1)))
    cluster.settle()
    logstore.requests.clear()
    cluster.advance(5_000, step_ms=10)
    beginnings = [each for each in logstore.requests if each.leader_and_isr is not None and each.leader_and_isr.full]
    assert 5 <= len(beginnings) <= 10
    sequences = [each.sequence for each in logstore.requests]
    assert sequences == sorted(set(sequences)), "it is the same stream"
    logstore.error_code = ErrorCode.NONE
    cluster.advance(1_000, step_ms=10)
    assert len(logstore.partitions) == 1
    assert error_codes(controller, request) == [ErrorCode.NONE]
