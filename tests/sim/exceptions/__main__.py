"""Run campaigns with exceptions.

python -m tests.sim.exceptions --hours 100     so many virtual hours, then tours of the places that were missed;
                                               saved in docs/verify/simulation-exceptions, by the last commit of the
                                               product; goes on there, after seeds that are open have been run again
python -m tests.sim.exceptions --learn         the same, then tours of every place that there is; adds what it has seen
                                               to radius.tsv, to be reviewed
python -m tests.sim.exceptions --seed 7        one seed of the hours, or of tours, in words
"""

from __future__ import annotations

import argparse
import signal
import sys
from dataclasses import replace
from pathlib import Path

from tests.sim.campaign import product_commit
from tests.sim.exceptions.call_sites import Place, places
from tests.sim.exceptions.campaign import ROUNDS, ExceptionCampaign, hour_options, touring
from tests.sim.exceptions.radius import PATH, expected, merged, write
from tests.sim.run import simulate
from tests.sim.story import REMEMBERED_LINES

LEDGER = Path("docs/verify/simulation-exceptions")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.exceptions", description="Exceptions in every core.")
    parser.add_argument("--hours", type=float, default=0.0, help="virtual hours; without any: tours alone")
    parser.add_argument("--first-seed", type=int, default=1, help="of the hours, where none has been run")
    parser.add_argument("--learn", action="store_true", help="tour every place, and write down what each may end")
    parser.add_argument("--at", metavar="PLACE,…", help="throw at these, or at all whose name begins so")
    parser.add_argument("--seed", type=int, help="one run, in words")
    parser.add_argument("--round", type=int, help="that run is a tour of the places --at, of this round")
    parser.add_argument("--processes", type=int, help="as many as cores by default")
    parser.add_argument("--ledger", type=Path, default=LEDGER, help="where results are saved")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: signal.raise_signal(signal.SIGINT))
    named = [place for place in places() if arguments.at and str(place).startswith(tuple(arguments.at.split(",")))]
    if arguments.seed is not None:
        sys.exit(0 if run_one(arguments.seed, arguments.round, arguments.at) else 1)
    commit, command = product_commit(), " ".join(sys.argv[1:])
    campaign = ExceptionCampaign(
        arguments.ledger, commit, arguments.processes, command, first_seed=arguments.first_seed
    )
    toured = list(places()) if arguments.learn else named or None
    holds = campaign.run(arguments.hours, toured)
    if arguments.learn and campaign.is_complete:
        write(PATH, merged(expected(), campaign.tally.radius()))
    sys.exit(0 if holds else 1)


def run_one(seed: int, tour_round: int | None, at: str | None) -> bool:
    options = hour_options(seed)
    if tour_round is not None:
        named = tuple(Place.parse(each) for each in (at or "").split(","))
        options = touring(ROUNDS[tour_round], named)
    outcome = simulate(seed, replace(options, lines_max=REMEMBERED_LINES))
    print(outcome)
    for each in outcome.thrown:
        print(f"  {each.place}: {each.guard or 'its process ended first'}")
    print(f"trace {outcome.trace}")
    return outcome.failure is None


if __name__ == "__main__":
    main()
