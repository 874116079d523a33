"""Which offset counts where transactions of several producers, and commits outside of any, meet in one place.

The one whose record is the last in the log, of those that were committed, in whatever order the markers came (as in
Kafka): compaction keeps the last record of a key, so another rule would give another answer once the log is compacted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations

import pytest

from barnabas.wire.messages.delete_groups import DeleteGroupsRequest
from barnabas.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas_logstore.core.coordinator.groups.records import OffsetCommitValue
from tests.unit.logstore.service.group_host import CONSUMED, GROUP, OFFSETS_TOPIC, GroupHost
from tests.unit.logstore.service.test_markers import OK, PRODUCER, markers
from tests.unit.logstore.service.test_transactional_offsets import end, leading, pend, request_of, send, stable

FIRST, SECOND, PLAIN = 101, 102, 103
STAGE_FIRST, STAGE_SECOND, COMMIT, END_FIRST, END_SECOND, REMOVE = range(6)
REMOVALS = {
    "of an offset": (
        OffsetDeleteRequest(GROUP, [OffsetDeleteRequestTopic(CONSUMED, [OffsetDeleteRequestPartition(0)])]),
        0,
    ),
    "of a group": (DeleteGroupsRequest([GROUP]), 2),
}


def histories(count: int = 5) -> Iterator[tuple[int, ...]]:
    """Return each order of the first `count` events in which a transaction ends after it has begun."""
    for order in permutations(range(count)):
        if order.index(STAGE_FIRST) < order.index(END_FIRST) and order.index(STAGE_SECOND) < order.index(END_SECOND):
            yield order


def stage(host: GroupHost, producer_id: int, offset: int) -> None:
    request = replace(request_of(offset), producer_id=producer_id)
    error, guard = send(host, request)
    if guard:
        error, _ = send(host, request, guard)
    assert error is OK


def finish(host: GroupHost, producer_id: int, *, commit: bool) -> None:
    request = markers((OFFSETS_TOPIC, 0), epoch=1, commit=commit, version=2)
    request.markers[0].producer_id = producer_id
    (answered,) = host.ask(request, 2).markers
    assert answered.topics[0].partitions[0].error_code == OK


@pytest.mark.parametrize("second_commits", [True, False])
@pytest.mark.parametrize("first_commits", [True, False])
def test_the_last_committed_record_counts_in_every_order(first_commits: bool, second_commits: bool) -> None:
    for order in histories():
        host = leading()
        for event in order:
            match event:
                case 0:
                    stage(host, PRODUCER, FIRST)
                case 1:
                    stage(host, PRODUCER + 1, SECOND)
                case 2:
                    host.commit(PLAIN)
                case 3:
                    finish(host, PRODUCER, commit=first_commits)
                case _:
                    finish(host, PRODUCER + 1, commit=second_commits)
        counting = {COMMIT: PLAIN}
        counting |= {STAGE_FIRST: FIRST} if first_commits else {}
        counting |= {STAGE_SECOND: SECOND} if second_commits else {}
        expected = [counting[event] for event in order if event in counting][-1]
        assert host.committed() == expected, order
        assert stable(host) == (OK, expected), order
        assert leading(host).committed() == expected, order


@pytest.mark.parametrize("second_commits", [True, False])
@pytest.mark.parametrize("removal", REMOVALS)
def test_what_is_removed_while_it_is_pending_stays_removed(removal: str, second_commits: bool) -> None:
    """What is committed behind the removal counts, and the next life agrees."""
    for order in histories(6):
        if not order.index(STAGE_FIRST) < order.index(REMOVE) < order.index(END_FIRST):
            continue
        host = leading()
        expected = -1
        for event in order:
            match event:
                case 0:
                    stage(host, PRODUCER, FIRST)
                case 1:
                    stage(host, PRODUCER + 1, SECOND)
                    expected = SECOND if second_commits else expected
                case 2:
                    host.commit(PLAIN)
                    expected = PLAIN
                case 3:
                    finish(host, PRODUCER, commit=True)
                case 4:
                    finish(host, PRODUCER + 1, commit=second_commits)
                case _:
                    host.ask(*REMOVALS[removal])
                    expected = -1
        assert host.committed() == expected, order
        assert stable(host) == (OK, expected), order
        assert leading(host).committed() == expected, order


@pytest.mark.parametrize("commit", [True, False])
def test_what_a_transaction_has_pending_outlives_every_expiry(commit: bool) -> None:
    """Neither it, nor the one before it, nor the group, until the marker; and the next life agrees."""
    host = leading()
    host.commit(41)
    pend(host, 42)
    (led,) = host.core._coordination.partitions
    led.shard.expiry._offsets._clock.wall_ms += 1 << 50
    led.shard.expiry._expire(GROUP)
    assert host.committed() == 41
    end(host, commit=commit)
    expected = 42 if commit else 41
    assert host.committed() == expected
    assert leading(host).committed() == expected


def test_a_group_that_has_nothing_else_stays_for_what_is_pending() -> None:
    host = leading()
    pend(host, 42)
    (led,) = host.core._coordination.partitions
    led.shard.expiry._offsets._clock.wall_ms += 1 << 50
    led.shard.expiry._expire(GROUP)
    end(host)
    (group,) = led.shard.groups
    value = group.offsets[CONSUMED].partitions[0]
    assert isinstance(value, OffsetCommitValue)
    assert value.offset == 42
    assert leading(host).committed() == 42
