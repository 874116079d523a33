"""Compare the traces of compiled cores with those of interpreted ones, seed by seed.

    python -m tests.compiled_traces --simulated 1..8 --crashed 1..40

`make compiled` comes before. A process for each of the two plays all seeds of `tests.sim` and `tests.crash`; a trace is
a hash over what happened and when, so equal traces mean equal decisions.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from barnabas.cores import COMPILED, INTERPRETED, VARIABLE, running
from tests.crash.programs import program_of
from tests.crash.run import run_program
from tests.sim.run import Options, simulate


def traces(simulated: Sequence[int], crashed: Sequence[int]) -> Iterator[tuple[str, str]]:
    """Play the seeds here; yield the name and the trace of each, or why it failed."""
    for seed in simulated:
        played = simulate(seed, Options())
        yield f"simulation {seed}", f"failed: {played.failure}" if played.failure else played.trace
    for seed in crashed:
        outcome = run_program(program_of(seed))
        yield f"crash {seed}", f"failed: {outcome.failure}" if outcome.failure else outcome.trace


def played_by(cores: str, arguments: Sequence[str]) -> dict[str, str]:
    """Play the seeds in a process with these cores. One that dies lacks the seed that it died of and all later."""
    environment = {**os.environ, VARIABLE: cores, "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "tests.compiled_traces", "--play", *arguments]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        print(f"the process with {cores} cores ended with {done.returncode}", flush=True)
    return {name: trace for name, _, trace in (line.partition(": ") for line in done.stdout.splitlines())}


def compare(arguments: Sequence[str]) -> int:
    """Return how many traces are not the same."""
    with ThreadPoolExecutor(2) as pool:
        interpreted, compiled = pool.map(played_by, (INTERPRETED, COMPILED), (arguments, arguments))
    different = 0
    for name in interpreted | compiled:
        plain, binary = interpreted.get(name, "not reached"), compiled.get(name, "not reached")
        if plain != binary or plain.startswith("failed"):
            different += 1
            print(f"{name}: interpreted {plain}, compiled {binary}")
    print(f"{len(interpreted | compiled) - different} traces are the same, {different} are not")
    return different


def seeds_of(text: str) -> range:
    first, _, last = text.partition("..")
    return range(int(first), int(last or first) + 1)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.compiled_traces", description=__doc__.partition("\n")[0])
    parser.add_argument("--simulated", metavar="A..B", type=seeds_of, default=range(0), help="seeds of tests.sim")
    parser.add_argument("--crashed", metavar="A..B", type=seeds_of, default=range(0), help="seeds of tests.crash")
    parser.add_argument("--play", action="store_true", help="play them in this process, and print each trace")
    arguments = parser.parse_args()
    if not arguments.play:
        sys.exit(1 if compare(sys.argv[1:]) else 0)
    faulthandler.enable()
    print(f"cores: {running()}", file=sys.stderr, flush=True)
    for name, trace in traces(arguments.simulated, arguments.crashed):
        print(f"{name}: {trace}", flush=True)


if __name__ == "__main__":
    main()
