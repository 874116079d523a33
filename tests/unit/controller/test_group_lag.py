"""How far a group lags: behind what can be read, as Kafka's tools count it, and never by what is not committed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from barnabas.cluster.internal_topics import OFFSETS_TOPIC
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import Response
from barnabas.wire.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from barnabas_controller.shell.operations.calls import Call
from barnabas_controller.shell.operations.groups import Groups
from barnabas_controller.shell.operations.logstore_questions import GroupQuestion, LogstoreQuestions
from barnabas_protos.controller.v1 import operations_pb2 as pb
from barnabas_protos.logstore.v1 import administration_pb2
from tests.unit.controller.test_drains import with_logstores
from tests.unit.controller.test_operations_service import make


class _Logstores:
    """A group that has committed offset 4, and leaders that answer with `answer`."""

    def __init__(self, answer: administration_pb2.EndOffsetAnswer) -> None:
        self._answer = answer

    async def ask_coordinator(
        self, node_id: int, questions: Sequence[GroupQuestion], timeout_ms: int
    ) -> list[Response | ErrorCode]:
        committed = OffsetFetchResponseTopics("events", bytes(16), [OffsetFetchResponsePartitions(0, 4, -1, "", 0)])
        return [
            DescribeGroupsResponse(0, [DescribedGroup(0, None, "readers", "Empty", "consumer", "", [])]),
            OffsetFetchResponse(0, [], 0, [OffsetFetchResponseGroup("readers", [committed], 0)]),
        ]

    async def administer(self, node_id: int, method: str, request: Any, answer_type: Any, timeout_ms: int) -> Any:
        return administration_pb2.EndOffsetsResponse(partitions=[self._answer])


class _Context:
    def time_remaining(self) -> float | None:
        return None


def described(answer: administration_pb2.EndOffsetAnswer) -> pb.DescribeGroupResponse:
    cluster, controller = with_logstores(1)
    make(cluster, controller, "events")
    make(cluster, controller, OFFSETS_TOPIC)
    groups = Groups(controller.core, cast("LogstoreQuestions", _Logstores(answer)))
    method = groups.methods()["DescribeGroup"]
    response = asyncio.run(
        cast("Any", method)(pb.DescribeGroupRequest(group_id="readers"), Call(cast("Any", _Context())))
    )
    assert isinstance(response, pb.DescribeGroupResponse)
    return response


def test_a_lag_counts_up_to_the_high_watermark_and_not_what_follows_it() -> None:
    """The leader's log ends at 10, and 3 of these records are on no other replica yet."""
    response = described(
        administration_pb2.EndOffsetAnswer(
            leader_epoch=0, end_offset=10, latest=administration_pb2.LatestOffset(offset=7)
        )
    )
    (offset,) = response.offsets
    assert (offset.committed_offset, offset.log_end_offset, offset.lag) == (4, 7, 3)
    assert (response.total_lag, list(response.unanswered)) == (3, [])


def test_where_nothing_is_readable_the_lag_is_nothing() -> None:
    """After records were lost: an offset that was committed lies beyond."""
    response = described(
        administration_pb2.EndOffsetAnswer(
            leader_epoch=0, end_offset=10, latest=administration_pb2.LatestOffset(offset=0)
        )
    )
    (offset,) = response.offsets
    assert (offset.log_end_offset, offset.lag) == (0, 0)


def test_a_leader_that_does_not_know_yet_is_named_and_the_lag_is_not_made_up() -> None:
    response = described(administration_pb2.EndOffsetAnswer(leader_epoch=0, end_offset=10))
    (offset,) = response.offsets
    assert (offset.log_end_offset, offset.lag) == (-1, -1)
    assert list(response.unanswered) == [
        "logstore 1 has no end offset of events-0: it is not known yet",
    ]
