"""No step of the coordinator is long, whatever gateways put to it: the costliest calls that they make, many at once.

The instructions of a turn are counted, so that the tests are the same on every machine. The bounds are a quarter above
what a step takes.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.channel.messages import CoordinateRequest, Hello
from barnabas.wire.messages import Request
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas_gateway.core.handlers.api_11_join_group import PROTOCOLS_MAX
from barnabas_gateway.core.requests.group_request import GROUP_CALL_ELEMENTS_MAX
from tests.costly.instructions import counted
from tests.unit.logstore.service.group_host import GROUP, GroupHost, offsets_topic
from tests.unit.logstore.service.support import CLUSTER_ID

STREAMS = range(100, 108)
"""Of so many processors: each has credit for 8 calls at least."""
CALLS = 48
"""More than there may be in a step."""
ELEMENTS = GROUP_CALL_ELEMENTS_MAX
"""In a call."""
GROUPS = ELEMENTS // 10
"""In a call: gateways count a group for ten elements."""


def commit(number: int) -> tuple[Request, int]:
    partitions = [OffsetCommitRequestPartition(each, number, committed_metadata="") for each in range(ELEMENTS)]
    return OffsetCommitRequest(GROUP, topics=[OffsetCommitRequestTopic("t", partitions=partitions)]), 8


def commit_of_many_topics(number: int) -> tuple[Request, int]:
    partitions = [OffsetCommitRequestPartition(0, number, committed_metadata="")]
    topics = [OffsetCommitRequestTopic(f"t{each}", partitions=partitions) for each in range(ELEMENTS // 2)]
    return OffsetCommitRequest(GROUP, topics=topics), 8


def fetch(_: int) -> tuple[Request, int]:
    topics = [OffsetFetchRequestTopics("t", partition_indexes=list(range(ELEMENTS)))]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP, topics=topics)]), 8


def delete_offsets(_: int) -> tuple[Request, int]:
    partitions = [OffsetDeleteRequestPartition(each) for each in range(ELEMENTS)]
    return OffsetDeleteRequest(GROUP, [OffsetDeleteRequestTopic("t", partitions)]), 0


def join(number: int) -> tuple[Request, int]:
    protocols = [JoinGroupRequestProtocol(f"protocol {each}", b"") for each in range(PROTOCOLS_MAX)]
    instance = f"instance {number}"
    return JoinGroupRequest("joined", 10_000, 20_000, "", instance, "consumer", protocols), 7


def leave(number: int) -> tuple[Request, int]:
    members = [MemberIdentity(f"member {number} {each}") for each in range(ELEMENTS)]
    return LeaveGroupRequest(GROUP, members=members), 5


def delete_groups(number: int) -> tuple[Request, int]:
    return DeleteGroupsRequest([f"g{number}-{each}" for each in range(GROUPS)]), 2


def describe_groups(number: int) -> tuple[Request, int]:
    return DescribeGroupsRequest([f"g{number}-{each}" for each in range(GROUPS)]), 5


def longest_turn(host: GroupHost, asked: list[tuple[Request, int]]) -> int:
    """The instructions of the longest turn until all these calls, which come at once, are answered."""
    for stream_id in STREAMS:
        host.core.on_coordinate(stream_id, CoordinateRequest(Hello(CLUSTER_ID, "gateway")))
    host.turn()
    for number, (request, version) in enumerate(asked):
        host.call(request, version, stream_id=STREAMS[number % len(STREAMS)])
    answered = longest = 0
    while answered < len(asked):
        assert host.core.has_work, "not all of them are answered"
        with counted() as count:
            host.turn()
        longest = max(longest, count.instructions)
        answered += sum(len(response.answers) for _, response in host.out.coordinations)
    return longest


INSTRUCTIONS_MAX = {
    commit: 580_000,
    commit_of_many_topics: 690_000,
    fetch: 500_000,
    delete_offsets: 360_000,
    join: 250_000,
    leave: 520_000,
    delete_groups: 290_000,
    describe_groups: 550_000,
}


@pytest.mark.parametrize("costly", INSTRUCTIONS_MAX, ids=lambda costly: costly.__name__)
def test_a_step_ends_however_much_waits(costly: Callable[[int], tuple[Request, int]]) -> None:
    host = GroupHost()
    host.lead(offsets_topic())
    host.ask(*commit(0))
    assert longest_turn(host, [costly(number) for number in range(CALLS)]) < INSTRUCTIONS_MAX[costly]
