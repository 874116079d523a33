"""What clients leave behind without meaning to come back grew without end, or made the turns of a logstore long.

An id of a new member was kept for up to half an hour, 1.5 KB each. With 20,000 producers whose transactions were all
open, each further producer of a partition, and each of its markers, cost a look at all of them: 200 markers, which are
appended in one turn, 27 ms.
"""

from __future__ import annotations

from barnabas.wire.errors import ErrorCode
from barnabas.wire.markers import Marker
from barnabas.wire.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.wire.record_batch import BatchHeader
from barnabas_logstore.core.coordinator.groups import member_bytes, pending_joins
from barnabas_logstore.core.coordinator.groups.pending_joins import PENDING_JOINS_MAX, PENDING_JOINS_PER_HOST_MAX
from barnabas_logstore.core.storage.log.state.producer_state import PRODUCERS_MAX, ProducerState
from tests.compiled import COUNTS, interpreted_only
from tests.costly.instructions import counted_lines
from tests.unit.logstore.coordinator.support import DELAY_MS, World

HOST = "/10.0.0.1"


def first_join(world: World, group_id: str, host: str) -> str:
    """Ask for a member id."""
    world.client_host = host
    return world.body_of(world.join(group_id=group_id, session_timeout_ms=60_000), JoinGroupResponse).member_id


def error_of_join(world: World, group_id: str, member_id: str) -> ErrorCode:
    request = world.join(member_id, group_id=group_id)
    if world.answers[request].wait is not None:
        return ErrorCode.NONE
    return ErrorCode(world.body_of(request, JoinGroupResponse).error_code)


def test_a_host_that_only_asks_for_member_ids_loses_its_own_first() -> None:
    world = World()
    other = first_join(world, "other", "/10.0.0.2")
    ids = [first_join(world, f"group-{each}", HOST) for each in range(PENDING_JOINS_PER_HOST_MAX + 1)]
    assert len(world.pending_joins) == PENDING_JOINS_PER_HOST_MAX + 1
    assert error_of_join(world, "group-0", ids[0]) == ErrorCode.UNKNOWN_MEMBER_ID
    assert error_of_join(world, "group-1", ids[1]) == ErrorCode.NONE
    assert error_of_join(world, "other", other) == ErrorCode.NONE


def test_pending_joins_of_all_hosts_are_bounded_in_number() -> None:
    world = World()
    for each in range(PENDING_JOINS_MAX + 10):
        first_join(world, f"group-{each}", f"/10.0.{each // 250}.{each % 250}")
    assert len(world.pending_joins) == PENDING_JOINS_MAX
    assert len(world.groups) == PENDING_JOINS_MAX


def test_pending_joins_are_bounded_in_bytes() -> None:
    world = World()
    for each in range(PENDING_JOINS_PER_HOST_MAX - 1):
        first_join(world, f"{each}-" + "g" * 30_000, HOST)
    pending = world.pending_joins
    assert 0 < pending.byte_count <= pending_joins.PENDING_JOIN_BYTES_MAX
    assert len(pending) < PENDING_JOINS_PER_HOST_MAX - 1


def test_a_pending_join_that_ends_is_counted_no_more() -> None:
    world = World()
    joined, timed_out = (first_join(world, "group", HOST) for _ in range(2))
    assert error_of_join(world, "group", joined) == ErrorCode.NONE
    assert len(world.pending_joins) == 1
    world.advance(61_000)
    assert timed_out
    assert len(world.pending_joins) == world.pending_joins.byte_count == 0
    first_join(world, "group", HOST)
    world.lose()
    assert len(world.pending_joins) == 0


def with_open_transactions(count: int) -> ProducerState:
    producers = ProducerState()
    for producer_id in range(count):
        producers.update(producer_id, 0, 0, 0, producer_id, 0)
        producers.begin_transaction(producer_id, producer_id)
    return producers


@interpreted_only(COUNTS)
def test_a_new_producer_costs_the_same_while_all_transactions_are_open() -> None:
    producers = with_open_transactions(PRODUCERS_MAX)
    with counted_lines() as count:
        producers.update(PRODUCERS_MAX, 0, 0, 0, PRODUCERS_MAX, 0)
    assert count.lines < 100
    assert len(producers) == PRODUCERS_MAX + 1, "none of them can go"


def test_a_producer_goes_that_has_no_transaction_open() -> None:
    producers = with_open_transactions(PRODUCERS_MAX)
    header_of_marker = BatchHeader(PRODUCERS_MAX, 66, 0, 2, 0, 0x30, 0, 0, 0, 7, 0, -1, 1)
    assert producers.end_transaction(header_of_marker, Marker(True, 0)) is not None
    for producer_id in range(PRODUCERS_MAX, PRODUCERS_MAX + 20):
        producers.update(producer_id, 0, 0, 0, producer_id, 0)
    assert producers.entry_of(7) is None
    assert producers.entry_of(6) is not None
    assert len(producers) == PRODUCERS_MAX


def test_an_open_transaction_is_found_in_the_order_of_offsets() -> None:
    producers = with_open_transactions(1_000)
    transactions = producers.transactions
    for producer_id in (500, 0, 999):
        ended = transactions.end(producer_id, producer_id, 2_000, is_aborted=False)
        assert (ended.producer_id, ended.first_offset) == (producer_id, producer_id)
    assert len(transactions.open) == 997
    assert transactions.open == sorted(transactions.open)


def join_with(world: World, group_id: str, byte_count: int, member_id: str = "") -> ErrorCode:
    """Join, a new member at once as before version 4, and wait for the answer."""
    request = world.join(
        member_id,
        version=3,
        group_id=group_id,
        session_timeout_ms=1_800_000,
        rebalance_timeout_ms=1_800_000,
        protocols=[JoinGroupRequestProtocol("range", bytes(byte_count))],
    )
    world.advance(DELAY_MS)
    return ErrorCode(world.joined(request).error_code)


def test_what_members_of_a_host_hold_is_bounded_in_bytes() -> None:
    """One client held 8 MiB for each of its joins, for half an hour and in as many groups as it liked."""
    world = World()
    world.client_host = HOST
    size = member_bytes.MEMBER_BYTES_PER_HOST_MAX // 4
    assert [join_with(world, f"group-{each}", size) for each in range(4)] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    ]
    world.client_host = "/10.0.0.2"
    assert join_with(world, "other", size) == ErrorCode.NONE
    world.client_host = HOST
    held = world.member_bytes
    assert 3 * size < held.of_host(HOST) <= member_bytes.MEMBER_BYTES_PER_HOST_MAX
    world.advance(1_800_001)
    assert held.of_host(HOST) == held.of_host("/10.0.0.2") == 0, "their sessions are over"
    assert join_with(world, "group-3", size) == ErrorCode.NONE
    world.lose()
    assert held.of_host(HOST) == 0
    world.lead()


def test_a_member_that_joins_again_counts_once() -> None:
    world = World()
    world.client_host = HOST
    size = member_bytes.MEMBER_BYTES_PER_HOST_MAX // 2
    assert join_with(world, "group", size) == ErrorCode.NONE
    (member_id,) = world.groups.get_or_add("group", 0).members
    held = world.member_bytes
    before = held.of_host(HOST)
    assert join_with(world, "group", size - 1, member_id) == ErrorCode.NONE
    assert held.of_host(HOST) == before - 1
    assert join_with(world, "group", 2 * size, member_id) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert held.of_host(HOST) == 0, "as with a full group it is no member any more"
