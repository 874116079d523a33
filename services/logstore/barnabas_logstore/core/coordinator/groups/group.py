"""A group of the classic protocol: its members, its state, and its answers. It has no time and no log.

`rebalancing` decides what follows from a request or from time; this module has the data and the transitions.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from barnabas.wire.messages.sync_group import SyncGroupResponse
from barnabas_logstore.core.coordinator.groups.member import Member
from barnabas_logstore.core.coordinator.groups.pending_joins import PendingJoin
from barnabas_logstore.core.coordinator.groups.records import GroupMetadataValue, OffsetCommitValue
from barnabas_logstore.core.coordinator.groups.subscription import topics_of_subscription
from barnabas_logstore.core.coordinator.runtime.timers import Deadline

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
_REPLACED_MAX: Final = 8
"""Old member ids kept per group instance id: more than may wait at once, if several processes claim the same instance
id.
"""


class GroupState(Enum):
    """Kafka's names, as DescribeGroups returns them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


_BEFORE: Final = {
    GroupState.EMPTY: (GroupState.PREPARING_REBALANCE,),
    GroupState.PREPARING_REBALANCE: (GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY),
    GroupState.COMPLETING_REBALANCE: (GroupState.PREPARING_REBALANCE,),
    GroupState.STABLE: (GroupState.COMPLETING_REBALANCE,),
}


class Steps:
    """Counts for all groups of a logstore, so that a group that is removed and created again never takes the same step
    twice.
    """

    __slots__ = ("_moved", "count")

    def __init__(self) -> None:
        self.count = 0
        self._moved: dict[str, None] | None = {}
        """Groups that have taken a step since `take_moved`; None: any may have."""

    def advance(self, group_id: str) -> int:
        """Count a step of a group, and return its number."""
        self.count += 1
        if self._moved is not None:
            self._moved[group_id] = None
        return self.count

    def advance_all(self) -> None:
        """Coordinators have been gained or lost: all waits have to be checked."""
        self.count += 1
        self._moved = None

    def take_moved(self) -> dict[str, None] | None:
        """Return the groups that have moved since the last time; None: any may have."""
        moved, self._moved = self._moved, {}
        return moved


class TopicOffsets:
    """A group's committed offsets of one topic, by partition."""

    __slots__ = ("key_prefix", "partitions")

    def __init__(self, key_prefix: bytes) -> None:
        self.key_prefix = key_prefix
        """The prefix of the records' keys: all but the partition."""
        self.partitions: dict[int, OffsetCommitValue] = {}


class Group:
    """A group that is empty and has no protocol type is a simple one: it has only offsets."""

    __slots__ = (
        "_steps",
        "assigned_generation",
        "awaiting_join",
        "generation_id",
        "group_id",
        "initial_remaining_ms",
        "is_initial_rebalance",
        "join_deadline",
        "leader_id",
        "members",
        "new_member_added",
        "offsets",
        "pending_joins",
        "pending_syncs",
        "protocol_name",
        "protocol_type",
        "replaced",
        "state",
        "state_wall_ms",
        "static_members",
        "step",
        "stored",
        "subscribed_topics",
        "supported_protocols",
        "sync_deadline",
    )

    def __init__(self, group_id: str, wall_ms: int, steps: Steps) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_wall_ms = wall_ms
        """When it entered this state; -1: unknown."""
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """Member id by group instance id."""
        self.replaced: dict[str, tuple[str, ...]] = {}
        """By group instance id, the last member ids that had it: FENCED_INSTANCE_ID for a client that still waits under
        one of them.
        """
        self.pending_joins: dict[str, PendingJoin] = {}
        """Member ids that were given out and have not joined yet, with the end of their sessions (KIP-394)."""
        self.pending_syncs: dict[str, None] = {}
        """Members that have joined the generation and have not synced yet."""
        self.awaiting_join = 0
        """How many members wait for their join."""
        self.supported_protocols: dict[str, int] = {}
        """How many members support each protocol."""
        self.is_initial_rebalance = False
        """Whether this is the first rebalance since the group was empty: it waits a while for more members."""
        self.new_member_added = False
        """In the initial rebalance: whether a member has joined since the delay began."""
        self.initial_remaining_ms = 0
        """In the initial rebalance: how much longer it may be delayed, after the present delay."""
        self.join_deadline: Deadline | None = None
        """The deadline of the join phase."""
        self.sync_deadline: Deadline | None = None
        """The deadline of the sync phase, which lasts until all members have synced."""
        self.assigned_generation = -1
        """The generation whose assignments have been written, and may not be committed yet."""
        self.subscribed_topics: frozenset[str] | None = None
        """The topics that the consumers of this generation subscribe to; None: unknown, or it is not a group of
        consumers.
        """
        self.offsets: dict[str, TopicOffsets] = {}
        """Committed offsets by topic; no topic without a partition. Assigned in `store` only, as `stored` is."""
        self.stored: GroupMetadataValue | None = None
        """Its last record. What its members have done since then is not committed anywhere."""
        self._steps = steps
        self.step = steps.count
        """Counts up whenever a wait may be over."""

    # --- members ------------------------------------------------------------------------------------------------------

    def add(self, member: Member, protocol_type: str) -> None:
        """Add a member whose protocols the group supports; the first one determines the type, and leads."""
        assert member.member_id not in self.members
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count_protocols(member, 1)
        self.awaiting_join += member.awaits_join

    def remove(self, member_id: str) -> None:
        """Remove a member; a call that waits under its id finds it gone."""
        self.pending_syncs.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._count_protocols(member, -1)
        self.awaiting_join -= member.awaits_join
        if member.awaits_join or member.awaits_sync:
            self.step = self._steps.advance(self.group_id)
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
            self.replaced.pop(member.group_instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)

    def replace_static(self, group_instance_id: str, new_member_id: str) -> Member:
        """A static member has come back without its id: a new id replaces the old one, which is fenced."""
        old_member_id = self.static_members[group_instance_id]
        old = self.members.pop(old_member_id)
        self.awaiting_join -= old.awaits_join
        self.pending_syncs.pop(old_member_id, None)
        self.replaced[group_instance_id] = (*self.replaced.get(group_instance_id, ()), old_member_id)[-_REPLACED_MAX:]
        self.step = self._steps.advance(self.group_id)
        new = Member(
            new_member_id,
            group_instance_id,
            old.client_id,
            old.client_host,
            old.rebalance_timeout_ms,
            old.session_timeout_ms,
            old.protocols,
            old.assignment,
        )
        self.members[new_member_id] = new
        self.static_members[group_instance_id] = new_member_id
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        return new

    def update(self, member: Member, protocols: dict[str, bytes]) -> None:
        self._count_protocols(member, -1)
        member.protocols = protocols
        self._count_protocols(member, 1)

    def _count_protocols(self, member: Member, change: int) -> None:
        supported = self.supported_protocols
        for name in member.protocols:
            count = supported.get(name, 0) + change
            if count:
                supported[name] = count
            else:
                del supported[name]

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        if group_instance_id is not None:
            known = self.static_members.get(group_instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def error_of_absent(self, member_id: str) -> ErrorCode:
        """Return the error for a call that waited under this id."""
        is_replaced = any(member_id in replaced for replaced in self.replaced.values())
        return ErrorCode.FENCED_INSTANCE_ID if is_replaced else ErrorCode.UNKNOWN_MEMBER_ID

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest of its members' timeouts; never negative, even if they are."""
        return max(0, 0, *(member.rebalance_timeout_ms for member in self.members.values()))

    @property
    def has_all_members_joined(self) -> bool:
        return len(self.members) == self.awaiting_join and not self.pending_joins

    @property
    def is_unused(self) -> bool:
        """Whether only its name is known."""
        return not (
            self.members
            or self.pending_joins
            or self.offsets
            or self.generation_id
            or self.protocol_type is not None
            or self.stored is not None
        )

    # --- protocols ----------------------------------------------------------------------------------------------------

    def supports(self, protocol_type: str, protocols: dict[str, bytes]) -> bool:
        """Whether a client with these protocols could be a member."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        everybody = len(self.members)
        return self.protocol_type == protocol_type and any(
            self.supported_protocols.get(name, 0) == everybody for name in protocols
        )

    def select_protocol(self) -> str:
        """Return the protocol that most members prefer among those that all support; ties are broken by joining
        order.
        """
        everybody = len(self.members)
        candidates = {name for name, count in self.supported_protocols.items() if count == everybody}
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = member.vote(candidates)
            votes[name] = votes.get(name, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def note_subscriptions(self) -> None:
        """Parse subscriptions once per generation: metadata is large, and offsets are checked often."""
        self.subscribed_topics = self._subscribed_topics()

    def _subscribed_topics(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            assert self.protocol_name is not None
            subscribed = topics_of_subscription(member.protocols[self.protocol_name])
            if subscribed is None:
                return None
            topics |= subscribed
        return frozenset(topics)

    def is_subscribed_to(self, topic: str) -> bool:
        """A group of consumers whose subscriptions can't be read may be subscribed to any topic."""
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self.subscribed_topics

    # --- states -------------------------------------------------------------------------------------------------------

    @property
    def can_rebalance(self) -> bool:
        return self.state in _BEFORE[GroupState.PREPARING_REBALANCE]

    def move_to(self, state: GroupState, wall_ms: int) -> None:
        assert self.state in _BEFORE[state], f"a group that is {self.state.value} can't become {state.value}"
        if state is GroupState.PREPARING_REBALANCE:
            self.is_initial_rebalance = self.state is GroupState.EMPTY
        self.state = state
        self.state_wall_ms = wall_ms

    def begin_generation(self, wall_ms: int) -> None:
        """The join phase is over: the next generation has these members, which may be none."""
        self.generation_id = self.generation_id + 1 if self.generation_id < 0x7FFF_FFFF else 1
        self.pending_syncs.clear()
        if self.members:
            self.protocol_name = self.select_protocol()
            self.move_to(GroupState.COMPLETING_REBALANCE, wall_ms)
        else:
            self.protocol_name = None
            self.leader_id = None
            self.move_to(GroupState.EMPTY, wall_ms)
        self.note_subscriptions()

    def elect_leader_who_joined(self) -> bool:
        """Make sure that the leader is among those who have joined, electing another one if necessary. Return False if
        no member has joined.
        """
        leader = self.members.get(self.leader_id or "")
        if leader is not None and leader.awaits_join:
            return True
        joined = next((member for member in self.members.values() if member.awaits_join), None)
        if joined is None:
            return False
        self.leader_id = joined.member_id
        return True

    # --- answers ------------------------------------------------------------------------------------------------------

    def await_join(self, member: Member) -> None:
        self.awaiting_join += not member.awaits_join
        member.awaits_join = True
        member.joined = None

    def complete_join(self, member: Member, response: JoinGroupResponse) -> None:
        if member.awaits_join:
            member.awaits_join = False
            self.awaiting_join -= 1
            member.joined = response
            member.synced = None
            self.step = self._steps.advance(self.group_id)

    def complete_sync(self, member: Member, response: SyncGroupResponse) -> bool:
        """Answer a member that waits for its sync; return whether it waited."""
        if not member.awaits_sync:
            return False
        member.awaits_sync = False
        member.synced = response
        self.step = self._steps.advance(self.group_id)
        return True

    def join_response(self, member_id: str, *, tells_members: bool, skip_assignment: bool = False) -> JoinGroupResponse:
        """Return a member's response for the present generation; the leader's also lists the members."""
        return JoinGroupResponse(
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.leader_id or "",
            skip_assignment=skip_assignment,
            member_id=member_id,
            members=self._listed_members() if tells_members else [],
        )

    def _listed_members(self) -> list[JoinGroupResponseMember]:
        assert self.protocol_name is not None
        return [
            JoinGroupResponseMember(member.member_id, member.group_instance_id, member.protocols[self.protocol_name])
            for member in self.members.values()
        ]

    def sync_response(self, member: Member) -> SyncGroupResponse:
        return SyncGroupResponse(
            protocol_type=self.protocol_type, protocol_name=self.protocol_name, assignment=member.assignment
        )
