"""Offsets within transactions: pending until the marker, unstable meanwhile, and the same after another start."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest
from barnabas.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tests.unit.logstore.service.group_host import (
    CONSUMED,
    GROUP,
    OFFSETS_TOPIC,
    GroupHost,
    fetch_request,
    offsets_topic,
)
from tests.unit.logstore.service.test_markers import OK, PRODUCER, errors_of, markers

VERSION = 5


def leading(before: GroupHost | None = None) -> GroupHost:
    host = GroupHost(None if before is None else before.disk)
    host.lead(offsets_topic(0 if before is None else 1))
    return host


def request_of(offset: int, *, epoch: int = 0, metadata: str = "", **fields: Any) -> TxnOffsetCommitRequest:
    partitions = [TxnOffsetCommitRequestPartition(0, offset, committed_metadata=metadata)]
    topics = [TxnOffsetCommitRequestTopic(CONSUMED, partitions)]
    return TxnOffsetCommitRequest("tx", GROUP, PRODUCER, epoch, topics=topics, **fields)


def send(host: GroupHost, request: TxnOffsetCommitRequest, guard: int = 0) -> tuple[ErrorCode, int]:
    """The error, of the call or of its partition, and the guard."""
    call_id = host.call(request, VERSION, verification_guard=guard)
    host.settle()
    answer = host.answers[call_id]
    if answer.error_code:
        return ErrorCode(answer.error_code), answer.verification_guard
    response = host.answer_of(call_id)
    assert isinstance(response, TxnOffsetCommitResponse)
    return ErrorCode(response.topics[0].partitions[0].error_code), 0


def pend(host: GroupHost, offset: int, **fields: Any) -> None:
    """Commit within a transaction that its coordinator confirms when it is asked for."""
    error, guard = send(host, request_of(offset, **fields))
    if guard:
        error, _ = send(host, request_of(offset, **fields), guard)
    assert error is OK


def end(host: GroupHost, *, commit: bool = True, epoch: int = 1) -> None:
    request = markers((OFFSETS_TOPIC, 0), commit=commit, epoch=epoch, version=2)
    assert errors_of(host.ask(request, 2)) == [OK]


def stable(host: GroupHost) -> tuple[int, int]:
    """What a consumer gets that asks for stable offsets: the error, and the offset."""
    request = fetch_request()
    request.require_stable = True
    found = host.ask(request, 8).groups[0].topics[0].partitions[0]
    return found.error_code, found.committed_offset


def test_the_first_offset_of_a_transaction_needs_the_guard_that_it_is_refused_with() -> None:
    host = leading()
    error, guard = send(host, request_of(42))
    assert error is ErrorCode.INVALID_TXN_STATE
    assert guard
    assert send(host, request_of(42), guard + 1) == (ErrorCode.INVALID_TXN_STATE, guard)
    assert send(host, request_of(42), guard) == (OK, 0)
    assert send(host, request_of(43)) == (OK, 0), "it is open now"


def test_a_guard_that_the_marker_of_the_transaction_before_has_voided_is_replaced() -> None:
    """At version 2 a client goes on before the markers of its transaction are written."""
    host = leading()
    pend(host, 42)
    error, early = send(host, request_of(43, epoch=1))
    assert (error, early > 0) == (ErrorCode.INVALID_TXN_STATE, True)
    end(host)
    error, guard = send(host, request_of(43, epoch=1), early)
    assert error is ErrorCode.INVALID_TXN_STATE
    assert guard not in (0, early)
    assert send(host, request_of(43, epoch=1), guard) == (OK, 0)


@pytest.mark.parametrize(("commit", "found"), [(True, 42), (False, 41)])
def test_they_count_when_the_transaction_is_committed(commit: bool, found: int) -> None:
    host = leading()
    host.commit(41)
    pend(host, 42)
    assert host.committed() == 41
    assert stable(host) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    end(host, commit=commit)
    assert stable(host) == (OK, found)
    assert leading(host).committed() == found


def test_what_is_pending_outlives_the_process() -> None:
    before = leading()
    pend(before, 42)
    host = leading(before)
    assert stable(host) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    end(host)
    assert stable(host) == (OK, 42)


def test_the_order_of_one_turn_is_that_of_the_log() -> None:
    host = leading()
    pend(host, 1)
    host.call(request_of(2), VERSION)
    host.commit(3)
    host.settle()
    end(host)
    assert host.committed() == 3
    assert leading(host).committed() == 3


def test_a_producer_that_was_fenced_commits_nothing() -> None:
    host = leading()
    pend(host, 42)
    end(host, epoch=7)
    assert send(host, request_of(43, epoch=6)) == (ErrorCode.INVALID_PRODUCER_EPOCH, 0)


def test_a_member_of_another_generation_is_fenced() -> None:
    host = leading()
    assert send(host, request_of(1, generation_id=3, member_id="m"))[0] is ErrorCode.ILLEGAL_GENERATION
    joined = host.joined()
    host.synced(joined)
    generation_id, member_id = joined.generation_id, joined.member_id
    assert send(host, request_of(1, generation_id=generation_id, member_id="m"))[0] is ErrorCode.UNKNOWN_MEMBER_ID
    later = request_of(1, generation_id=generation_id + 1, member_id=member_id)
    assert send(host, later)[0] is ErrorCode.ILLEGAL_GENERATION
    pend(host, 1, generation_id=generation_id, member_id=member_id)
    pend(host, 2)
    end(host)
    assert host.committed() == 2


def test_metadata_that_are_too_large_fail_alone() -> None:
    host = leading()
    assert send(host, request_of(1, metadata="m" * 5_000)) == (ErrorCode.OFFSET_METADATA_TOO_LARGE, 0)


def test_a_group_that_is_deleted_takes_what_is_pending_with_it() -> None:
    host = leading()
    host.commit(41)
    pend(host, 42)
    assert host.ask(DeleteGroupsRequest([GROUP]), 2).results[0].error_code == OK
    assert stable(host) == (OK, -1)
    end(host)
    assert host.committed() == -1
    assert leading(host).committed() == -1


def test_a_pending_offset_keeps_the_one_before_from_expiring() -> None:
    host = leading()
    host.commit(41)
    pend(host, 42)
    (led,) = host.core._coordination.partitions
    (group,) = led.shard.groups
    led.shard.expiry._offsets._clock.wall_ms += 1 << 50
    led.shard.expiry._offsets.expire(group)
    assert host.committed() == 41
