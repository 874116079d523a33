"""A client that spreads over processors and gateways gets its quota once (ADR 0033)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cluster.quotas.shares import LEASE_MS, Demand, QuotaUse, ShareOwner, allocate
from barnabas_gateway.core.model import gateway_shares, quota_bucket
from tests.tiers import Cost, examples
from tests.unit.gateway.quotas.agreement import Agreement, SimulatedClient

QUOTA = 10_000_000
SETTLED_MS = 15_000
"""By then the burst of the beginning is over."""


def greedy(processor: int, request_bytes: int = 200_000, *, consumes: bool = False) -> SimulatedClient:
    return SimulatedClient(processor, request_bytes, consumes=consumes)


def within(rate: float, percent: float = 5) -> bool:
    return abs(rate - 1) <= percent / 100


@pytest.mark.parametrize("consumes", [False, True])
@pytest.mark.parametrize("request_bytes", [200_000, 333_333])
@pytest.mark.parametrize("processors", [(0,), (0, 1, 2), (0, 3), (0, 1, 2, 3, 4, 5)])
def test_greedy_clients_anywhere_get_the_quota_together(
    processors: tuple[int, ...], request_bytes: int, consumes: bool
) -> None:
    """Where the load stays, what all of them get in a minute differs from the quota by half a percent at most."""
    world = Agreement(QUOTA)
    for processor in processors:
        world.start(greedy(processor, request_bytes, consumes=consumes))
    world.run(SETTLED_MS + 60_000)
    assert within(world.rate(SETTLED_MS, SETTLED_MS + 60_000), 0.5), world.rate(SETTLED_MS, SETTLED_MS + 60_000)


def test_one_processor_alone_is_not_asked_for_anything() -> None:
    world = Agreement(QUOTA, gateways=1, processors=1)
    world.start(greedy(0))
    world.run(75_000)
    assert within(world.rate(SETTLED_MS, 75_000), 1)
    assert world.reports == 0
    assert world.shares[0].take_uses(world.now_ms) == []


def test_a_processor_with_little_to_do_keeps_it_and_others_get_the_rest() -> None:
    world = Agreement(QUOTA)
    modest = SimulatedClient(0, 50_000, bytes_per_s=1_000_000)
    world.start(modest)
    for processor in (1, 4):
        world.start(greedy(processor))
    world.run(75_000)
    assert within(world.rate(SETTLED_MS, 75_000))
    quotas, _, _, _ = world.members[0]
    throttled = sum(bucket.throttle_ms for bucket in quotas.buckets.values())
    assert throttled < 5_000, "of 75 s"


@pytest.mark.parametrize("processors", [(0, 1), (0, 3)])
def test_what_a_client_leaves_of_its_part_is_not_lost(processors: tuple[int, int]) -> None:
    world = Agreement(QUOTA)
    world.start(SimulatedClient(processors[0], 50_000, bytes_per_s=4_000_000))
    world.start(greedy(processors[1]))
    world.run(SETTLED_MS + 40_000)
    assert within(world.rate(SETTLED_MS, SETTLED_MS + 40_000)), world.rate(SETTLED_MS, SETTLED_MS + 40_000)


def test_what_is_not_used_costs_nothing() -> None:
    world = Agreement(QUOTA)
    client = greedy(0)
    world.start(client)
    world.run(5_000)
    world.stop(client)
    world.run(10_000)
    reports = world.reports
    world.run(100_000)
    assert world.reports == reports
    assert all(deadlines.next_deadline_ms() is None for _, _, deadlines, _ in world.members)


@examples(Cost.HIGH)
@given(
    st.lists(st.tuples(st.integers(1_000, 6_000), st.integers(0, 7), st.integers(0, 11)), max_size=10),
    st.sampled_from([50_000, 200_000, 500_000]),
    st.booleans(),
)
def test_wherever_the_load_moves_the_quota_holds(
    moves: list[tuple[int, int, int]], request_bytes: int, consumes: bool
) -> None:
    world = Agreement(QUOTA, gateways=3, processors=4)
    clients = [greedy(number, request_bytes, consumes=consumes) for number in range(8)]
    for client in clients:
        world.start(client)
    world.run(SETTLED_MS)
    for pause_ms, number, processor in moves:
        world.run(world.now_ms + pause_ms)
        world.move(clients[number], processor)
    world.run(max(world.now_ms, SETTLED_MS + 40_000))
    for begin_ms in range(SETTLED_MS, world.now_ms - 30_000 + 1, 10_000):
        assert within(world.rate(begin_ms, begin_ms + 30_000)), (begin_ms, world.rate(begin_ms, begin_ms + 30_000))


@given(st.integers(100, 8_000), st.integers(1, 5), st.booleans())
def test_a_controller_that_fails_over_changes_nothing(outage_ms: int, busy: int, consumes: bool) -> None:
    world = Agreement(QUOTA)
    for processor in range(busy):
        world.start(greedy(processor, consumes=consumes))
    world.run(SETTLED_MS)
    world.fail_over(outage_ms)
    world.run(SETTLED_MS + 40_000)
    rate = world.rate(SETTLED_MS, SETTLED_MS + 40_000)
    assert rate <= 1.05, rate
    if busy > 3:
        assert rate >= 0.95, (rate, "each gateway has demand for its even part")
    after = world.rate(SETTLED_MS + outage_ms + 5_000, SETTLED_MS + 40_000)
    assert within(after), after


def rate_when_another_gateway_begins_without_a_controller() -> float:
    """The first gateway has been granted all; the second one has its even part, by which the first one's ends."""
    world = Agreement(QUOTA)
    world.start(greedy(0))
    world.run(SETTLED_MS)
    world.controller = None
    world.start(greedy(3))
    world.run(SETTLED_MS + 40_000)
    return world.rate(SETTLED_MS + 2 * LEASE_MS, SETTLED_MS + 40_000)


def test_a_share_ends_that_is_not_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert within(rate_when_another_gateway_begins_without_a_controller())
    # A planted fault, by which the test shows that it can fail: shares of gateways that never end.
    monkeypatch.setattr(gateway_shares, "LEASE_MS", 1_000_000_000)
    assert rate_when_another_gateway_begins_without_a_controller() > 1.3


def rate_when_a_gateway_loses_its_owner() -> float:
    """One processor of three has been granted all, then nothing is answered any more, and the others begin."""
    world = Agreement(QUOTA, gateways=1)
    world.start(greedy(0))
    world.run(SETTLED_MS)
    monkey = pytest.MonkeyPatch()
    monkey.setattr(Agreement, "_reported", lambda _, _processor, _uses: None)
    try:
        for processor in (1, 2):
            world.start(greedy(processor))
        world.run(SETTLED_MS + 40_000)
    finally:
        monkey.undo()
    return world.rate(SETTLED_MS + 2 * LEASE_MS, SETTLED_MS + 40_000)


def test_a_processors_share_ends_that_is_not_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert within(rate_when_a_gateway_loses_its_owner())
    monkeypatch.setattr(quota_bucket, "LEASE_MS", 1_000_000_000)  # The same fault in a processor.
    assert rate_when_a_gateway_loses_its_owner() > 1.3


def test_without_a_controller_each_gateway_has_an_even_part() -> None:
    world = Agreement(QUOTA)
    world.controller = None
    world.start(greedy(0))
    world.run(75_000)
    assert world.rate(SETTLED_MS, 75_000) == pytest.approx(0.5, rel=0.05)


# --- the owner ---


def test_shares_are_max_min_fair() -> None:
    assert allocate(100, {"a": Demand(10, 0), "b": Demand(90, 1)}) == {"a": 10.5, "b": 89.5}
    assert allocate(100, {"a": Demand(50, 1), "b": Demand(50, 3)}) == {"a": 25, "b": 75}
    assert allocate(100, {"a": Demand(90, 0), "b": Demand(5, 1)}) == {"a": 50, "b": 50}
    assert allocate(100, {"a": Demand(10, 0), "b": Demand(10, 0)}) == {"a": 50, "b": 50}
    assert allocate(100, {"a": Demand(0, 0)}) == {"a": 100}


@given(
    st.dictionaries(
        st.sampled_from("abcdef"),
        st.builds(Demand, st.floats(0, 1e9), st.integers(0, 5)),
        min_size=1,
    ),
    st.floats(1e-3, 1e12),
)
def test_shares_are_the_whole_quota(demands: dict[str, Demand], limit: float) -> None:
    shares = allocate(limit, demands)
    assert shares.keys() == demands.keys()
    assert sum(shares.values()) == pytest.approx(limit)
    assert all(share > 0 for share in shares.values())


def use(used: float, waiting: int = 1, rate: float = 50.0) -> QuotaUse:
    return QuotaUse("producer_byte_rate", "u", "", 100.0, used, 200, waiting, rate)


def test_a_share_grows_when_that_of_another_has_shrunk() -> None:
    owner = ShareOwner()
    owner.begin(-LEASE_MS)
    assert owner.report("a", use(20), 100, 0) == 100
    assert owner.report("b", use(20), 100, 10) == 25, "half of its part, while the other has all"
    assert owner.report("a", use(20), 100, 200) == 50
    assert owner.report("b", use(20), 100, 210) == 50
    assert owner.report("b", use(20), 100, 210 + 200 + LEASE_MS) == 100, "the other is gone"
    owner.forget_unused(10_000)
    assert owner._quotas == {}


def test_a_new_owner_confirms_what_another_may_have_granted() -> None:
    owner = ShareOwner()
    owner.begin(0)
    assert owner.report("a", use(20, rate=80.0), 100, 100) == 80
    assert owner.report("b", use(4, rate=20.0), 100, 200) == 20
    assert owner.report("a", use(20, rate=80.0), 100, LEASE_MS + 100) == 50
