"""Exceptions that the simulation throws: where, and the account of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from barnabas.wire.api_keys import ApiKey
from barnabas_gateway.core.connections.responder import Responder
from barnabas_gateway.core.processor import GatewayCore
from barnabas_logstore.core.replica.containment import LOG_EFFECT, QUERY, LogstoreContainment
from tests.compiled import can_throw, interpreted_only
from tests.sim.campaign import Open
from tests.sim.exceptions import radius
from tests.sim.exceptions.account import Account, Ended, Scope, Thrown
from tests.sim.exceptions.bystanders import Bystanders, check_lost_partitions
from tests.sim.exceptions.call_sites import Moment, Place, call_sites, compiled_sites, places
from tests.sim.exceptions.campaign import (
    PLACES_PER_TOUR,
    ROUNDS,
    TOUR_SEEDS,
    ExceptionCampaign,
    Tally,
    tours_of,
)
from tests.sim.exceptions.exceptions import INTERVAL_US, Exceptions
from tests.sim.exceptions.provoked import provoking
from tests.sim.exceptions.unreached import reached_nevertheless, reasons
from tests.sim.mutants.planting import SMALL
from tests.sim.network import Network
from tests.sim.process import Process
from tests.sim.run import Options, Outcome, simulate
from tests.sim.scheduler import InvariantViolation, Scheduler
from tests.sim.shapes import Profile
from tests.sim.story import Failure
from tests.sim.workers import Job, Workers
from tests.tiers import seeds

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster

pytestmark = [] if can_throw() else interpreted_only("is thrown at by replacing methods")

SECONDS = 5
OPTIONS = Options(SECONDS, faults=[], profile=Profile.SPARSE, at_most=SMALL)


def thrown_at(*named: str, seed: int = 1, seconds: int = SECONDS) -> Outcome:
    exceptions = Exceptions(tuple(map(Place.parse, named)))
    return simulate(seed, replace(OPTIONS, seconds=seconds, exceptions=exceptions))


@pytest.mark.parametrize("seed", seeds(range(1, 31), quick=1))
def test_a_seed_holds_every_invariant_whatever_is_thrown(seed: int) -> None:
    outcome = simulate(seed, replace(OPTIONS, exceptions=Exceptions(interval_us=INTERVAL_US // 2)))
    assert not outcome.failure, str(outcome)
    assert outcome.thrown
    assert outcome.operations > 0


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(1, 11))
def test_a_seed_holds_every_invariant_whatever_else_goes_wrong(seed: int) -> None:
    outcome = simulate(seed, Options(15, is_transactional=True, exceptions=Exceptions()))
    assert not outcome.failure, str(outcome)


def test_the_same_seed_throws_the_same() -> None:
    options = replace(OPTIONS, seconds=3, exceptions=Exceptions())
    first, second = simulate(3, options), simulate(3, options)
    assert first.thrown == second.thrown
    assert first.trace == second.trace


def test_nothing_stays_planted() -> None:
    before = {name: vars(site.owner)[site.method] for name, site in call_sites().items()}
    thrown_at("gateway.GatewayCore.bytes_received:entry", seconds=2)
    assert {name: vars(site.owner)[site.method] for name, site in call_sites().items()} == before
    if can_throw():
        assert not any(compiled_sites().ARMED)
        assert not compiled_sites().CALLED


def test_every_core_has_call_sites() -> None:
    names = call_sites()
    assert names["gateway.GatewayCore.bytes_received"].owner is GatewayCore
    assert names["gateway.Responder.respond"].owner is Responder
    assert len(places()) == 2 * len(names) > 2_000


@pytest.mark.parametrize("moment", Moment)
def test_what_leaves_a_loop_ends_its_process_which_comes_back(moment: Moment) -> None:
    outcome = thrown_at(f"gateway.GatewayCore.expire:{moment.value}")
    assert not outcome.failure, str(outcome)
    assert [each.scope for each in outcome.thrown] == [Scope.PROCESS]


def test_what_is_raised_about_a_parked_entry_costs_that_entry() -> None:
    """Neither the stream of its gateway nor the pod."""
    named = ("purgatory.ProduceWait.judge:entry", "purgatory.WaitHeap.push:exit", "purgatory.DelayedFetch.queue:entry")
    outcome = thrown_at(*named)
    assert not outcome.failure, str(outcome)
    assert {str(each.place) for each in outcome.thrown} == set(named)
    assert {(each.guard, each.scope) for each in outcome.thrown} == {("purgatory.entry", Scope.REQUEST)}


def test_clients_authenticate_by_every_mechanism() -> None:
    """Each exception costs a token, and at most its connection."""
    places_of_servers = [f"gateway.{each}Server.respond:entry" for each in ("Plain", "Scram", "OAuthBearer", "Gssapi")]
    outcome = thrown_at(*places_of_servers, seconds=12)
    assert not outcome.failure, str(outcome)
    assert sorted(str(each.place) for each in outcome.thrown) == sorted(places_of_servers)
    assert {each.scope for each in outcome.thrown} <= {Scope.REQUEST, Scope.STREAM}


def test_a_long_request_that_fails_as_it_ends_gives_its_memory_back() -> None:
    """The bytes of requests are those of all connections: the last act finds what is never given back."""
    outcome = thrown_at("gateway.Connections.discard:entry", seed=5, seconds=8)
    assert not outcome.failure, str(outcome)
    assert [each.scope for each in outcome.thrown] == [Scope.REQUEST]


def test_what_is_raised_as_expiry_begins_costs_a_coordinator_the_state_of_one_partition() -> None:
    """It is loaded again: neither the other partitions nor the process are concerned."""
    places_of_expiry = (
        "logstore.OffsetExpiry.begin:exit",
        "logstore.OffsetExpiry.delete_topics:entry",
        "logstore.TransactionShard.begin_expiry:entry",
        "logstore.TransactionShard.begin_timeouts:exit",
    )
    exceptions = Exceptions(tuple(map(Place.parse, places_of_expiry)))
    # In one of the two a topic is deleted in time, by plain modules and by the binary in different ones.
    outcomes = [simulate(seed, replace(ROUNDS[0], seconds=8, exceptions=exceptions)) for seed in (2, 4)]
    assert not any(outcome.failure for outcome in outcomes), [str(outcome) for outcome in outcomes]
    thrown = [each for outcome in outcomes for each in outcome.thrown]
    assert {str(each.place) for each in thrown} == set(places_of_expiry)
    assert {(each.guard, each.scope) for each in thrown} == {("logstore.coordinator_state", Scope.PARTITION)}


def test_the_end_of_a_token_that_blocks_costs_its_connection() -> None:
    outcome = thrown_at("gateway._Check.result:exit", "gateway._Check.result:entry", seconds=9)
    assert not outcome.failure, str(outcome)
    assert {(each.guard, each.scope) for each in outcome.thrown} == {("gateway.connection", Scope.STREAM)}


def test_a_replica_that_fails_as_it_is_deleted_is_deleted() -> None:
    """No command comes again for it: its topic would stay half deleted until the logstore starts again."""
    place = Place.parse("logstore.Replicas.remove:exit")
    outcome = simulate(22, replace(ROUNDS[0], exceptions=Exceptions((place,))))
    assert not outcome.failure, str(outcome)
    assert [each.guard for each in outcome.thrown] == ["logstore.control"]


def test_what_is_raised_in_a_move_costs_the_partition_that_is_moved() -> None:
    """A move begins again with each start, so a process that it ended would end again."""
    places_of_moves = ("logstore.LogCopy.begin:exit", "logstore.LogCopy.last_step:exit")
    exceptions = Exceptions(tuple(map(Place.parse, places_of_moves)))
    outcome = simulate(3, replace(ROUNDS[0], seconds=5, exceptions=exceptions))
    assert not outcome.failure, str(outcome)
    assert sorted(str(each.place) for each in outcome.thrown) == sorted(places_of_moves)
    assert {(each.guard, each.scope) for each in outcome.thrown} == {("logstore.move", Scope.PARTITION)}


# --- the account ------------------------------------------------------------------------------------------------------


class Mute(Process):
    def __init__(self) -> None:
        scheduler = Scheduler(1)
        super().__init__("mute", scheduler, Network(scheduler, encode=False))
        self.start()

    def boot(self) -> None:
        pass


PLACE = Place.parse("logstore.Appends.append:exit")


@pytest.fixture
def mute() -> Mute:
    return Mute()


def test_an_exception_without_a_report_was_swallowed(mute: Mute) -> None:
    account = Account()
    account.thrown(Thrown(PLACE, mute, mute.incarnation, 0))
    with pytest.raises(InvariantViolation, match="was swallowed"):
        account.check_that_all_are_reported()
    mute.kill()
    account.check_that_all_are_reported()


def test_an_exception_is_reported_once(mute: Mute) -> None:
    account = Account()
    fault = account.thrown(Thrown(PLACE, mute, mute.incarnation, 0))
    account.reported(mute, "a guard", Scope.REQUEST, str(fault))
    account.check_that_all_are_reported()
    with pytest.raises(InvariantViolation, match="more than once"):
        account.reported(mute, "another guard", Scope.STREAM, f"ValueError from {fault}")


def test_what_nothing_has_thrown_is_not_contained(mute: Mute) -> None:
    with pytest.raises(InvariantViolation, match="nothing has thrown"):
        Account().reported(mute, "a guard", Scope.REQUEST, "KeyError: 7")
    with pytest.raises(InvariantViolation, match="has contained an exception"):
        mute.scheduler.contained(mute, "a guard", "request", "KeyError: 7")


def test_one_report_tells_of_an_exception_that_another_one_met_in_its_guard(mute: Process) -> None:
    account = Account()
    first, second = (account.thrown(Thrown(PLACE, mute, mute.incarnation, 0)) for _ in range(2))
    account.reported(mute, "a guard", Scope.REQUEST, f"{first}\nDuring handling another exception occurred: {second}")
    account.check_that_all_are_reported()
    assert [each.scope for each in account.ended()] == [None, Scope.REQUEST]


def test_a_partition_is_lost_by_an_exception_that_the_next_turn_may_report() -> None:
    contained = LogstoreContainment()
    contained.contain(QUERY, ValueError(), {})
    with pytest.raises(InvariantViolation, match="has lost 1 partitions for 0 exceptions"):
        check_lost_partitions("logstore-1", 1, contained)
    contained.contain(LOG_EFFECT, ValueError(), {})
    check_lost_partitions("logstore-1", 1, contained)


@pytest.mark.parametrize(("lost", "is_excused"), [(1, False), (2, True)])
def test_a_request_may_have_no_answer_where_exceptions_have_left_too_few_replicas(lost: int, is_excused: bool) -> None:
    """A transaction's state on one disk of three, with a min ISR of 2, waits until another process has started again
    (seed 228).
    """
    replica = SimpleNamespace(key=("orders", 0), log=SimpleNamespace(error=ValueError()))
    logstores = [SimpleNamespace(core=True, partitions=[replica]) for _ in range(lost)]
    elections = SimpleNamespace(existing={replica.key: SimpleNamespace(replicas=[1, 2, 3])})
    promises, scheduler = SimpleNamespace(elections=elections), SimpleNamespace(now_us=0)
    cluster = SimpleNamespace(
        logstores=logstores, promises=promises, scheduler=scheduler, history=SimpleNamespace(no_answer=None)
    )
    bystanders = Bystanders(cast("Cluster", cluster))
    bystanders.watch([])
    scheduler.now_us = 1
    with nullcontext() if is_excused else pytest.raises(InvariantViolation, match="got no answer"):
        cluster.history.no_answer("client", ApiKey.ADD_PARTITIONS_TO_TXN)


# --- the blast radius, and campaigns ----------------------------------------------------------------------------------


def test_the_table_names_call_sites_that_there_are() -> None:
    assert {place.site for place in radius.expected()} <= set(call_sites())


def test_without_a_line_in_the_table_a_place_has_to_be_hit(tmp_path: Path) -> None:
    assert radius.required(tmp_path / "none") == {place for place in places() if place not in reasons()}


def test_what_nothing_reaches_is_there_and_has_a_reason() -> None:
    assert set(reasons()) <= set(places())
    assert all(reasons().values())
    assert list(reasons()) == sorted(reasons())


def test_one_place_of_a_call_site_may_be_unreached_alone(tmp_path: Path) -> None:
    table = tmp_path / "unreached.tsv"
    table.write_text("a.B.c\tnothing calls it\na.B.failed:exit\tit always raises\n")
    assert list(map(str, reasons(table))) == ["a.B.c:entry", "a.B.c:exit", "a.B.failed:exit"]


def test_a_place_that_is_hit_though_nothing_should_reach_it_is_named() -> None:
    wrong = list(reasons())[:2]
    assert reached_nevertheless([PLACE, *wrong]) == wrong


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    seen = radius.observed(
        [
            Ended(PLACE, "a guard", Scope.REQUEST),
            Ended(PLACE, "the process", Scope.PROCESS),
            Ended(Place.parse("logstore.Reads.plan:entry"), "", None),
        ]
    )
    radius.write(tmp_path / "radius.tsv", seen)
    assert radius.read(tmp_path / "radius.tsv") == seen
    assert radius.required(tmp_path / "radius.tsv") == set(seen)
    assert radius.merged(seen, {PLACE: frozenset({Scope.PARTITION})})[PLACE] == {
        Scope.REQUEST,
        Scope.PARTITION,
        Scope.PROCESS,
    }


def test_what_a_call_may_end_on_entry_it_may_end_on_exit() -> None:
    entry, unknown = (Place(PLACE.site, moment.value) for moment in Moment)
    other = Place("purgatory.PurgatoryCore.on_message", Moment.EXIT.value)
    table = {entry: frozenset({Scope.REQUEST}), unknown: frozenset[Scope](), other: frozenset[Scope]()}
    assert radius.allowed_by(table) == {entry: frozenset({Scope.REQUEST}), unknown: frozenset({Scope.REQUEST})}


def test_a_wider_radius_than_the_table_has_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place.parse("gateway.GatewayCore.expire:entry")
    monkeypatch.setattr("tests.sim.exceptions.exceptions.expected", lambda: {place: frozenset({Scope.REQUEST})})
    outcome = thrown_at(str(place), seconds=2)
    assert "has ended a process" in str(outcome.failure)


def test_a_tour_visits_each_place_once() -> None:
    toured = [place for _, options in tours_of(places(), ROUNDS[0], 5) for place in options.exceptions.named]  # type: ignore[union-attr]
    assert sorted(toured) == sorted(places())
    shuffled = list(places())
    Random(5).shuffle(shuffled)
    assert toured == shuffled


def test_a_tour_has_places_that_were_hit_before_beside_those_that_it_is_for() -> None:
    """Of the same classes, at best: an exception there leads to what handles it."""
    wanted = [Place.parse("gateway.PartitionAppends.failed:entry")]
    others = [place for place in places() if place not in wanted]
    ((_, options),) = tours_of(wanted, ROUNDS[0], 5, others)
    assert options.exceptions is not None
    first, *beside = options.exceptions.named
    assert [first] == wanted
    assert len(beside) == len(set(beside)) == PLACES_PER_TOUR // 2
    assert sum(place.site.startswith("gateway.PartitionAppends.") for place in beside) >= PLACES_PER_TOUR // 4


def test_a_tour_throws_at_what_leads_to_its_places() -> None:
    provoked, leading = next(each for each in provoking().items() if each[1])
    others = [place for place in places() if place.site != provoked]
    ((_, options),) = tours_of([Place(provoked, Moment.ENTRY.value)], ROUNDS[0], 5, others)
    assert options.exceptions is not None
    assert set(leading) <= set(options.exceptions.named)


def test_what_is_provoked_and_what_provokes_it_are_call_sites() -> None:
    known = set(places())
    for site, leading in provoking().items():
        assert site in call_sites(), site
        assert set(leading) <= known, site
        assert not reasons().keys() >= {Place(site, each.value) for each in Moment}, "nothing is said to reach it"


def test_places_that_were_never_hit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    other = Place.parse("logstore.Reads.plan:entry")
    monkeypatch.setattr("tests.sim.exceptions.campaign.required", lambda: {PLACE, other})
    tally = Tally()
    assert tally.never_hit() == [PLACE, other]
    tally.add(thrown_at(str(PLACE), seconds=4))
    assert tally.never_hit() == [other]
    assert tally.thrown == 1
    assert PLACE in tally.radius()


class _OneThatFails(Workers):
    """Seed 3 fails still."""

    def __init__(self) -> None:
        pass

    def map(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Outcome]]:
        for seed, options in jobs:
            failure = Failure("I1", "here", 0, [], []) if seed == 3 else None
            yield (seed, options), replace(simulate(seed, Options(steps=1)), failure=failure)


def test_what_is_open_is_run_again_when_a_campaign_goes_on(tmp_path: Path) -> None:
    """Where the product is the same, and what checks it may not be. How a tour was made is not known any more."""
    campaign = ExceptionCampaign(tmp_path, "0123456789ab", 1)
    ours, still, tour = (Open(seed, "I1") for seed in (2, 3, TOUR_SEEDS + 1))
    campaign.tally.open = [ours, still, tour]
    campaign._replay(_OneThatFails())
    assert campaign.tally.open == [still, tour]
    assert campaign.tally.replayed == [ours]
    campaign._save(is_complete=False)
    again = ExceptionCampaign(tmp_path, "0123456789ab", 1).tally
    assert (again.open, again.replayed) == ([still, tour], [ours])


# --- a poisonous request ----------------------------------------------------------------------------------------------

POISONED = [
    ("gateway.ProduceHandler.start:entry", 40),
    ("gateway.FetchHandler.start:exit", 40),
    ("logstore.Appends.append:entry", 20),
    ("logstore.Reads.accept:entry", 20),
    ("logstore.Queries.query_offset:exit", 20),
]


@pytest.mark.parametrize(
    ("place", "least"),
    [pytest.param(*each, marks=() if each[0].startswith("logstore.App") else pytest.mark.deep) for each in POISONED],
)
def test_a_poisonous_request_costs_itself_alone_however_often_it_is_sent(place: str, least: int) -> None:
    """Others are answered, and nothing adds up: the bystanders and the last act say so."""
    exceptions = Exceptions((Place.parse(place),), is_poison=True)
    outcome = simulate(2, replace(OPTIONS, exceptions=exceptions))
    assert not outcome.failure, str(outcome)
    assert {each.place for each in outcome.thrown} == {Place.parse(place)}
    assert len(outcome.thrown) >= least
    assert Scope.PROCESS not in {each.scope for each in outcome.thrown}
