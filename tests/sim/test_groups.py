"""What the simulation sees of groups: each rule of I13 broken by hand, and a run in which everything happens."""

from __future__ import annotations

from contextlib import nullcontext
from random import Random

import pytest

from barnabas.wire.record_batch import Record, build_batch
from barnabas_logstore.core.coordinator.groups.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitValue,
    group_record,
    offset_key_prefix,
    offset_record,
)
from tests.sim.clients.consumer import Taste
from tests.sim.clients.producer import Behaviour
from tests.sim.cluster import Cluster
from tests.sim.elections import Shortages
from tests.sim.faults import Fault, Faults
from tests.sim.groups.assignments import TopicPartition, assign, pack_assignment, scan_assignment
from tests.sim.groups.history import GroupHistory, Moment, Standing
from tests.sim.groups.log import Commit
from tests.sim.groups.shape import STATIC, TODAY, GroupShape, GroupsShape, MemberBehaviour
from tests.sim.history import History
from tests.sim.replica_logs import BatchRegister
from tests.sim.scheduler import MS, SECOND, InvariantViolation, Scheduler
from tests.sim.shapes import Profile, random_shape
from tests.sim.topology import Shape, TopicShape

FIRST: TopicPartition = ("orders", 0)
SECOND_ONE: TopicPartition = ("orders", 1)


class CommittedRecords:
    """One group, what its coordinator has written, and the answers that its members get."""

    def __init__(self) -> None:
        self.history = GroupHistory(History())
        self._register = BatchRegister()
        self._end = 0

    def now(self) -> Moment:
        return self.history.moment("g")

    def commits(self, *records: Record) -> None:
        batch = bytearray(build_batch(list(records)))
        batch[:8] = self._end.to_bytes(8)
        self._end += len(records)
        self.history.log_of("g").add(self._register.take(bytes(batch)))

    def has_generation(self, number: int, **shares: list[TopicPartition]) -> None:
        members = [
            MemberMetadata(each, None, "", "", 0, 0, b"", pack_assignment(share)) for each, share in shares.items()
        ]
        value = GroupMetadataValue("consumer", number, "in turn", next(iter(shares), None), 0, members)
        self.commits(group_record(GroupMetadataKey("g"), value, 0))

    def sends_commit(self, commit_id: str, offset: int, member_id: str, generation_id: int) -> None:
        self.history.committing("g", FIRST, commit_id, Commit(offset, member_id, generation_id))

    def has_offset(self, offset: int, commit_id: str) -> None:
        value = OffsetCommitValue(offset, -1, commit_id, 0)
        self.commits(offset_record(offset_key_prefix("g", FIRST[0]), FIRST[1], value, 0))


@pytest.fixture
def records() -> CommittedRecords:
    """Generation 1: `a` and `b` have a partition each, and `a` has committed 5 and then 7."""
    records = CommittedRecords()
    records.has_generation(1, a=[FIRST], b=[SECOND_ONE])
    for commit_id, offset in (("first", 5), ("second", 7)):
        records.sends_commit(commit_id, offset, "a", 1)
        records.has_offset(offset, commit_id)
    return records


def test_what_is_in_the_log_may_be_returned(records: CommittedRecords) -> None:
    history, asked = records.history, records.now()
    history.joined("g", 1, asked)
    history.synced("g", 1, "a", pack_assignment([FIRST]), asked)
    history.commit_acknowledged("g", FIRST, "second")
    history.offset_fetched("g", FIRST, 7, "second", asked)
    assert (history.counts.joins, history.counts.rebalances, history.counts.commits) == (1, 1, 1)


def test_no_member_owns_what_another_owns(records: CommittedRecords) -> None:
    with pytest.raises(InvariantViolation, match="is a's and b's in generation 2"):
        records.has_generation(2, a=[FIRST], b=[FIRST, SECOND_ONE])


def test_a_generation_has_one_set_of_owners(records: CommittedRecords) -> None:
    with pytest.raises(InvariantViolation, match="is b's and a's in generation 1"):
        records.has_generation(1, a=[SECOND_ONE], b=[FIRST])


def test_generations_grow(records: CommittedRecords) -> None:
    records.has_generation(3)
    with pytest.raises(InvariantViolation, match="from generation 3 back to 2"):
        records.has_generation(2, a=[FIRST])


@pytest.mark.parametrize(
    ("at_commit", "at_deletion", "may_be"),
    [
        pytest.param(Shortages(0, 0), Shortages(0, 0), False, id="there was none"),
        pytest.param(Shortages(1, 1), Shortages(1, 1), False, id="it was over before"),
        pytest.param(Shortages(1, 0), Shortages(1, 1), True, id="it lasted"),
        pytest.param(Shortages(1, 1), Shortages(2, 2), True, id="another one began"),
    ],
)
def test_a_group_with_members_is_deleted_only_where_an_empty_generation_may_have_been_refused(
    records: CommittedRecords, at_commit: Shortages, at_deletion: Shortages, may_be: bool
) -> None:
    """Seed 10000181 with exceptions: too few replicas were in sync when the last member's session ended."""
    records.history.shortages_of = lambda partition: at_commit
    records.has_generation(2, a=[FIRST])
    records.history.shortages_of = lambda partition: at_deletion
    with nullcontext() if may_be else pytest.raises(InvariantViolation, match="is deleted, and has members"):
        records.commits(group_record(GroupMetadataKey("g"), None, 0))


def test_no_member_is_let_into_a_generation_that_is_over(records: CommittedRecords) -> None:
    records.has_generation(2, a=[FIRST], b=[])
    with pytest.raises(InvariantViolation, match="let into generation 1 after 2"):
        records.history.joined("g", 1, records.now())


@pytest.mark.parametrize(("member_id", "generation_id"), [("a", 0), ("c", 1), ("", -1)])
def test_only_members_commit(records: CommittedRecords, member_id: str, generation_id: int) -> None:
    records.sends_commit("third", 9, member_id, generation_id)
    with pytest.raises(InvariantViolation, match="is committed by"):
        records.has_offset(9, "third")


def test_a_commit_is_in_the_log_once(records: CommittedRecords) -> None:
    with pytest.raises(InvariantViolation, match="is there twice"):
        records.has_offset(7, "second")


def test_an_offset_that_was_not_deleted_stays(records: CommittedRecords) -> None:
    tombstone = offset_record(offset_key_prefix("g", FIRST[0]), FIRST[1], None, 0)
    with pytest.raises(InvariantViolation, match="no client has asked for that"):
        records.commits(tombstone)


def test_an_acknowledged_commit_is_in_the_log(records: CommittedRecords) -> None:
    records.sends_commit("third", 9, "a", 1)
    with pytest.raises(InvariantViolation, match="acknowledged, and not in the log"):
        records.history.commit_acknowledged("g", FIRST, "third")


def test_an_offset_never_goes_back(records: CommittedRecords) -> None:
    with pytest.raises(InvariantViolation, match="committed since it asked are \\['second'\\]"):
        records.history.offset_fetched("g", FIRST, 5, "first", records.now())
    with pytest.raises(InvariantViolation, match="gets None"):
        records.history.offset_fetched("g", FIRST, -1, "", records.now())


def test_who_asked_before_may_get_either(records: CommittedRecords) -> None:
    asked = records.now()
    records.sends_commit("third", 9, "a", 1)
    records.has_offset(9, "third")
    records.history.offset_fetched("g", FIRST, 7, "second", asked)
    records.history.offset_fetched("g", FIRST, 9, "third", asked)


def test_a_deposed_leader_may_tell_what_it_knew(records: CommittedRecords) -> None:
    records.history.standing_of = lambda partition: Standing(5, 2)
    records.history.offset_fetched("g", FIRST, 5, "first", records.now())


def test_what_may_be_lost_need_not_be_returned(records: CommittedRecords) -> None:
    asked = records.now()
    records.history.log_of("g").cut(2)
    records.history.offset_fetched("g", FIRST, 5, "first", asked)
    records.history.commit_acknowledged("g", FIRST, "second")
    records.history.offset_fetched("g", FIRST, 7, "second", asked)


def test_a_group_that_may_be_lost_may_be_unknown(records: CommittedRecords) -> None:
    """Seed 511 of `HANGING` in `test_transactions.py`: its member was answered GROUP_ID_NOT_FOUND."""
    assert not records.history.has_lost_records("g")
    records.history.log_of("g").cut(2)
    assert records.history.has_lost_records("g")


def test_no_member_gets_the_share_of_another(records: CommittedRecords) -> None:
    with pytest.raises(InvariantViolation, match="in the log are"):
        records.history.synced("g", 1, "a", pack_assignment([SECOND_ONE]), records.now())


def test_a_deletion_that_is_reported_is_in_the_log(records: CommittedRecords) -> None:
    records.history.asks_to_delete("g", [FIRST[0]])
    asked = records.now()
    with pytest.raises(InvariantViolation, match="is deleted, and in the log still"):
        records.history.offset_deleted("g", FIRST, asked)
    records.commits(offset_record(offset_key_prefix("g", FIRST[0]), FIRST[1], None, 0))
    records.history.offset_deleted("g", FIRST, asked)


def test_who_is_heard_of_is_not_expelled(records: CommittedRecords) -> None:
    heard = records.now()
    records.history.now_us = lambda: 900 * MS
    records.history.expelled("g", "a", heard, records.now(), patience_ms=900)
    with pytest.raises(InvariantViolation, match="expelled 900 ms after it was heard of"):
        records.history.expelled("g", "a", heard, records.now(), patience_ms=1_000)


def test_nothing_is_left_out_in_reading(records: CommittedRecords) -> None:
    records.history.read("g", FIRST, 0, 5)
    records.history.read("g", FIRST, 3, 7)
    with pytest.raises(InvariantViolation, match="from 8 on, and has read it up to 7"):
        records.history.read("g", FIRST, 8, 9)


def test_assignments_share_everything_out() -> None:
    given = assign(["a", "b"], {"orders": 3, "payments": 1}, turn=1)
    assert {member: scan_assignment(data) for member, data in given.items()} == {
        "b": [("orders", 0), ("orders", 2)],
        "a": [("orders", 1), ("payments", 0)],
    }


def test_a_group_outlives_its_coordinators_and_its_members() -> None:
    """Members come, go, sleep and are replaced while coordinators die: every rule is held all the while, and at the end
    every living member has a share and everything is read.
    """
    taste = Taste(version=12, max_wait_ms=50, min_bytes=1, isolation_level=0)
    members = [
        MemberBehaviour(STATIC, is_static=True, stay_us=0, taste=taste),
        MemberBehaviour(TODAY, is_static=True, stay_us=3 * SECOND, taste=taste),
        MemberBehaviour(TODAY, is_static=False, stay_us=2 * SECOND, taste=taste),
    ]
    group = GroupShape("group-0", 1_500, 2_000, heartbeat_us=200 * MS, commit_us=200 * MS, members=members)
    shape = Shape(
        topics={"orders": TopicShape(4)},
        producers=[Behaviour(idempotent=True, acks=-1, version=9, interval_us=60 * MS, records_max=2)],
        groups=GroupsShape([group], min_isr=2, initial_rebalance_delay_ms=100, administration_us=100 * MS),
    )
    cluster = Cluster(Scheduler(seed=1), shape)
    faults = Faults(cluster, [Fault.KILL_COORDINATOR, Fault.ZOMBIE_MEMBER, Fault.KILL_CLIENT], 1_500 * MS)
    cluster.start()
    cluster.start_clients()
    faults.start()
    cluster.run_for(30 * SECOND)
    cluster.settle(faults)
    counts = cluster.groups.history.counts
    assert counts.rebalances >= 4
    assert counts.commits >= 10
    assert counts.administered["offsets are committed from outside"] > 0
    assert faults.hits[Fault.KILL_COORDINATOR] >= 1
    assert faults.hits[Fault.ZOMBIE_MEMBER] >= 1


def test_a_heartbeat_arrives_within_a_session_behind_two_fetches() -> None:
    """A member has one connection for both, and its fetches overlap at times."""
    shapes = [random_shape(Random(seed), profile, is_transactional=True) for seed in range(60) for profile in Profile]
    groups = [group for shape in shapes for group in (*shape.groups.groups, *_loops(shape))]
    assert len(groups) > 200
    for group in groups:
        longest_ms = max(member.taste.max_wait_ms for member in group.members)
        assert 2 * longest_ms * MS + 1.5 * group.heartbeat_us <= group.session_ms * MS, group


def _loops(shape: Shape) -> list[GroupShape]:
    return [] if shape.transactions.loop is None else [shape.transactions.loop]
