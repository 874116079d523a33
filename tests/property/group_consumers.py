"""Consumers of one group, each a small automaton that does what Kafka's clients do, one request at a time."""

from __future__ import annotations

from typing import Final

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import Request
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.wire.messages.offset_commit import OffsetCommitResponse
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.unit.logstore.coordinator.support import World, commit_request, join_request, subscription

PARTITIONS: Final = range(4)
GROUP: Final = "group"
SESSION_MS: Final = 6_000
REBALANCE_MS: Final = 4_000


class Consumer:
    """Dynamic, or static by its instance id, in the versions of one client."""

    def __init__(
        self,
        world: World,
        instance_id: str | None,
        join_version: int,
    ) -> None:
        self.world = world
        self.instance_id = instance_id
        self.join_version = join_version
        self.topics: tuple[str, ...] = ("topic",)
        self.is_fenced = False
        """Another has its instance: it stops, until it is started again."""
        self.forget()

    def forget(self) -> None:
        """It starts over without any state."""
        self.member_id = ""
        self.generation_id = -1
        self.joined: JoinGroupResponse | None = None
        self.share: str | None = None
        self.request_id: int | None = None
        """Of the join or sync that it waits for."""
        self.is_joining = False

    @property
    def identity(self) -> str:
        return self.instance_id or self.member_id

    @property
    def is_stable(self) -> bool:
        return self.share is not None

    def act(self) -> None:
        """The next thing that a client would do."""
        if self.is_fenced:
            return
        if self.request_id is not None:
            self._look_for_answer()
        elif self.joined is None:
            self.join()
        elif self.share is None:
            self._sync(self.joined)
        else:
            self._heartbeat()

    def _send(self, request: Request, version: int) -> int:
        return self.world.send(request, version, client_id="consumer")

    def _send_and_wait(self, request: Request, version: int) -> None:
        self.request_id = self.world.last_id + 1
        self._send(request, version)

    def _look_for_answer(self) -> None:
        assert self.request_id is not None
        world = self.world
        answer = world.answers.get(self.request_id)
        if answer is None:
            return
        if answer.wait is not None:
            if world.is_over(answer.wait):
                waited, self.request_id = self.request_id, world.last_id + 1
                world.collect(waited)
        elif answer.error_code:
            self._start_over(ErrorCode(answer.error_code))
        elif self.is_joining:
            self._on_joined(world.body_of(self.request_id, JoinGroupResponse))
        else:
            self._on_synced(world.body_of(self.request_id, SyncGroupResponse))

    def _start_over(self, error: ErrorCode) -> None:
        """Join again, as the same member where that may still be known."""
        self.request_id = self.joined = self.share = None
        match error:
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
                self.generation_id = -1
            case ErrorCode.ILLEGAL_GENERATION:
                self.generation_id = -1
            case ErrorCode.FENCED_INSTANCE_ID:
                assert self.instance_id is not None
                self.is_fenced = True
            case _:
                assert error in (
                    ErrorCode.REBALANCE_IN_PROGRESS,
                    ErrorCode.NOT_COORDINATOR,
                    ErrorCode.COORDINATOR_NOT_AVAILABLE,
                    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                ), error.name

    # --- join ---------------------------------------------------------------------------------------------------------

    def join(self) -> None:
        self.joined = self.share = None
        self.is_joining = True
        request = join_request(
            self.member_id,
            group_instance_id=self.instance_id if self.join_version >= 5 else None,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocols=[JoinGroupRequestProtocol("range", subscription(*self.topics))],
        )
        self._send_and_wait(request, self.join_version)

    def _on_joined(self, response: JoinGroupResponse) -> None:
        error = ErrorCode(response.error_code)
        if error == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self.join()
        elif error:
            self._start_over(error)
        else:
            self.request_id = None
            self.joined = response
            self.member_id = response.member_id
            self.generation_id = response.generation_id
            assert response.generation_id > 0
            assert not response.members or response.member_id in {each.member_id for each in response.members}

    # --- sync ---------------------------------------------------------------------------------------------------------

    def _sync(self, joined: JoinGroupResponse) -> None:
        self.is_joining = False
        assigns = joined.leader == self.member_id and not joined.skip_assignment
        given = [SyncGroupRequestAssignment(member, share.encode()) for member, share in self._shares(joined)]
        request = SyncGroupRequest(
            GROUP, joined.generation_id, self.member_id, self.instance_id, None, None, given if assigns else []
        )
        self._send_and_wait(request, 5)

    def sync_again(self) -> None:
        if self.request_id is not None and not self.is_joining and self.joined is not None:
            self._sync(self.joined)

    def _shares(self, joined: JoinGroupResponse) -> list[tuple[str, str]]:
        """Every partition to one member; each assignment is another one."""
        members = [each.member_id for each in joined.members]
        turn = self.world.last_id
        shares: dict[str, list[str]] = {member: [] for member in members}
        for partition in PARTITIONS if members else ():
            shares[members[(partition + turn) % len(members)]].append(str(partition))
        return [(member, f"{turn}:{','.join(share)}") for member, share in shares.items()]

    def _on_synced(self, response: SyncGroupResponse) -> None:
        if response.error_code:
            self._start_over(ErrorCode(response.error_code))
            return
        self.request_id = None
        self.share = bytes(response.assignment).decode()

    # --- and after that -----------------------------------------------------------------------------------------------

    def _heartbeat(self) -> None:
        sent = self._send(HeartbeatRequest(GROUP, self.generation_id, self.member_id, self.instance_id), 4)
        answer = self.world.answers[sent]
        error = answer.error_code or self.world.body_of(sent, HeartbeatResponse).error_code
        if error:
            self._start_over(ErrorCode(error))

    def commit(self, offset: int, partition: int) -> int:
        """The request's id."""
        request = commit_request(
            offset,
            generation_id=self.generation_id,
            member_id=self.member_id,
            instance_id=self.instance_id,
            partition=partition,
        )
        return self._send(request, 9)

    def leave(self) -> None:
        identity = MemberIdentity(self.member_id, self.instance_id)
        self._send(LeaveGroupRequest(GROUP, members=[identity]), 5)
        self.forget()


def committed(world: World, request_id: int) -> bool | None:
    """Whether a commit was acknowledged; None while unknown."""
    answer = world.answers.get(request_id)
    if answer is None:
        return None
    if answer.error_code:
        return False
    response = world.body_of(request_id, OffsetCommitResponse)
    return response.topics[0].partitions[0].error_code == ErrorCode.NONE
