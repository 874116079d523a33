"""Compiled tests of Go modules: the runner, and its events as `go tool test2json` writes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from tests.acceptance.outcomes import Outcome, Outcomes
from tests.compat.building import need, run_tool
from tests.compat.matrix.programs import run_logged

_VERDICTS = {"pass": Outcome.PASS, "fail": Outcome.FAIL, "skip": Outcome.SKIP}


class _Event(msgspec.Struct, rename="pascal"):
    action: str
    test: str = ""


def module_directory(built_in: Path, module: str) -> Path:
    """Return where the sources of a module are: its tests read files beside them. Raises UnavailableError."""
    need("go")
    log = built_in.with_name(f"{built_in.name}-module.log")
    run_tool(["go", "list", "-m", "-f", "{{.Dir}}", module], built_in, log)
    return Path(log.read_text().strip())


def run_tests(
    binary: Path, cwd: Path, log: Path, seconds_max: int, environment: dict[str, str], only: Sequence[str] = ()
) -> Outcomes:
    """Run the tests of a binary to their end, or until their time is over: all of them, unless some are named."""
    argv = ["go", "tool", "test2json", str(binary), "-test.v=test2json", f"-test.timeout={seconds_max}s"]
    if only:
        argv.append(f"-test.run=^({'|'.join(only)})$")
    # The runner ends first, and says which tests have not.
    run_logged(argv, cwd, log, seconds_max + 30, environment)
    return read_events(log.read_text(errors="replace").splitlines())


def read_events(lines: Iterable[str]) -> Outcomes:
    """Return the outcome of each test and subtest. One that has no verdict has failed: the runner ended before it."""
    outcomes: Outcomes = {}
    for line in lines:
        try:
            event = msgspec.json.decode(line, type=_Event)
        except msgspec.DecodeError:
            continue  # what the runner writes to standard error goes past test2json
        if event.test and event.action == "run":
            outcomes[event.test] = Outcome.FAIL
        elif event.test and event.action in _VERDICTS:
            outcomes[event.test] = _VERDICTS[event.action]
    return outcomes
