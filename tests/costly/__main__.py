"""`make costly-requests`: how long another client waits while one sends the costliest requests of each API key.

On a cluster of its own, or on another broker (`--bootstrap`); into a table with the longest turn of each event loop
meanwhile (`--save`). A request has `ELEMENTS_MAX` elements at most, all its arrays together; Barnabas closes the
connection of one that has more.
"""

from __future__ import annotations

import argparse
import re
import tempfile
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
from tests.costly.measure import OtherClient, Outcome, create_topic, measure
from tests.faults.rows import this_run
from tests.integration.running_cluster import RunningCluster

ELEMENTS = 130_000
"""Those of the arrays around the long one, and the header's, have room beside them."""
_TURN = r'^%s\{process="([^"]+)"\} ([0-9.e+-]+)$'


class Turn(NamedTuple):
    """The longest of an event loop, and the most processor time that one used, in ms; perhaps not the same."""

    longest_ms: float
    cpu_ms: float


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
    options = parser.parse_args()
    api_keys = [ApiKey[name] for name in options.api_keys] if options.api_keys else [ApiKey(key) for key in HANDLERS]
    with ExitStack() as stack:
        outcomes, turns = run(stack, options.bootstrap, api_keys, options.elements, options.times)
    with ExitStack() as stack:
        of_large_topic, turns_of_large_topic = run_large_topic(stack, options.bootstrap)
    sections = [
        heading(options.elements, options.times),
        table(outcomes, turns),
        f"## One topic of {PARTITIONS_PER_REQUEST_MAX:,} partitions",
        "",
        table(of_large_topic, turns_of_large_topic),
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
    other = OtherClient(bootstrap)
    stack.callback(other.stop)
    outcomes, turns = list[Outcome](), dict[str, Turn]()
    for api_key in api_keys:
        outcomes.append(_shown(measure(bootstrap, other, api_key, elements, times)))
        _keep_longest(turns, metrics)
    return outcomes, turns


def run_large_topic(stack: ExitStack, address: str | None) -> tuple[list[Outcome], dict[str, Turn]]:
    """One topic of as many partitions as one request may ask for."""
    bootstrap, metrics = stack.enter_context(brokers(address))
    create_topic(bootstrap)
    other = OtherClient(bootstrap)
    stack.callback(other.stop)
    outcomes, turns = list[Outcome](), dict[str, Turn]()
    for outcome in measure_large_topic(bootstrap, other):
        outcomes.append(_shown(outcome))
        _keep_longest(turns, metrics)
    return outcomes, turns


def _shown(outcome: Outcome) -> Outcome:
    print(f"{outcome.api_key.name:32} {outcome.longest_wait_ms:9.1f} ms  {outcome.label}", flush=True)
    return outcome


def _keep_longest(turns: dict[str, Turn], metrics: dict[str, str]) -> None:
    for process, turn in longest_turns(metrics).items():
        before = turns.get(process, turn)
        turns[process] = Turn(max(before.longest_ms, turn.longest_ms), max(before.cpu_ms, turn.cpu_ms))


def heading(elements: int, times: int) -> str:
    run = this_run("tests.costly")
    return f"""# The costliest requests

`{run.command}` at {run.commit}, {run.date}, {run.machine}. {elements:,} elements, each request {times} times, on one
connection, while another client produced one record after the other; written by `make costly-requests`. A turn by the
clock includes what else ran on the machine meanwhile; by processor time it is the work of its process alone.
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
        lines += ["", "| event loop | longest turn by the clock, ms | by processor time, ms |", "|---|---|---|"]
        lines += [
            f"| {process} | {turn.longest_ms:.0f} | {turn.cpu_ms:.0f} |" for process, turn in sorted(turns.items())
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
