"""A group whose members come, go, crash and come back, over a log that commits late, refuses and changes hands, keeps
its word (I13): a partition has one owner in a generation, no member gets an assignment that is not stored, no reader
sees an offset go back, what was acknowledged is found again, every call is answered, and no group is stuck or left
behind.

`pytest --hypothesis-profile=deep tests/property/test_groups.py` looks for longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest
from barnabas.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from barnabas.wire.messages.sync_group import SyncGroupResponse
from barnabas.wire.record_batch import decode_records, parse_header
from barnabas_logstore.core.coordinator.groups.group import Group, GroupState
from barnabas_logstore.core.coordinator.groups.records import (
    Entry,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    read_record,
)
from tests.property.group_consumers import GROUP, PARTITIONS, REBALANCE_MS, SESSION_MS, Consumer, committed
from tests.tiers import Cost, examples
from tests.unit.logstore.coordinator.support import DELAY_MS, PARTITION, QUICK, World

RETENTION_MS = 10_000_000
CONFIG = replace(QUICK, offsets_retention_ms=RETENTION_MS, offsets_retention_check_interval_ms=1_000_000)

# Instance id, and version of JoinGroup. Two of them believe that they are the same.
CONSUMERS = ((None, 9), (None, 9), (None, 3), ("one", 9), ("two", 5), ("two", 9))
consumer_numbers = st.integers(0, len(CONSUMERS) - 1)
partitions = st.sampled_from(PARTITIONS)


class SentCommit(NamedTuple):
    partition: int
    offset: int
    generation_id: int
    member_id: str


@lru_cache(maxsize=4096)
def entries_of(batch: bytes) -> list[Entry]:
    """What a batch of the log says: it is looked at after every answer."""
    entries = [read_record(record.key, record.value) for record in decode_records(batch)]
    assert None not in entries
    return [entry for entry in entries if entry is not None]


class Groups(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World(CONFIG)
        self.consumers = [Consumer(self.world, *each) for each in CONSUMERS]
        self.world.on_answer = self.on_answer
        self.owners: dict[tuple[int, int, str], str] = {}
        """The owner of each partition in the answers to members, by the group's life, generation and partition."""
        self.next_offset = 0
        self.sent_commits: dict[int, SentCommit] = {}
        """By request."""
        self.commits: dict[int, SentCommit] = {}
        """Those that are not known to be committed."""
        self.fetches: dict[int, dict[int, int]] = {}
        """What a fetch has to tell at least, by partition."""
        self.floors: dict[int, int] = {}
        """What has been acknowledged or read of each partition."""

    # --- answers -------------------------------------------------------------------------------------------------

    def committed_entries(self) -> Iterator[Entry]:
        """What the committed part of the log says, in order."""
        for batch in self.world.log.batches:
            if parse_header(batch).next_offset > self.world.log.committed_upto:
                return
            yield from entries_of(batch)

    def on_answer(self, request_id: int) -> None:
        """Every answer must be true when it is given, whenever it is read."""
        answer = self.world.answers[request_id]
        if not answer.body:
            return
        match self.world.calls[request_id][0]:
            case ApiKey.SYNC_GROUP:
                synced = self.world.body_of(request_id, SyncGroupResponse)
                consumer = next((each for each in self.consumers if each.request_id == request_id), None)
                if not synced.error_code and consumer is not None:
                    self.on_share(consumer, bytes(synced.assignment).decode())
            case ApiKey.OFFSET_FETCH:
                fetched = self.world.body_of(request_id, OffsetFetchResponse)
                for each in fetched.groups[0].topics[0].partitions:
                    if each.committed_offset >= 0:
                        self.check_is_committed(each.partition_index, each.committed_offset)
            case ApiKey.OFFSET_COMMIT if committed(self.world, request_id):
                self.check_commit(self.sent_commits[request_id])

    def check_is_committed(self, partition: int, offset: int) -> None:
        assert any(
            isinstance(key, OffsetCommitKey)
            and isinstance(value, OffsetCommitValue)
            and (key.partition, value.offset) == (partition, offset)
            for key, value in self.committed_entries()
        ), "an offset that is returned and not committed"

    def check_commit(self, sent: SentCommit) -> None:
        """It is in the log, and when it got there its generation was not over. (One may commit by a generation that was
        never stored, as in Kafka: it has joined, and all members have to join again.)
        """
        stored: GroupMetadataValue | None = None
        for key, value in self.committed_entries():
            if isinstance(value, OffsetCommitValue):
                assert isinstance(key, OffsetCommitKey)
                if (key.partition, value.offset) == (sent.partition, sent.offset):
                    break
            elif isinstance(key, GroupMetadataKey):
                stored = value
        else:
            raise AssertionError("an offset that is acknowledged and not committed")
        if sent.generation_id >= 0 and stored is not None:
            assert stored.generation <= sent.generation_id, "a commit by an older generation"
            if stored.generation == sent.generation_id:
                assert sent.member_id in {each.member_id for each in stored.members}, "a commit by who is no member"

    def on_share(self, consumer: Consumer, share: str) -> None:
        said = [value for key, value in self.committed_entries() if isinstance(key, GroupMetadataKey)]
        stored = said[-1] if said else None
        assert isinstance(stored, GroupMetadataValue), "a share of a group that is deleted"
        assert stored.generation == consumer.generation_id, "a share of a generation that is not the stored one"
        shares = {each.member_id: bytes(each.assignment).decode() for each in stored.members}
        assert shares.get(consumer.member_id) == share, "a share that is not the stored one"
        lives = said.count(None)
        for partition in share.partition(":")[2].split(","):
            if partition:
                key = (lives, consumer.generation_id, partition)
                owner = self.owners.setdefault(key, consumer.identity)
                assert owner == consumer.identity, "two owners of one partition in one generation"

    def look_at_answers(self) -> None:
        for request_id, sent in list(self.commits.items()):
            was_committed = committed(self.world, request_id)
            if was_committed is not None:
                del self.commits[request_id]
            if was_committed:
                self.floors[sent.partition] = max(self.floors.get(sent.partition, -1), sent.offset)
        for request_id, floors in list(self.fetches.items()):
            answer = self.world.answers.get(request_id)
            if answer is None:
                continue
            del self.fetches[request_id]
            if not answer.error_code:
                self.look_at_fetched(self.world.body_of(request_id, OffsetFetchResponse), floors)

    def look_at_fetched(self, response: OffsetFetchResponse, floors: dict[int, int]) -> None:
        for each in response.groups[0].topics[0].partitions:
            partition, offset = each.partition_index, each.committed_offset
            assert offset >= floors.get(partition, -1), "an offset that was returned has gone back"
            self.floors[partition] = max(self.floors.get(partition, -1), offset)

    # --- consumers ----------------------------------------------------------------------------------------------------

    @initialize(
        order=st.permutations(range(len(CONSUMERS))),
        count=st.integers(0, len(CONSUMERS)),
        commits_at_once=st.booleans(),
    )
    def some_join(self, order: list[int], count: int, commits_at_once: bool) -> None:
        """Most of what is interesting begins with a generation."""
        for number in 2 * order[:count]:
            self.consumers[number].act()
        self.world.advance(10 * DELAY_MS)
        self.world.log.commits_at_once = commits_at_once

    @rule(numbers=st.lists(consumer_numbers, min_size=1, max_size=6))
    def act(self, numbers: list[int]) -> None:
        for number in numbers:
            self.consumers[number].act()

    @rule(order=st.permutations(range(len(CONSUMERS))), times=st.integers(1, 4))
    def all_act(self, order: list[int], times: int) -> None:
        for number in times * order:
            self.consumers[number].act()

    @rule(number=consumer_numbers, truncate_fully=st.booleans())
    def one_is_slow(self, number: int, truncate_fully: bool) -> None:
        """And the others go on, as they are or by a generation of their own."""
        others = [each for each in self.consumers if each is not self.consumers[number] and not each.is_fenced]
        if truncate_fully and others:
            others[number % len(others)].join()
        for _ in range(REBALANCE_MS // 1_000 + 1):
            for each in 3 * others:
                each.act()
            if all(each.is_stable for each in others):
                break
            self.world.advance(1_000)

    @rule(number=consumer_numbers)
    def restart(self, number: int) -> None:
        """Without a word: it has crashed, and comes back when it acts."""
        self.consumers[number].forget()
        self.consumers[number].is_fenced = False

    @rule(number=consumer_numbers, other_topics=st.booleans())
    def join_again(self, number: int, other_topics: bool) -> None:
        """It has seen something, or lost its connection."""
        consumer = self.consumers[number]
        if not consumer.is_fenced:
            if other_topics:
                consumer.topics = ("topic", *consumer.topics)[:2] if len(consumer.topics) == 1 else ("topic",)
            consumer.join()

    @rule(number=consumer_numbers)
    def sync_again(self, number: int) -> None:
        """It has lost its connection while it waited."""
        self.consumers[number].sync_again()

    @rule(number=consumer_numbers)
    def leave(self, number: int) -> None:
        self.consumers[number].leave()

    @rule(instance_id=st.sampled_from(("one", "two")))
    def is_made_to_leave(self, instance_id: str) -> None:
        self.world.send(LeaveGroupRequest(GROUP, members=[MemberIdentity("", instance_id)]), 5)

    @rule(number=consumer_numbers, partition=partitions)
    def commit(self, number: int, partition: int) -> None:
        """Also by who is not, or no more, a member."""
        self.next_offset += 1
        who = [each for each in self.consumers if each.is_stable] or self.consumers
        consumer = who[number % len(who)]
        sent = SentCommit(partition, self.next_offset, consumer.generation_id, consumer.member_id)
        self.sent_commits[self.world.last_id + 1] = sent
        self.commits[consumer.commit(self.next_offset, partition)] = sent

    @rule()
    def reads(self) -> None:
        self.fetch()

    def fetch(self) -> None:
        topics = [OffsetFetchRequestTopics("topic", partition_indexes=list(PARTITIONS))]
        self.look_at_answers()
        floors = dict(self.floors)
        sent = self.world.send(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP, topics=topics)]), 9)
        self.fetches[sent] = floors

    @rule()
    def delete(self) -> None:
        """From now on there may be no offsets any more."""
        self.world.send(DeleteGroupsRequest([GROUP]), 2)
        self.look_at_answers()
        if self.group is None:
            self.floors.clear()
            self.fetches.clear()
            self.commits.clear()

    # --- time and the log ---------------------------------------------------------------------------------------------

    @rule(ms=st.sampled_from((1, 50, 100, 1_000, SESSION_MS // 2, SESSION_MS, REBALANCE_MS)))
    def time_passes(self, ms: int) -> None:
        self.world.advance(ms)

    @rule(commits_at_once=st.sampled_from((False, False, True)))
    def log_commits(self, commits_at_once: bool) -> None:
        self.world.log.commits_at_once = commits_at_once
        self.world.commit()

    @rule(refusal=st.sampled_from((ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS)))
    def log_refuses(self, refusal: ErrorCode) -> None:
        self.world.log.refusal = refusal

    @rule()
    def log_fails(self) -> None:
        """The next append, and that under the same epoch."""
        self.world.log.fails_appends = True

    @rule(with_tail=st.booleans(), has_time=st.booleans())
    def leader_changes(self, with_tail: bool, has_time: bool) -> None:
        """To one that has got what is not committed, or has not."""
        self.world.lose()
        if not with_tail:
            self.world.log.truncate()
        self.world.log.fails_appends = False
        self.world.lead(loads=has_time)
        self.fetch()

    @precondition(lambda self: bool(self.world.log.reads))
    @rule()
    def log_is_read(self) -> None:
        self.world.log.fails_appends = False
        self.world.feed()
        self.world.turn()

    # --- what always holds --------------------------------------------------------------------------------------------

    @property
    def group(self) -> Group | None:
        led = self.world.coordinator.find(PARTITION)
        return None if led is None or led.loader is not None else led.shard.groups.get(GROUP)

    @invariant()
    def answers_are_right(self) -> None:
        self.look_at_answers()

    @invariant()
    def group_is_consistent(self) -> None:
        group = self.group
        if group is None:
            return
        members = group.members
        assert not members.keys() & group.pending_joins.keys(), "both in and out"
        assert group.pending_syncs.keys() <= members.keys()
        assert set(group.static_members.items()) == {
            (each.group_instance_id, each.member_id) for each in members.values() if each.group_instance_id is not None
        }
        assert group.awaiting_join == sum(each.awaits_join for each in members.values())
        supported: dict[str, int] = {}
        for each in members.values():
            for name in each.protocols:
                supported[name] = supported.get(name, 0) + 1
        assert group.supported_protocols == supported
        assert bool(members) == (group.state is not GroupState.EMPTY) or group.state is GroupState.PREPARING_REBALANCE
        assert not group.is_unused

    @invariant()
    def something_will_happen(self) -> None:
        """Whatever a group waits for has an end, and every member's life too."""
        group = self.group
        if group is None:
            return
        for each in group.members.values():
            assert each.session is not None
            assert each.session.at_ms >= 0 or each.has_satisfied_heartbeat, "a member that lives for ever"
        match group.state:
            case GroupState.PREPARING_REBALANCE:
                assert group.join_deadline is not None
                assert group.join_deadline.at_ms >= 0, "a join phase without end"
            case GroupState.COMPLETING_REBALANCE:
                assert group.leader_id in group.members
                led = self.world.coordinator.find(PARTITION)
                is_written = led is not None and led.is_behind
                has_end = group.sync_deadline is not None and group.sync_deadline.at_ms >= 0
                assert has_end or is_written, "a sync phase without end"
            case GroupState.STABLE | GroupState.EMPTY:
                assert not any(each.awaits_sync for each in group.members.values())

    @invariant()
    def no_wait_outlasts_its_answer(self) -> None:
        for consumer in self.consumers:
            answer = None if consumer.request_id is None else self.world.answers.get(consumer.request_id)
            if answer is None or answer.wait is None or self.world.is_over(answer.wait):
                continue
            group = self.group
            member = None if group is None else group.members.get(answer.wait.member_id)
            assert member is not None, "waits for an answer by an id that is gone"
            assert member.awaits_join if consumer.is_joining else member.awaits_sync, "its answer is there"

    # --- and in the end -----------------------------------------------------------------------------------------------

    def heal(self) -> None:
        world = self.world
        world.log.refusal = ErrorCode.NONE
        world.log.fails_appends = False
        world.log.commits_at_once = True
        world.load()
        world.commit()

    @rule()
    def settles(self) -> None:
        """With a healthy log all who live come to share everything."""
        self.heal()
        for _ in range(4 * (SESSION_MS + REBALANCE_MS) // 1_000):
            self.world.advance(1_000)
            for _ in range(4):
                for consumer in self.consumers:
                    consumer.act()
        alive = [each for each in self.consumers if not each.is_fenced]
        group = self.group
        assert group is not None
        assert group.state is GroupState.STABLE, "a group that is stuck"
        assert sorted(group.members) == sorted(each.member_id for each in alive)
        assert {each.generation_id for each in alive} == {group.generation_id}
        shares = [each.share.partition(":")[2] for each in alive if each.share]
        assert sorted(filter(None, ",".join(shares).split(","))) == [str(each) for each in PARTITIONS]

    def teardown(self) -> None:
        """All go, time passes, and nothing is left."""
        self.heal()
        self.look_at_answers()
        for _ in range(10):
            self.world.advance(SESSION_MS + REBALANCE_MS)
        assert self.group is None or self.group.state is GroupState.EMPTY, "members that outlive their sessions"
        assert self.world.answers.keys() == self.world.calls.keys(), "some call was never answered"
        assert not self.commits
        assert not self.fetches
        for _ in range(3):
            self.world.advance(RETENTION_MS)
        led = self.world.coordinator.find(PARTITION)
        assert led is not None
        assert len(led.shard.groups) == 0
        assert len(self.world.deadlines) == 0
        assert len(self.world.deadlines._heap) < 200
        assert not led._waiting
        assert not led.is_behind


TestGroups = Groups.TestCase
TestGroups.settings = examples(Cost.HIGH)
