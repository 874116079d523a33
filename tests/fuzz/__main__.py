"""`python -m tests.fuzz`: every target for its share of the time, a process each; what came of it, as a table.

    python -m tests.fuzz [--seconds 600] [--target NAME] [--jobs 1] [--seed 1] [--keep]

`--seconds` is for the whole run; one of all targets, or of a group (`--target before-authentication` or `security`), of
at least ten minutes is saved in `tests/fuzz/results`.
`--keep` takes the inputs that reached something new into the kept corpus. Ends with 1 when there is a finding: its
input and its traceback are below `.cache/fuzz/<target>`, to become a regression test.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tests.fuzz.corpus import keep, kept_inputs, path_of
from tests.fuzz.targets import BEFORE_AUTHENTICATION, NAMES, SECURITY, load

ROOT: Final = Path(__file__).parents[2]
CACHE: Final = ROOT / ".cache/fuzz"
RESULTS: Final = Path(__file__).parent / "results"
_ALL: Final = "all"
_GROUPS: Final = {_ALL: NAMES, "before-authentication": BEFORE_AUTHENTICATION, "security": SECURITY}
_SECONDS_MIN_TO_SAVE: Final = 600
_STARTED_LATE_SECONDS: Final = 1800
"""Instrumenting and reading the corpus come before the time of a target begins; a run may be paused for a while."""
_STATUS: Final = re.compile(
    r"^#(?P<executions>\d+)\s+(?P<event>\w+).* cov: (?P<edges>\d+).* corp: (?P<corpus>\d+)/"
    r".*exec/s: (?P<per_second>\d+) rss: (?P<resident>\d+)Mb",
    re.MULTILINE,
)


@dataclass(slots=True)
class Outcome:
    target: str
    seconds: int
    executions: int
    executions_per_second: int
    corpus: int
    edges: int
    resident_mebibytes: int
    findings: list[str]


def main() -> None:
    arguments = _arguments()
    names = list(_GROUPS.get(arguments.target, (arguments.target,)))
    seconds = max(1, arguments.seconds * arguments.jobs // len(names))
    print(f"{len(names)} targets, {seconds} s each, {arguments.jobs} at a time", flush=True)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        outcomes = list(pool.map(lambda name: _run(name, seconds, arguments.seed), names))
    executions = sum(outcome.executions for outcome in outcomes)
    print(f"{executions:,} executions in all")
    findings = [finding for outcome in outcomes for finding in outcome.findings]
    if arguments.keep:
        for name in names:
            _keep(name)
    if arguments.seconds >= _SECONDS_MIN_TO_SAVE and arguments.target in _GROUPS:
        print(f"saved {_save(arguments, outcomes).relative_to(ROOT)}")
    for finding in findings:
        print(f"FOUND {finding}")
    sys.exit(1 if findings else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--target", choices=(*_GROUPS, *NAMES), default=_ALL)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true")
    return parser.parse_args()


def _run(name: str, seconds: int, seed: int) -> Outcome:
    directory = CACHE / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    log = directory / "log"
    options = ("--seconds", str(seconds), "--seed", str(seed), "--directory", str(directory))
    with log.open("wb") as output:
        status = subprocess.run(
            [sys.executable, "-m", "tests.fuzz.engine", name, *options],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            # The same hashes in every run: the same seed makes the same inputs.
            env={**os.environ, "PYTHONHASHSEED": "0"},
            timeout=seconds + _STARTED_LATE_SECONDS,
        ).returncode
    said = list(_STATUS.finditer(log.read_text(errors="replace")))
    found = [str(path.relative_to(ROOT)) for path in sorted((directory / "findings").iterdir())]
    if status and not found:
        found = [f"{log.relative_to(ROOT)}: it ended with {status}"]
    last = {key: int(value) for key, value in said[-1].groupdict().items() if key != "event"} if said else {}
    outcome = Outcome(
        name,
        seconds,
        last.get("executions", 0),
        last.get("per_second", 0),
        last.get("corpus", 0),
        last.get("edges", 0),
        last.get("resident", 0),
        found,
    )
    print(_line(outcome), flush=True)
    return outcome


def _line(outcome: Outcome) -> str:
    return (
        f"{outcome.target:14} {outcome.executions:>10,} executions {outcome.executions_per_second:>7,}/s  "
        f"corpus {outcome.corpus:>5}  edges {outcome.edges:>5}  {outcome.resident_mebibytes:>4} MiB  "
        f"findings {len(outcome.findings)}"
    )


def _keep(name: str) -> None:
    """What was kept and what the run has found, as few inputs as reach the same."""
    found = (path.read_bytes() for path in (CACHE / name / "corpus").iterdir())
    kept = keep(load(name), [*kept_inputs(name), *found])
    print(f"{name}: {kept} inputs kept, {path_of(name).stat().st_size:,} bytes")


def _save(arguments: argparse.Namespace, outcomes: list[Outcome]) -> Path:
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=ROOT, check=False)
    RESULTS.mkdir(exist_ok=True)
    taken = time.strftime("%Y-%m-%dT%H%M%SZ", time.gmtime())
    path = RESULTS / f"{taken}.json"
    result = {
        "taken": taken,
        "commit": commit.stdout.strip(),
        "command": f"python -m tests.fuzz {' '.join(sys.argv[1:])}",
        "python": platform.python_version(),
        "executions": sum(outcome.executions for outcome in outcomes),
        "targets": [asdict(outcome) for outcome in outcomes],
    }
    path.write_text(json.dumps(result, indent=1) + "\n")
    return path


if __name__ == "__main__":
    main()
