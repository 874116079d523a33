"""A member that waits for its group: parked in purgatory, and collected when the group has reached that step.

A request is never sent to the coordinator twice, since a repeated join may begin a rebalance: only the result is
collected, as often as necessary. There is no final deadline. A member waits as long as its coordinator says, which the
group's own rebalance timeout ends; a coordinator that can't be reached for `group_call_ms_max`, and any sign that it is
not the coordinator any more, ends the wait with NOT_COORDINATOR.
"""

from __future__ import annotations

from typing import assert_never

from barnabas.channel.messages import Completion, GroupCollect, GroupWait, Outcome, ParkGroup
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas_gateway.core.backends.coordinator_client import CoordinatorClient, PendingAsk
from barnabas_gateway.core.backends.group_routing import GroupRouting
from barnabas_gateway.core.backends.purgatory_client import Pod, PurgatoryClient
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.requests.group_request import GroupHandler, PendingGroupRequest
from barnabas_gateway.core.requests.handler import RequestEnvironment
from barnabas_gateway.core.timing.hops import Hop


class MemberHandler(GroupHandler):
    """Serves an API whose answer may have to wait for the other members of the group."""

    def __init__(
        self,
        environment: RequestEnvironment,
        coordinators: CoordinatorClient,
        group_routing: GroupRouting,
        purgatory: PurgatoryClient,
    ) -> None:
        super().__init__(environment, coordinators, group_routing)
        self.purgatory = purgatory


class PendingMemberRequest(PendingGroupRequest):
    """In at most one of these states: it is sent (`_ask`), it is parked (`pod`), or it pauses, by its deadline."""

    __slots__ = ("_give_up_ms", "_parked_until_ms", "_purgatory", "_wait", "entry_id", "pod")

    def __init__(self, handler: MemberHandler, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self._purgatory = handler.purgatory
        self._wait: GroupWait | None = None
        """The coordinator's last answer; None until there is one."""
        self._give_up_ms = -1
        """When a coordinator that can't be reached is given up; -1 while it can."""
        self._parked_until_ms = 0
        self.pod: Pod | None = None
        self.entry_id = 0

    def has_to_wait(self, wait: GroupWait) -> None:
        if self.kind is not None or self.connection.is_closed:
            return  # An exception has ended it before it knew of the call that this is the answer to.
        is_collected = self._wait is not None
        self._wait = wait
        self._give_up_ms = -1
        handler = self.handler
        # Members may be many and their metadata large, and none of it is held here any more.
        handler.responder.forget_frame(self)
        if self._park(wait):
            handler.deadlines.schedule(self, self._parked_until_ms + handler.config.deadline_grace_ms)
        elif is_collected:
            self._pause()
        else:
            self._collect()

    def _park(self, wait: GroupWait) -> bool:
        coordinator, handler = self._coordinator, self.handler
        assert coordinator is not None
        config = handler.config
        wait_ms = max(config.group_poll_ms, min(wait.wait_ms_max, config.group_wait_ms_max))
        self._parked_until_ms = handler.clock.now_ms + wait_ms
        park = ParkGroup(
            0,
            wait_ms,
            coordinator.topic_id,
            coordinator.partition,
            coordinator.node_id,
            wait.coordinator_epoch,
            wait.group_id,
            wait.step,
        )
        return self._purgatory.park_group(self, park)

    def completed(self, completion: Completion) -> None:
        """Purgatory's answer."""
        self.pod = None
        match completion.outcome:
            case Outcome.SATISFIED:
                self._collect()
            case Outcome.EXPIRED:
                # A full pod answers at once.
                if self.handler.clock.now_ms < self._parked_until_ms:
                    self._pause()
                else:
                    self._collect()
            case Outcome.FENCED:
                self.refuse(ErrorCode.NOT_COORDINATOR)
            case unknown:
                assert_never(unknown)

    def pod_lost(self) -> None:
        self._collect()

    def _collect(self) -> None:
        coordinator, wait, handler = self._coordinator, self._wait, self.handler
        assert coordinator is not None
        assert wait is not None
        led = handler.image.partition(coordinator.topic_id, coordinator.partition)
        if led is None or led.leader_epoch > wait.coordinator_epoch:
            self.refuse(ErrorCode.NOT_COORDINATOR)
            return
        collect = GroupCollect(
            0,
            coordinator.partition,
            self.header.api_key,
            self.header.api_version,
            wait.coordinator_epoch,
            wait.group_id,
            wait.member_id,
            wait.generation_id,
        )
        self._ask = handler.coordinators.submit_ask(self, coordinator.node_id, collect)
        if self._ask is None:
            self._is_out_of_reach()
        else:
            handler.deadlines.schedule(self, handler.clock.now_ms + handler.config.group_call_ms_max)

    def _is_out_of_reach(self) -> None:
        handler = self.handler
        if self._give_up_ms < 0:
            self._give_up_ms = handler.clock.now_ms + handler.config.group_call_ms_max
        if handler.clock.now_ms >= self._give_up_ms:
            self.refuse(ErrorCode.NOT_COORDINATOR)
        else:
            self._pause()

    def _pause(self) -> None:
        """Wait before the next query."""
        handler = self.handler
        if self.timing is not None:
            self.timing.enter(Hop.PURGATORY)
        handler.deadlines.schedule(self, handler.clock.now_ms + handler.config.group_poll_ms)

    def group_lost(self, ask: PendingAsk) -> None:
        if self._wait is None:
            super().group_lost(ask)
        else:
            self._ask = None
            self._is_out_of_reach()

    def expire(self, now_ms: int) -> None:
        if self._wait is None:
            super().expire(now_ms)
        elif self._ask is not None:
            self.cancel()
            self._is_out_of_reach()
        else:
            self.cancel()
            self._collect()

    def cancel(self) -> None:
        super().cancel()
        self._purgatory.cancel_entry(self)
