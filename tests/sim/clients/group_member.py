"""A member of a group of the classic protocol, as clients have it: it joins, is given its share or gives all theirs,
reads on from what is committed, commits what it has read, and is heard of all the while.

Every answer is compared with what is in the log (`tests.sim.groups.history`). What becomes of errors is Kafka's:
REBALANCE_IN_PROGRESS and ILLEGAL_GENERATION, join again; UNKNOWN_MEMBER_ID, join as a new member; FENCED_INSTANCE_ID is
the end. Of others it asks again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from barnabas.wire.messages.offset_commit import OffsetCommitResponse
from barnabas.wire.messages.offset_fetch import OffsetFetchResponse
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.sim.clients import committed_offsets
from tests.sim.clients.client import UNKNOWN_TOPIC, ClientEnvironment
from tests.sim.clients.consumer import Consumer
from tests.sim.groups.assignments import TopicPartition, assign, scan_assignment, subscription
from tests.sim.groups.errors import JOIN_AGAIN, NO_COORDINATOR
from tests.sim.groups.history import GroupHistory, Moment
from tests.sim.groups.log import Commit
from tests.sim.groups.shape import GroupShape, MemberBehaviour
from tests.sim.scheduler import MS, SECOND, InvariantViolation

PROTOCOL_TYPE, PROTOCOL = "consumer", "in turn"
IDLE_US = 100 * MS
REST_US_MAX = 4 * SECOND
# A join is answered when all are here, or after the longest rebalance timeout.
JOIN_SPARE_US = 5 * SECOND
SYNC_AGAIN_SHARE = 0.5
FIND_SEVERAL_FROM = 4
SEVERAL_LEAVE_FROM = 3


class GroupMember(Consumer):
    """Killed and started again it is a new member, or with a `group_instance_id` the same again."""

    needs_stable_offsets = False
    """Whether it waits while offsets are undecided (KIP-447)."""

    def __init__(
        self,
        name: str,
        environment: ClientEnvironment,
        topics: dict[str, int],
        group: GroupShape,
        behaviour: MemberBehaviour,
        group_instance_id: str | None,
        groups: GroupHistory,
    ) -> None:
        super().__init__(name, environment, topics, behaviour.taste)
        self.group = group
        self.group_instance_id = group_instance_id
        self._behaviour = behaviour
        self._versions = behaviour.versions
        self._groups = groups
        self.twin: GroupMember | None = None
        """Another process with the same group instance id."""
        self.is_settled = False
        """It stays where it is from now on."""
        self._commits = 0

    def boot(self) -> None:
        self.member_id = ""
        self.generation_id = -1
        self.assigned: list[TopicPartition] | None = None
        """Its share of its generation; None: it has none."""
        self._is_reading = False
        self._is_joining = False
        self._is_ending = False
        self._sync_again: SyncGroupRequest | None = None
        self._heard: Moment | None = None
        """When it asked last, of those times at which it was known by the one coordinator that there was."""
        self.committed: dict[TopicPartition, int] = {}
        if self._behaviour.stay_us and not self.is_settled:
            self.after(self.scheduler.random.randrange(2 * self._behaviour.stay_us), "has had enough", self._leave)
        super().boot()

    @property
    def wanted(self) -> list[TopicPartition]:
        return self.assigned if self._is_reading and self.assigned is not None else []

    @property
    def is_there(self) -> bool:
        """It lives, or its twin does."""
        return self.alive or (self.twin is not None and self.twin.alive)

    @property
    def has_its_share(self) -> bool:
        return self.assigned is not None and self._is_reading

    # --- the coordinator ----------------------------------------------------------------------------------------------

    def work(self) -> None:
        self.learn_topics(list(self.topics), lambda: self._find(self._go_on))

    def _find(self, then: Callable[[], None]) -> None:
        """Ask for the coordinator until there is one."""
        version = self._versions.find
        name = self.group.group_id
        several = version >= FIND_SEVERAL_FROM
        request = FindCoordinatorRequest("" if several else name, 0, [name] if several else [])

        def answered(response: FindCoordinatorResponse | None) -> None:
            if response is None:
                return
            code = response.coordinators[0].error_code if several else response.error_code
            if code == ErrorCode.NONE:
                then()
            elif code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
                self.meanwhile(self._backoff_us(), "asks for its coordinator again", partial(self._find, then))
            else:
                self._unexpected("FindCoordinator", code)

        self.ask(ApiKey.FIND_COORDINATOR, request, version, FindCoordinatorResponse, answered)

    def _go_on(self) -> None:
        """On a connection of which the coordinator has heard nothing yet."""
        if self.assigned is not None:
            if not self._is_reading:
                self._fetch_offsets()
        elif self._sync_again is not None:
            self._sync(self._sync_again)
        else:
            self._join_again()
        self.read()
        # Its heartbeats are due whatever became of the connection before.
        self.meanwhile(self._backoff_us(), "heartbeats", self._heartbeat)
        self.meanwhile(self._about(self.group.commit_us), "commits", self._commit_now_and_then)

    def connection_lost(self) -> None:
        super().connection_lost()
        self._is_joining = False

    def _backoff_us(self) -> int:
        return 50 * MS + self.scheduler.below(100 * MS)

    def _about(self, interval_us: int) -> int:
        return interval_us // 2 + self.scheduler.below(interval_us)

    def _unexpected(self, what: str, code: int) -> None:
        # In runs with exceptions a group that has no members for a moment, and no offsets, expires at once.
        has_expired = code == ErrorCode.GROUP_ID_NOT_FOUND and self.history.may_fail_internally
        if has_expired or self.fails_internally(code):
            self.begin_again()
            return
        raise InvariantViolation(f"{self.name}: {what} of {self.group.group_id} fails with {ErrorCode(code).name}")

    # --- join and sync ------------------------------------------------------------------------------------------------

    def _join_again(self, delay_us: int = 0) -> None:
        """It owns nothing until its next assignment."""
        if self._is_joining or self._is_ending:
            return
        self._is_joining = True
        self.let_go()
        self.meanwhile(delay_us, "joins", self._join)

    def let_go(self) -> None:
        self.assigned = None
        self._is_reading = False
        self._sync_again = self._heard = None
        self.positions.clear()
        self.committed.clear()
        self.leave_session()

    def _join(self) -> None:
        group, asked = self.group, self._groups.moment(self.group.group_id)
        request = JoinGroupRequest(
            group.group_id,
            group.session_ms,
            group.rebalance_ms,
            self.member_id,
            self.group_instance_id,
            PROTOCOL_TYPE,
            [JoinGroupRequestProtocol(PROTOCOL, subscription(list(self.topics)))],
        )
        timeout_us = group.rebalance_ms * MS + JOIN_SPARE_US
        answered = partial(self._joined, asked)
        self.ask(ApiKey.JOIN_GROUP, request, self._versions.join, JoinGroupResponse, answered, timeout_us)

    def _joined(self, asked: Moment, response: JoinGroupResponse | None) -> None:
        if response is None:
            return
        code = response.error_code
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self._join()
        elif code == ErrorCode.NONE:
            self._groups.joined(self.group.group_id, response.generation_id, asked)
            self.member_id, self.generation_id = response.member_id, response.generation_id
            self._sync(self._sync_request(response))
        else:
            self._is_joining = False
            self._refused("JoinGroup", code)

    def _sync_request(self, joined: JoinGroupResponse) -> SyncGroupRequest:
        given: dict[str, bytes] = {}
        if joined.leader == joined.member_id and not joined.skip_assignment:
            if joined.member_id not in [each.member_id for each in joined.members]:
                raise InvariantViolation(f"{self.name} leads a group that it is not in: {joined}")
            members = [each.member_id for each in joined.members]
            given = assign(members, self.topics, self.scheduler.below(len(members)))
        return SyncGroupRequest(
            self.group.group_id,
            joined.generation_id,
            joined.member_id,
            self.group_instance_id,
            PROTOCOL_TYPE,
            PROTOCOL,
            [SyncGroupRequestAssignment(member_id, assignment) for member_id, assignment in given.items()],
        )

    def _sync(self, request: SyncGroupRequest) -> None:
        self._is_joining = True
        asked = self._groups.moment(self.group.group_id)
        timeout_us = self.group.rebalance_ms * MS + JOIN_SPARE_US

        def answered(response: SyncGroupResponse | None) -> None:
            if response is None:
                # Some repeat a request that may have been answered, others join again.
                if self.scheduler.random.random() < SYNC_AGAIN_SHARE:
                    self._sync_again = _turned(request)
                return
            self._is_joining = False
            self._sync_again = None
            if response.error_code:
                self._refused("SyncGroup", response.error_code)
                return
            self._groups.synced(
                self.group.group_id, request.generation_id, request.member_id, bytes(response.assignment), asked
            )
            self.positions.clear()
            self.assigned = scan_assignment(bytes(response.assignment))
            self._fetch_offsets()

        self.ask(ApiKey.SYNC_GROUP, request, self._versions.sync, SyncGroupResponse, answered, timeout_us)

    def _refused(self, what: str, code: int) -> None:
        """By an answer about membership."""
        if code in NO_COORDINATOR:
            self.let_go()
            self._is_joining = True
            self.meanwhile(self._backoff_us(), "looks for its coordinator", partial(self._find, self._join))
        elif code in JOIN_AGAIN:
            self._join_again(self._backoff_us())
        elif code == ErrorCode.UNKNOWN_MEMBER_ID or self._is_group_lost(code):
            self.member_id = ""
            self._join_again(self._backoff_us())
        elif code == ErrorCode.FENCED_INSTANCE_ID and self.group_instance_id is not None:
            self._groups.counts.fenced += 1
            self.go_away("is fenced")
        else:
            self._unexpected(what, code)

    def _is_group_lost(self, code: int) -> bool:
        """OffsetCommit says so where `__consumer_offsets` has lost the group, as it may; any other answer says that the
        member is unknown.
        """
        return code == ErrorCode.GROUP_ID_NOT_FOUND and self._groups.has_lost_records(self.group.group_id)

    # --- heartbeats ---------------------------------------------------------------------------------------------------

    def _heartbeat(self) -> None:
        self.meanwhile(self._about(self.group.heartbeat_us), "heartbeats", self._heartbeat)
        if self.assigned is None or self._is_ending:
            return
        name, member_id, generation_id = self.group.group_id, self.member_id, self.generation_id
        asked = self._groups.moment(name)

        def answered(response: HeartbeatResponse | None) -> None:
            is_still = self.assigned is not None and (member_id, generation_id) == (self.member_id, self.generation_id)
            if response is None or not is_still:
                return
            if response.error_code == ErrorCode.NONE:
                self._heard_of(asked)
            elif response.error_code not in NO_COORDINATOR:
                if response.error_code == ErrorCode.UNKNOWN_MEMBER_ID and self._heard is not None:
                    self._groups.expelled(name, member_id, self._heard, asked, self.group.patience_ms)
                if response.error_code in JOIN_AGAIN and self.scheduler.random.random() < 0.7:
                    self.commit_positions()
                self._refused("Heartbeat", response.error_code)

        request = HeartbeatRequest(name, generation_id, member_id, self.group_instance_id)
        self.ask(ApiKey.HEARTBEAT, request, self._versions.heartbeat, HeartbeatResponse, answered)

    def _heard_of(self, asked: Moment) -> None:
        """By the one coordinator that there was all the time; what a deposed one hears the next does not know."""
        if asked.standing.zombie_end is None and self._groups.moment(self.group.group_id).standing == asked.standing:
            self._heard = asked

    # --- offsets ------------------------------------------------------------------------------------------------------

    def _fetch_offsets(self) -> None:
        """Where others of the group have come to, for everything that it was assigned."""
        assigned, asked = self.assigned, self._groups.moment(self.group.group_id)
        if not assigned:
            self._is_reading = assigned is not None
            return
        version = self._versions.fetch
        stable = self.needs_stable_offsets
        request = committed_offsets.fetch_request(self.group.group_id, assigned, version, require_stable=stable)

        def answered(response: OffsetFetchResponse | None) -> None:
            if response is None or self.assigned is not assigned:
                return
            reported = committed_offsets.fetched(response, version, assigned)
            failed = [code for code, _, _ in reported.values() if code]
            for code in failed:
                is_undecided = stable and code == ErrorCode.UNSTABLE_OFFSET_COMMIT
                if code not in (*NO_COORDINATOR, *UNKNOWN_TOPIC) and not is_undecided:
                    self._unexpected("OffsetFetch", code)
            for key, (code, offset, commit_id) in reported.items():
                if not code:
                    self._groups.offset_fetched(self.group.group_id, key, offset, commit_id, asked)
            if failed:
                self.meanwhile(self._backoff_us(), "asks for offsets again", self._fetch_offsets_again)
                return
            for key, (_, offset, _) in reported.items():
                if offset >= 0:
                    self.positions[key] = self.committed[key] = offset
            self._is_reading = True

        self.ask(ApiKey.OFFSET_FETCH, request, version, OffsetFetchResponse, answered)

    def read_again(self) -> None:
        """From what is committed on, with the same share."""
        self._is_reading = False
        self.positions.clear()
        self.committed.clear()
        self.leave_session()
        if self.is_connected:
            self._fetch_offsets()

    def _fetch_offsets_again(self) -> None:
        if self.assigned is not None and not self._is_reading:
            self._fetch_offsets()

    def read(self) -> None:
        if self.wanted and not self._is_ending:
            super().read()
        else:
            self.meanwhile(IDLE_US, "looks whether there is something to read", self.read)

    def has_read(self, key: TopicPartition, begin: int, end: int) -> None:
        self._groups.read(self.group.group_id, key, begin, end)

    def _commit_now_and_then(self) -> None:
        self.meanwhile(self._about(self.group.commit_us), "commits", self._commit_now_and_then)
        if not self._is_ending:
            self.commit_positions()

    def uncommitted_positions(self) -> dict[TopicPartition, int]:
        """How far it has come, wherever that is not committed yet."""
        return {
            key: position
            for key, position in self.positions.items()
            if key in self.wanted and self.committed.get(key) != position
        }

    def next_commit_id(self) -> str:
        self._commits += 1
        return f"{self.name}.{self._commits}"

    def commit_positions(self) -> None:
        positions = self.uncommitted_positions()
        if not positions:
            return
        name, generation_id = self.group.group_id, self.generation_id
        commit_id = self.next_commit_id()
        for key, position in positions.items():
            self._groups.committing(name, key, commit_id, Commit(position, self.member_id, generation_id))
        request = committed_offsets.commit_request(
            name, generation_id, self.member_id, self.group_instance_id, positions, commit_id
        )

        def answered(response: OffsetCommitResponse | None) -> None:
            if response is None:
                return
            refused = ErrorCode.NONE
            for key, code in committed_offsets.committed(response):
                if code == ErrorCode.NONE:
                    self._groups.commit_acknowledged(name, key, commit_id)
                    if self._is_reading and self.generation_id == generation_id:
                        self.committed[key] = positions[key]
                elif code not in (*NO_COORDINATOR, *UNKNOWN_TOPIC):
                    refused = ErrorCode(code)
            if refused and self.assigned is not None and self.generation_id == generation_id:
                self._refused("OffsetCommit", refused)

        self.ask(ApiKey.OFFSET_COMMIT, request, self._versions.commit, OffsetCommitResponse, answered)

    # --- the end ------------------------------------------------------------------------------------------------------

    def _leave(self) -> None:
        """Static members go without a word: they mean to come back."""
        if self.is_settled or self._is_ending:
            return
        if self.group_instance_id is not None or not self.is_connected or not self.member_id:
            self.go_away("goes away")
            return
        self.commit_positions()
        self._is_ending = True
        several = self._versions.leave >= SEVERAL_LEAVE_FROM
        request = LeaveGroupRequest(
            self.group.group_id,
            "" if several else self.member_id,
            [MemberIdentity(self.member_id)] if several else [],
        )

        def answered(response: LeaveGroupResponse | None) -> None:
            for code in [] if response is None else [response.error_code, *(m.error_code for m in response.members)]:
                if code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, *NO_COORDINATOR):
                    self._unexpected("LeaveGroup", code)
            self.go_away("has left")

        self.ask(ApiKey.LEAVE_GROUP, request, self._versions.leave, LeaveGroupResponse, answered)

    def go_away(self, why: str) -> None:
        """Its process ends, and is started again some time later, unless another one has its place."""
        self._is_ending = True

        def end() -> None:
            self.kill()
            self.scheduler.plan(self.scheduler.below(REST_US_MAX), f"{self.name} comes back", self.come_back)

        self.after(0, why, end)

    def take_its_place(self) -> None:
        """Whether its twin lives or not."""
        if not self.alive and not self.is_stopping:
            self.start()

    def come_back(self) -> None:
        if not self.is_there and not self.is_stopping:
            self.start()


def _turned(request: SyncGroupRequest) -> SyncGroupRequest:
    """Every member is given what another one had: by a leader that does not know what it has handed in already."""
    members = [each.member_id for each in request.assignments]
    assignments = [
        SyncGroupRequestAssignment(*each)
        for each in zip(members[1:] + members[:1], [each.assignment for each in request.assignments], strict=True)
    ]
    return replace(request, assignments=assignments)
