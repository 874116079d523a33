"""`python -m bench.groups.cores`: what a commit and a heartbeat cost in the cores, without sockets, streams and disks.

In one process fifty connections of a gateway's core each send a request; its messages are packed, scanned and given to
a group coordinator over a log that commits at once, and the answers go the same way back. The least CPU of many rounds
is reported, in microseconds per request: what others do on the machine hardly changes it. Saved under bench/results.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final

from barnabas.channel.generated.packing import (
    pack_coordinate_request,
    pack_coordinate_response,
    scan_coordinate_request,
    scan_coordinate_response,
)
from barnabas.channel.messages import CoordinateRequest, CoordinateResponse, Credit, GroupCall
from barnabas.wire.codec import encode_request
from barnabas.wire.messages import Request
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupResponse
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from bench.ending import end_in_order
from bench.report import command_line, commit, describe_machine, save_figures, utc_now
from tests.unit.gateway import world as gateway
from tests.unit.logstore.coordinator import support as coordinator

CONNECTIONS: Final = 50
TOPIC: Final = "bench-groups"
_SESSION_MS: Final = 1_800_000
_SAMPLES, _ROUNDS = 15, 40
_GATHER_MS: Final = 11
"""A little more than a gateway holds heartbeats back."""


@dataclass(slots=True)
class Cost:
    """CPU microseconds per request."""

    what: str
    gateway: float
    messages: float
    """Packing and scanning, in both directions."""
    coordinator: float


@dataclass(slots=True)
class Run:
    command: str
    commit: str
    taken: str
    """UTC."""
    machine: dict[str, str]
    costs: list[Cost] = field(default_factory=list)


class Cores:
    def __init__(self, what: str) -> None:
        topics = gateway.topic(TOPIC, leaders=(1,)), gateway.topic("__consumer_offsets", b"__offsets_topic_", (1,))
        self._what = what
        self._world = gateway.World(*topics)
        self._groups = coordinator.World()
        self._core = self._world.processor
        self._core.coordinate_response(1, CoordinateResponse(credit=Credit(1 << 40, 1 << 50)), self._world.now_ms)
        self._frames = [self._frame_of(self._join(f"group-{number}")) for number in range(CONNECTIONS)]
        for number in range(CONNECTIONS):
            self._core.connection_opened(number, "PLAINTEXT", "127.0.0.1:5000", self._world.now_ms)
        self._core.take_outputs()
        self._spent = [0.0, 0.0, 0.0]

    def _join(self, group_id: str) -> tuple[str, JoinGroupResponse]:
        groups = self._groups
        _, request_id = groups.first_join(group_id=group_id, session_timeout_ms=_SESSION_MS)
        groups.advance(3 * coordinator.DELAY_MS)
        joined = groups.joined(request_id)
        share = [SyncGroupRequestAssignment(joined.member_id, b"share")]
        sync = SyncGroupRequest(group_id, joined.generation_id, joined.member_id, None, None, None, share)
        groups.synced(groups.send(sync, 5))
        return group_id, joined

    def _frame_of(self, member: tuple[str, JoinGroupResponse]) -> bytes:
        group_id, joined = member
        request: Request = HeartbeatRequest(group_id, joined.generation_id, joined.member_id)
        version = 4
        if self._what == "OffsetCommit":
            offsets = [OffsetCommitRequestTopic(TOPIC, partitions=[OffsetCommitRequestPartition(0, 4711, 0, "")])]
            request = OffsetCommitRequest(group_id, joined.generation_id, joined.member_id, topics=offsets)
            version = 9
        return b"".join(encode_request(request, version, 1, "bench"))

    def sample(self) -> tuple[float, float, float]:
        """Return CPU microseconds per request: of the gateway, the messages and the coordinator."""
        self._spent = [0.0, 0.0, 0.0]
        for _ in range(_ROUNDS):
            self._round()
        in_gateway, in_messages, in_coordinator = [each / _ROUNDS / CONNECTIONS * 1e6 for each in self._spent]
        return in_gateway, in_messages, in_coordinator

    def _round(self) -> None:
        core, world, groups, spent = self._core, self._world, self._groups, self._spent
        world.now_ms += 20
        groups.now_ms += 1
        began = time.process_time()
        for number, frame in enumerate(self._frames):
            core.bytes_received(number, frame, world.now_ms)
        messages = [message for _, message in core.take_outputs().coordinates]
        world.now_ms += _GATHER_MS
        core.expire(world.now_ms)
        messages += [message for _, message in core.take_outputs().coordinates]
        sent = time.process_time()
        calls = [call for message in messages for call in _carried(message)]
        arrived = time.process_time()
        assert len(calls) == CONNECTIONS
        for call in calls:
            call.partition = coordinator.PARTITION
        groups.coordinator.begin_turn(groups.now_ms, groups.wall_ms)
        for call in calls:
            groups.coordinator.on_call(coordinator.STREAM, call)
        groups.coordinator.step(groups.now_ms)
        groups.tell_committed()
        answers = [answer for _, answer in groups.coordinator.take_answers()]
        answered = time.process_time()
        assert len(answers) == CONNECTIONS
        packed = pack_coordinate_response(CoordinateResponse(answers=answers))
        response = scan_coordinate_response(packed)
        returned = time.process_time()
        core.coordinate_response(1, response, world.now_ms)
        written = core.take_outputs().writes
        core.turn_over()
        ended = time.process_time()
        assert len(written) == CONNECTIONS
        groups.log.batches.clear()
        spent[0] += sent - began + ended - returned
        spent[1] += arrived - sent + returned - answered
        spent[2] += answered - arrived


def _carried(message: CoordinateRequest) -> list[GroupCall]:
    return scan_coordinate_request(pack_coordinate_request(message)).calls


def main() -> None:
    end_in_order()
    run = Run(command_line("bench.groups.cores"), commit(), utc_now(), describe_machine())
    for what in ("OffsetCommit", "Heartbeat"):
        cores = Cores(what)
        cores.sample()
        least = [min(part) for part in zip(*[cores.sample() for _ in range(_SAMPLES)], strict=True)]
        run.costs.append(Cost(what, *[round(each, 1) for each in least]))
        print(run.costs[-1])
    path = save_figures(run, "groups-cores")
    print(f"saved {path.name}")


if __name__ == "__main__":
    main()
