"""A campaign with exceptions: so many virtual hours of clusters, then tours of the places that they missed.

It is saved continually, in a file named by the last commit that has changed the product; after an interruption, or a
change of what checks the product, it goes on there. A place that was never hit fails it, as an open seed does.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice
from pathlib import Path
from random import Random
from typing import Any

from barnabas.cores import running
from tests.sim.campaign import Open
from tests.sim.exceptions.account import Ended, Scope
from tests.sim.exceptions.call_sites import Place
from tests.sim.exceptions.exceptions import Exceptions
from tests.sim.exceptions.provoked import provoking
from tests.sim.exceptions.radius import Radius, observed, required
from tests.sim.exceptions.unreached import reached_nevertheless
from tests.sim.faults import Fault
from tests.sim.run import Options, Outcome
from tests.sim.scheduler import SECOND
from tests.sim.shapes import AtMost, Profile
from tests.sim.workers import Job, Workers

SAVE_EVERY_S = 30
INTERVAL_US = 10 * SECOND
"""Of exceptions in the hours, at the first pace."""
PLACES_PER_TOUR = 40
TOUR_SECONDS = 12
PASSES = 5
"""Through all rounds of tours, as long as places are left: what one seed in four leads to is hit then."""
TOUR_SEEDS = 10_000_000
"""Seeds of tours begin here."""

SMALL = AtMost(
    logstores=3,
    gateways=2,
    purgatories=1,
    controllers=2,
    producers=2,
    consumers=2,
    groups=2,
    members=2,
    transactional=2,
)
DISKS = [
    Fault.DISK_FULL,
    Fault.READ_ERROR,
    Fault.WRITE_ERROR,
    Fault.FLUSH_ERROR,
    Fault.SLOW_DISK,
    Fault.CHECKPOINT_LOST,
    Fault.TERMINATE_LOGSTORE,
    Fault.POWER_CUT,
]
TERMS = [
    Fault.KILL_CONTROLLER,
    Fault.CRASH_BETWEEN_TXNS,
    Fault.LOSE_CONTROLLER_HALFWAY,
    Fault.PAUSE_PAST_LEASE,
    Fault.RESET_ETCD,
    Fault.TXN_LOST,
    Fault.TXN_ANSWER_LOST,
    Fault.LEASE_ENDS_EARLY,
    Fault.WATCH_LAG,
]
"""What ends the terms of controllers."""
UNDONE = [Fault.TERMINATE_LOGSTORE, Fault.KILL_LOGSTORE, Fault.SLOW_DISK, Fault.KILL_CONTROLLER]
"""What has logs be cut, and shut down, while disks lack room."""
LEAVES = [Fault.TERMINATE_LOGSTORE, Fault.KILL_LOGSTORE, Fault.ISOLATE, Fault.JITTER]
"""What has logstores stop, and leaders have fewer replicas in sync."""
CUT_SHORT = [Fault.KILL_LOGSTORE, Fault.KILL_ALL_LOGSTORES, Fault.POWER_CUT, Fault.TORN_WRITE]
"""What shortens logs that clients are reading."""
REPLACED = [Fault.LEASE_ENDS_EARLY, Fault.WATCH_LAG]
"""What replaces a controller that does not know it yet."""
ROUNDS = (
    Options(TOUR_SECONDS, faults=[], profile=Profile.SPARSE, at_most=SMALL, is_transactional=True),
    Options(TOUR_SECONDS, profile=Profile.SPARSE, at_most=SMALL, is_transactional=True),
    Options(TOUR_SECONDS, profile=Profile.UNCLEAN),
    Options(3 * TOUR_SECONDS, at_most=SMALL, is_transactional=True),
    Options(TOUR_SECONDS, faults=DISKS, profile=Profile.SPARSE, at_most=SMALL, is_transactional=True),
    Options(TOUR_SECONDS, faults=TERMS, profile=Profile.SPARSE, at_most=SMALL, is_transactional=True),
    Options(TOUR_SECONDS, faults=[], profile=Profile.SPARSE, at_most=SMALL, has_last_epochs=True),
    Options(15 * TOUR_SECONDS, profile=Profile.LONG, is_transactional=True),
    Options(15 * TOUR_SECONDS, profile=Profile.LONG),
    *(
        Options(
            pace * TOUR_SECONDS,
            faults=UNDONE,
            profile=Profile.SPARSE,
            at_most=SMALL,
            is_transactional=True,
            exceptions=Exceptions(lacks_room=True),
        )
        for pace in (2, 3)
    ),
    Options(
        2 * TOUR_SECONDS,
        faults=[],
        profile=Profile.SPARSE,
        at_most=SMALL,
        has_last_epochs=True,
        exceptions=Exceptions(has_strays=True),
    ),
    Options(
        3 * TOUR_SECONDS,
        faults=LEAVES,
        profile=Profile.SPARSE,
        at_most=SMALL,
        is_transactional=True,
        exceptions=Exceptions(has_strays=True),
    ),
    Options(
        TOUR_SECONDS,
        faults=[],
        profile=Profile.SPARSE,
        at_most=SMALL,
        is_transactional=True,
        exceptions=Exceptions(is_further=True),
    ),
    Options(
        TOUR_SECONDS,
        faults=TERMS,
        profile=Profile.SPARSE,
        at_most=SMALL,
        is_transactional=True,
        exceptions=Exceptions(is_further=True),
    ),
    Options(
        3 * TOUR_SECONDS,
        faults=CUT_SHORT,
        profile=Profile.UNCLEAN,
        at_most=AtMost(groups=0),
        exceptions=Exceptions(is_further=True),
    ),
    Options(
        5 * TOUR_SECONDS,
        faults=REPLACED,
        profile=Profile.SPARSE,
        at_most=SMALL,
        exceptions=Exceptions(is_further=True),
    ),
    Options(
        7 * TOUR_SECONDS,
        faults=[Fault.JITTER],
        profile=Profile.SPARSE,
        # A hang longer than its delivery timeout has librdkafka write twice what it does not know to be written.
        at_most=replace(SMALL, logstores=5, producers=0, transactional=0),
        exceptions=Exceptions(is_further=True),
    ),
)
"""What clusters do while places are toured, round by round, as long as some are left."""


@dataclass(slots=True)
class Tally:
    """What the runs have come to. `ended`: by place, how often which guard has reported which scope."""

    next_seed: int = 1
    tours: int = 0
    seeds: int = 0
    virtual_ms: int = 0
    operations: int = 0
    acknowledged: int = 0
    faults: int = 0
    cpu_s: float = 0.0
    ended: dict[str, Counter[str]] = field(default_factory=dict)
    open: list[Open] = field(default_factory=list)
    replayed: list[Open] = field(default_factory=list)
    """Seeds of the hours that failed, and pass with checkers that have changed since; the product has not."""

    @property
    def virtual_hours(self) -> float:
        return self.virtual_ms / 3_600_000

    @property
    def thrown(self) -> int:
        return sum(sum(counts.values()) for counts in self.ended.values())

    @property
    def hit(self) -> set[Place]:
        return {Place.parse(place) for place in self.ended}

    def never_hit(self) -> list[Place]:
        """Of those that a campaign has to hit."""
        return sorted(required() - self.hit)

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.virtual_ms += outcome.virtual_ms
        self.operations += outcome.operations
        self.acknowledged += outcome.acknowledged
        self.faults += sum(outcome.hits.values())
        self.cpu_s += outcome.cpu_s
        for each in outcome.thrown:
            scope = "" if each.scope is None else each.scope.name.lower()
            self.ended.setdefault(str(each.place), Counter())[f"{each.guard}={scope}"] += 1
        if outcome.failure is not None:
            self.open.append(Open(outcome.seed, str(outcome.failure)))

    def by_guard(self) -> list[tuple[str, str, int, int]]:
        """Return each guard and scope, the exceptions that ended there, and the places that they were thrown at."""
        thrown, places = Counter[str](), Counter[str]()
        for counts in self.ended.values():
            thrown += counts
            places.update(counts.keys())
        return sorted((*key.split("="), thrown[key], places[key]) for key in thrown)  # type: ignore[misc]

    def radius(self) -> Radius:
        return observed(
            Ended(Place.parse(place), guard, Scope[scope.upper()] if scope else None)
            for place, counts in self.ended.items()
            for guard, _, scope in (key.partition("=") for key in counts)
        )

    def __str__(self) -> str:
        return (
            f"{self.seeds:,} runs ({self.tours:,} tours), {len(self.open)} open; {self.virtual_hours:.2f} hours, "
            f"{self.operations:,} operations, {self.faults:,} other faults, {self.thrown:,} exceptions at "
            f"{len(self.ended):,} places, {len(self.never_hit())} never hit; {self.cpu_s:.0f} CPU s"
        )


def hour_options(seed: int, profile: Profile = Profile.LONG, seconds: int | None = None) -> Options:
    """Every second seed has no fault but exceptions: there more is asked of those that they don't concern."""
    faults = [] if seed % 2 == 0 else None
    return Options(seconds, faults=faults, profile=profile, exceptions=Exceptions(interval_us=INTERVAL_US))


class ExceptionCampaign:
    def __init__(
        self, directory: Path, commit: str, processes: int | None, arguments: str = "", *, first_seed: int = 1
    ) -> None:
        """`arguments`: of the command that runs it, to be saved with the result. `first_seed`: of a campaign that
        begins; those before it may have been run before a mend.
        """
        self._path = directory / f"{commit}.json"
        self._commit = commit
        self._arguments = arguments
        self._processes = processes
        self._saved_s = time.monotonic()
        self.tally = _load(self._path, first_seed)
        self.is_complete = False

    def run(self, hours: float, tour_places: Sequence[Place] | None = None) -> bool:
        """Return True if nothing is open, and every place has been hit. `tour_places`: those to tour if they are
        missed, by default all that a campaign has to hit."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        print(f"{self._commit}, into {self._path}: {self.tally}", flush=True)
        workers = Workers(self._processes)
        try:
            self._replay(workers)
            seeds = count(self.tally.next_seed) if self.tally.virtual_hours < hours else ()
            for _, outcome in workers.map((seed, hour_options(seed)) for seed in seeds):
                self.tally.next_seed = outcome.seed + 1
                self._add(outcome)
                if self.tally.virtual_hours >= hours:
                    break
            for options in ROUNDS * PASSES:
                self._tour(workers, options, self._left(tour_places))
            self.is_complete = True
        except KeyboardInterrupt:
            print("interrupted: the next campaign at this commit goes on here", flush=True)
        finally:
            workers.close()
            self._save(is_complete=self.is_complete)
        print(self.tally)
        left = self._left(tour_places)
        for place in left:
            print(f"NEVER HIT: {place}")
        for each in self.tally.open:
            print(f"open: seed {each.seed}  # {each.failure}")
        wrong = reached_nevertheless(self.tally.hit)
        for place in wrong:
            print(f"HIT, and unreached.tsv says that nothing comes there: {place}")
        return self.is_complete and not self.tally.open and not left and not wrong

    def _replay(self, workers: Workers) -> None:
        """Run the open seeds of the hours again."""
        failed = {each.seed: each for each in self.tally.open if each.seed < TOUR_SEEDS}
        for (seed, _), outcome in workers.map((seed, hour_options(seed)) for seed in failed):
            print(f"seed {seed} again: {outcome.failure or 'passes'}", flush=True)
            if outcome.failure is None:
                self.tally.open.remove(failed[seed])
                self.tally.replayed.append(failed[seed])

    def _left(self, tour_places: Sequence[Place] | None) -> list[Place]:
        wanted = required() if tour_places is None else tour_places
        return sorted(set(wanted) - self.tally.hit)

    def _tour(self, workers: Workers, options: Options, places: list[Place]) -> None:
        if places:
            print(f"a tour of {len(places)} places", flush=True)
        jobs = tours_of(places, options, TOUR_SEEDS + self.tally.tours, self.tally.hit)
        for (seed, toured), outcome in workers.map(jobs):
            self.tally.tours += 1
            self._add(outcome)
            if outcome.failure is not None and toured.exceptions is not None:
                named = ",".join(map(str, toured.exceptions.named))
                print(f"  again: --seed {seed} --round {ROUNDS.index(options)} --at {named}", flush=True)

    def _add(self, outcome: Outcome) -> None:
        self.tally.add(outcome)
        if outcome.failure is not None:
            print(f"seed {outcome.seed} FAILED: {outcome.failure}", flush=True)
        if time.monotonic() - self._saved_s >= SAVE_EVERY_S:
            print(self.tally, flush=True)
            self._save(is_complete=False)

    def _save(self, *, is_complete: bool) -> None:
        self._saved_s = time.monotonic()
        saved = {
            "command": f"python -m tests.sim.exceptions {self._arguments}",
            "commit": self._commit,
            "cores": running(),
            "is_complete": is_complete,
            **{name: getattr(self.tally, name) for name in _COUNTS},
            "cpu_s": round(self.tally.cpu_s),
            "thrown": self.tally.thrown,
            "never_hit": [str(place) for place in self.tally.never_hit()],
            **{
                name: [{"seed": each.seed, "failure": each.failure} for each in getattr(self.tally, name)]
                for name in _FAILED
            },
            "ended": {place: dict(sorted(counts.items())) for place, counts in sorted(self.tally.ended.items())},
        }
        beside = self._path.with_suffix(".new")
        beside.write_text(json.dumps(saved, indent=0) + "\n")
        beside.replace(self._path)


_FAILED = ("open", "replayed")
_COUNTS = ("next_seed", "tours", "seeds", "virtual_ms", "operations", "acknowledged", "faults")


def tours_of(
    places: Iterable[Place], options: Options, first_seed: int, others: Collection[Place] = ()
) -> Iterator[Job]:
    """Runs that throw at each of `places` as soon as it is called.

    Many places are called only when something else has raised. So half of a run's places are of `others`, which have
    been hit before: those that are known to lead there, some of the same class, and what is left of any.
    """
    random = Random(first_seed)
    shuffled = list(places)
    random.shuffle(shuffled)
    rest = iter(shuffled)
    for seed in count(first_seed):
        named = tuple(islice(rest, PLACES_PER_TOUR // 2 if others else PLACES_PER_TOUR))
        if not named:
            return
        yield seed, touring(options, (*named, *_beside(named, others, random)))


def touring(options: Options, named: tuple[Place, ...]) -> Options:
    """Return those of a round, to throw at these places."""
    return replace(options, exceptions=replace(options.exceptions or Exceptions(), named=named))


def _beside(named: Sequence[Place], others: Collection[Place], random: Random) -> list[Place]:
    classes = {_class_of(each) for each in named}
    candidates = sorted(set(others) - set(named))
    random.shuffle(candidates)
    provoking_these = {place for each in named for place in provoking().get(each.site, ())}
    leading = [each for each in candidates if each in provoking_these]
    candidates = [each for each in candidates if each not in provoking_these]
    related = [each for each in candidates if _class_of(each) in classes][: PLACES_PER_TOUR // 4]
    of_any = [each for each in candidates if each not in related]
    return [*leading, *[*related, *of_any][: PLACES_PER_TOUR // 2]]


def _class_of(place: Place) -> str:
    return place.site.rpartition(".")[0]


def _load(path: Path, first_seed: int) -> Tally:
    if not path.exists():
        return Tally(first_seed)
    saved: dict[str, Any] = json.loads(path.read_text())
    tally = Tally(**{name: saved[name] for name in _COUNTS}, cpu_s=saved["cpu_s"])
    tally.ended = {place: Counter(counts) for place, counts in saved["ended"].items()}
    for name in _FAILED:
        setattr(tally, name, [Open(each["seed"], each["failure"]) for each in saved.get(name, [])])
    return tally
