"""`make costly-requests`: how long another client waits while one sends the costliest requests of each API key, or
leaves as much waiting as it may.

On a cluster of its own, or on another broker (`--bootstrap`); into a table with the longest turn of each event loop
meanwhile (`--save`). A request has `ELEMENTS_MAX` elements at most, all its arrays together; Barnabas closes the
connection of one that has more.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from barnabas.cluster.messages import PARTITIONS_PER_REQUEST_MAX
from barnabas.metrics.process_families import LOOP_LONGEST_TURN, LOOP_LONGEST_TURN_CPU
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.primitives import ELEMENTS_MAX
from barnabas_gateway.core.handlers import HANDLERS
from tests.costly.large_topic import measure_large_topic
from tests.costly.measure import TOPIC, Outcome, create_topic, measure
from tests.costly.other_client import OtherClient
from tests.costly.waiting import create_wide_topic, measure_waiting
from tests.faults.rows import this_run
from tests.integration.running_cluster import RunningCluster

ELEMENTS = 130_000
"""Those of the arrays around the long one, and the header's, have room beside them."""
_TURNS_KEPT_SECONDS = 125
"""After so long, the longest turn is not one of the creation of a topic any more."""
TURN_MS_MAX, WAIT_MS_MAX = 50, 250
_TURN = r'^%s\{process="([^"]+)"\} ([0-9.e+-]+)$'


class Turn(NamedTuple):
    """The longest of an event loop, and the most processor time that one used, in ms; perhaps not the same. Each has
    the requests with which it was seen first.
    """

    longest_ms: float
    cpu_ms: float
    longest_with: str = ""
    cpu_with: str = ""


def longest_turns(metrics_addresses: dict[str, str]) -> dict[str, Turn]:
    """By pod and process, of the last one to two minutes."""
    turns: dict[str, Turn] = {}
    for pod, address in metrics_addresses.items():
        text = urllib.request.urlopen(f"http://{address}/metrics", timeout=10).read().decode()
        by_clock, by_cpu = (
            dict(re.findall(_TURN % family.name, text, re.MULTILINE))
            for family in (LOOP_LONGEST_TURN, LOOP_LONGEST_TURN_CPU)
        )
        turns |= {f"{pod} {process}": Turn(float(by_clock[process]), float(by_cpu[process])) for process in by_clock}
    return turns


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.costly", description=__doc__)
    parser.add_argument("--bootstrap", help="another broker, such as Apache Kafka, in place of a cluster of its own")
    parser.add_argument(
        "--elements",
        type=int,
        default=ELEMENTS,
        help=f"in the long array ({ELEMENTS}); with more than {ELEMENTS_MAX} in all a request is refused",
    )
    parser.add_argument("--times", type=int, default=3, help="each request")
    parser.add_argument("--api-keys", nargs="*", help="by name, such as OFFSET_COMMIT")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--only-waiting", action="store_true", help="nothing but what clients leave waiting")
    options = parser.parse_args()
    if options.only_waiting:
        with ExitStack() as stack:
            print(table(*run_waiting(stack, options.bootstrap)))
        return
    api_keys = [ApiKey[name] for name in options.api_keys] if options.api_keys else [ApiKey(key) for key in HANDLERS]
    with ExitStack() as stack:
        outcomes, turns = run(stack, options.bootstrap, api_keys, options.elements, options.times)
    with ExitStack() as stack:
        of_large_topic, turns_of_large_topic = run_large_topic(stack, options.bootstrap)
    with ExitStack() as stack:
        of_waiting, turns_of_waiting = run_waiting(stack, options.bootstrap)
    sections = [
        heading(options.elements, options.times),
        table(outcomes, turns),
        f"## One topic of {PARTITIONS_PER_REQUEST_MAX:,} partitions",
        "",
        table(of_large_topic, turns_of_large_topic),
        "## What waits",
        "",
        table(of_waiting, turns_of_waiting),
        goals([*outcomes, *of_large_topic, *of_waiting], [turns, turns_of_large_topic, turns_of_waiting]),
    ]
    text = "\n".join(sections)
    print(text)
    if options.save:
        options.save.write_text(text)


@contextmanager
def brokers(bootstrap: str | None) -> Iterator[tuple[str, dict[str, str]]]:
    """The address and the metrics' addresses of a cluster of its own; or of other brokers, which have none here.

    Raises AssertionError where another controller becomes active meanwhile.
    """
    if bootstrap is not None:
        yield bootstrap, {}
        return
    with tempfile.TemporaryDirectory() as directory, RunningCluster(Path(directory), 1) as cluster:
        before = controller_epoch(cluster)
        yield cluster.bootstrap, metrics_addresses(cluster)
        after = controller_epoch(cluster)
        assert before == after, f"the controller epoch was {before} and is {after}"


def controller_epoch(cluster: RunningCluster) -> int | None:
    """Another controller that became active would have another one."""
    return cluster.status().controller_epoch


def metrics_addresses(cluster: RunningCluster) -> dict[str, str]:
    """Of those pods that have an endpoint."""
    return {each.name: each.addresses["metrics"] for each in cluster.local.services if "metrics" in each.ports}


def run(
    stack: ExitStack, address: str | None, api_keys: list[ApiKey], elements: int, times: int
) -> tuple[list[Outcome], dict[str, Turn]]:
    """Every API key with its costly requests of many elements."""
    bootstrap, metrics = stack.enter_context(brokers(address))
    create_topic(bootstrap)
    other = OtherClient(bootstrap, TOPIC)
    stack.callback(other.stop)
    outcomes, turns = list[Outcome](), dict[str, Turn]()
    for api_key in api_keys:
        outcomes.append(_shown(measure(bootstrap, other, api_key, elements, times)))
        _keep_longest(turns, metrics, api_key.api_name)
    return outcomes, turns


def run_large_topic(stack: ExitStack, address: str | None) -> tuple[list[Outcome], dict[str, Turn]]:
    """One topic of as many partitions as one request may ask for."""
    bootstrap, metrics = stack.enter_context(brokers(address))
    create_topic(bootstrap)
    other = OtherClient(bootstrap, TOPIC)
    stack.callback(other.stop)
    outcomes, turns = list[Outcome](), dict[str, Turn]()
    for outcome in measure_large_topic(bootstrap, other):
        outcomes.append(_shown(outcome))
        _keep_longest(turns, metrics, outcome.api_key.api_name)
    return outcomes, turns


def run_waiting(stack: ExitStack, address: str | None) -> tuple[list[Outcome], dict[str, Turn]]:
    """What clients leave waiting, rather than what they send."""
    bootstrap, metrics = stack.enter_context(brokers(address))
    create_topic(bootstrap)
    create_wide_topic(bootstrap)
    if metrics:
        time.sleep(_TURNS_KEPT_SECONDS)
    other = OtherClient(bootstrap, TOPIC)
    stack.callback(other.stop)
    outcomes, turns = list[Outcome](), dict[str, Turn]()
    for outcome in measure_waiting(bootstrap, other):
        outcomes.append(_shown(outcome))
        _keep_longest(turns, metrics, f"{outcome.api_key.api_name}: {outcome.label}")
    return outcomes, turns


def _shown(outcome: Outcome) -> Outcome:
    print(f"{outcome.api_key.name:32} {outcome.longest_wait_ms:9.1f} ms  {outcome.label}", flush=True)
    return outcome


def _keep_longest(turns: dict[str, Turn], metrics: dict[str, str], requests: str) -> None:
    for process, turn in longest_turns(metrics).items():
        longest_ms, cpu_ms, longest_with, cpu_with = turns.get(process, Turn(-1, -1))
        if turn.longest_ms > longest_ms:
            longest_ms, longest_with = turn.longest_ms, requests
        if turn.cpu_ms > cpu_ms:
            cpu_ms, cpu_with = turn.cpu_ms, requests
        turns[process] = Turn(longest_ms, cpu_ms, longest_with, cpu_with)


def heading(elements: int, times: int) -> str:
    run = this_run("tests.costly")
    return f"""# The costliest requests

`{run.command}` at {run.commit}, {run.date}, {run.machine}. {elements:,} elements, each request {times} times, on one
connection, while another client, a process of its own, produced one record after the other; written by
`make costly-requests`. A turn by the clock includes what else ran on the machine meanwhile; by processor time it is the
work of its process alone.
"""


def goals(outcomes: list[Outcome], turns: list[dict[str, Turn]]) -> str:
    """What is to hold for everything that arrives and that waits, and what was seen."""
    longest_wait_ms = max(each.longest_wait_ms for each in outcomes)
    cpu_ms = max((turn.cpu_ms for each in turns for turn in each.values()), default=0.0)
    longest_ms = max((turn.longest_ms for each in turns for turn in each.values()), default=0.0)
    return f"""## Goals

| what | goal | seen |
|---|---|---|
| longest turn of any event loop, ms | ≤ {TURN_MS_MAX} | {longest_ms:.0f} by the clock, {cpu_ms:.0f} by processor time |
| longest wait of the other client, ms | ≤ {WAIT_MS_MAX} | {longest_wait_ms:.0f} |
"""


def table(outcomes: list[Outcome], turns: dict[str, Turn]) -> str:
    lines = [
        "| API key | longest wait of the other client, ms | by | bytes | answered | closed | errors of the other |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in outcomes:
        failures = ", ".join(sorted(set(each.failures))) or "none"
        lines.append(
            f"| {each.api_key.api_name} | {each.longest_wait_ms:.0f} | {each.label} | {each.request_bytes:,} "
            f"| {each.answered} | {each.closed} | {failures} |"
        )
    if turns:
        lines += ["", "| event loop | longest turn by the clock, ms | with | by processor time, ms | with |"]
        lines += ["|---|---|---|---|---|"]
        lines += [
            f"| {process} | {turn.longest_ms:.0f} | {turn.longest_with} | {turn.cpu_ms:.0f} | {turn.cpu_with} |"
            for process, turn in sorted(turns.items())
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
