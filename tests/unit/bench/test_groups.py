"""The members that the bench of groups measures with, and what it makes of its figures."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import decode_request, encode_response
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import decode_request_header
from barnabas.wire.messages import Request, Response
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas_cli.local.processes import ProcessIdentity
from bench.groups import measurements
from bench.groups.measurements import CommittingGroups, Comparison, Sample
from bench.groups.members import TOPIC, Committer, Group, Member, RefusedError
from bench.groups.report import GroupsRun, table
from bench.groups.swarm import Swarm
from bench.report import ROOT

SECONDS_MAX = 20.0
Answer = Callable[[Request], Response]


@contextmanager
def broker(answer: Answer) -> Iterator[tuple[str, int]]:
    """One connection, each request of which is answered."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("rwb") as stream:
            while size := stream.read(4):
                frame = memoryview(stream.read(int.from_bytes(size, "big")))
                header, position = decode_request_header(frame)
                request = decode_request(header.api_key, header.api_version, frame, position)
                for buffer in encode_response(answer(request), header.api_version, header.correlation_id):
                    stream.write(buffer)
                stream.flush()

    server = threading.Thread(target=serve)
    server.start()
    try:
        address: tuple[str, int] = listener.getsockname()
        yield address
    finally:
        server.join()
        listener.close()


class OneMember:
    """Coordinates a group of one, which rebalances at its second heartbeat."""

    def __init__(self) -> None:
        self.asked: list[ApiKey] = []
        self.generation_id = 0

    def __call__(self, request: Request) -> Response:
        match request:
            case JoinGroupRequest(member_id=""):
                return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, protocol_name="", member_id="m")
            case JoinGroupRequest():
                self.generation_id += 1
                members = [JoinGroupResponseMember("m", None, b"")]
                return JoinGroupResponse(0, 0, self.generation_id, "consumer", "range", "m", False, "m", members)
            case SyncGroupRequest():
                (own,) = request.assignments
                return SyncGroupResponse(0, 0, "consumer", "range", own.assignment)
            case HeartbeatRequest():
                self.asked.append(ApiKey.HEARTBEAT)
                return HeartbeatResponse(0, ErrorCode.REBALANCE_IN_PROGRESS if len(self.asked) == 2 else ErrorCode.NONE)
            case _:
                raise AssertionError(request)


def test_a_member_joins_and_asks_on_until_it_joins_again() -> None:
    coordinator = OneMember()
    with broker(coordinator) as address, Swarm() as swarm:
        group = Group("g")
        member = Member(swarm, swarm.connect(address), group)
        member.join()
        swarm.run(lambda: group.is_whole_after(-1), SECONDS_MAX)
        group.check()
        assert (member.member_id, member.generation_id) == ("m", 1)
        member.ask_on([])
        swarm.run(lambda: group.is_whole_after(1), SECONDS_MAX)
        assert member.generation_id == 2
        assert member.heartbeats == 2


def test_commits_are_those_of_the_generation_that_has_formed(monkeypatch: pytest.MonkeyPatch) -> None:
    """They had no member id where they were made while the groups of both sides still formed."""
    committed: list[OffsetCommitRequest] = []
    coordinator = OneMember()

    def answer(request: Request) -> Response:
        if not isinstance(request, OffsetCommitRequest):
            return coordinator(request)
        committed.append(request)
        partition = OffsetCommitResponsePartition(0, ErrorCode.NONE)
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name=TOPIC, partitions=[partition])])

    class NoSide:
        name = bootstrap = ""
        flags: dict[str, str] = {}  # noqa: RUF012
        sessions: list[ProcessIdentity] = []  # noqa: RUF012

        def start(self) -> None: ...
        def stop(self) -> None: ...

    with broker(answer) as address, Swarm() as swarm:
        monkeypatch.setattr(measurements, "COMMITTERS", 1)
        monkeypatch.setattr(measurements, "coordinators_of", lambda _, names: dict.fromkeys(names, address))
        groups = CommittingGroups(swarm, NoSide(), 1)
        swarm.run(lambda: groups.are_formed, SECONDS_MAX)
        assert groups.sample(0.01).operations == len(committed) > 0
    assert {(each.member_id, each.generation_id_or_member_epoch) for each in committed} == {("m", 1)}


def test_a_group_is_whole_when_all_have_the_newest_assignment() -> None:
    group = Group("g")
    with Swarm() as swarm, socket.create_server(("127.0.0.1", 0)) as listener:
        connection = swarm.connect(listener.getsockname())
        for _ in range(2):
            group.members[Member(swarm, connection, group)] = None
        group.has_assignment(1)
        assert not group.is_whole_after(0)
        group.has_assignment(2)
        assert not group.is_whole_after(0), "one each of two generations"
        group.has_assignment(1)
        group.has_assignment(2)
        assert group.is_whole_after(1)
        assert not group.is_whole_after(2)


@pytest.mark.parametrize("is_refused", [False, True])
def test_commits_go_one_after_the_other_and_a_refusal_is_seen(is_refused: bool) -> None:
    answered: list[Request] = []

    def answer(request: Request) -> Response:
        assert isinstance(request, OffsetCommitRequest)
        answered.append(request)
        code = ErrorCode.ILLEGAL_GENERATION if is_refused and len(answered) == 3 else ErrorCode.NONE
        partitions = [OffsetCommitResponsePartition(0, ErrorCode.NONE), OffsetCommitResponsePartition(1, code)]
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name=TOPIC, partitions=partitions)])

    with broker(answer) as address, Swarm() as swarm:
        connection = swarm.connect(address)
        group = Group("g")
        committer = Committer(connection, group, Member(swarm, connection, group), partitions=2)
        committer.begin()
        if is_refused:
            with pytest.raises(RefusedError, match="ILLEGAL_GENERATION"):
                swarm.run(lambda: committer.commits == 5, SECONDS_MAX)
            assert committer.commits == 2
        else:
            swarm.run(lambda: committer.commits == 5, SECONDS_MAX)
            committer.end()
            swarm.run(lambda: committer.is_idle, SECONDS_MAX)
            assert committer.commits == len(answered)


def test_what_is_due_is_done_in_its_order() -> None:
    done: list[int] = []
    with Swarm() as swarm:
        swarm.at(0.2, lambda: done.append(2))
        swarm.at(0.1, lambda: done.append(1))
        swarm.at(0.2, lambda: done.append(3))
        swarm.run(lambda: len(done) == 3, SECONDS_MAX)
    assert done == [1, 2, 3]


def sample(value: float) -> Sample:
    return Sample(value, cpu_us=40.0, operations=100, seconds=1.0)


def test_a_ratio_is_taken_pair_by_pair() -> None:
    comparison = Comparison("commits-1", "commits", "commits/s", "≥ 1.0", "commit")
    comparison.ours = [sample(2000), sample(4000), sample(3000)]
    comparison.theirs = [sample(2000), sample(1000), sample(1500)]
    machine = {"cpu": "2 × CPU", "memory": "4 GiB", "kernel": "6", "python": "3.11", "load average before": "0.10"}
    flags = {"num.network.threads": "3", "node.id": "1"}
    run = GroupsRun("command", "commit", "now", machine, "Ours", "Theirs", 3, flags, flags, [comparison])
    text = table(run, ROOT / "x.json")
    assert (
        "| commits | ≥ 1.0 | 3,000 commits/s (2,000–4,000) | 1,500 commits/s (1,000–2,000) "
        "| **2.00** (1.00–4.00), 3 pairs | 40 µs a commit | 40 µs a commit |" in text.splitlines()
    )
    assert "`__consumer_offsets` has 3 replicas" in text
    assert "num.network.threads=3" in text
    assert "node.id" not in text
