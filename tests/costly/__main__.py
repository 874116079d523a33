"""`make costly-requests`: how long another client waits while one sends the costliest requests of each API key.

On a cluster of its own, or on another broker (`--bootstrap`); into a table with the longest turn of each event loop
meanwhile (`--save`). A request has `ELEMENTS_MAX` elements at most, all its arrays together; Barnabas closes the
connection of one that has more.
"""

from __future__ import annotations

import argparse
import platform
import re
import tempfile
import time
import urllib.request
from pathlib import Path

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.primitives import ELEMENTS_MAX
from services.gateway.core.handlers import HANDLERS
from tests.costly.measure import OtherClient, Outcome, create_topic, measure
from tests.integration.running_cluster import RunningCluster

ELEMENTS = 130_000
"""Those of the arrays around the long one, and the header's, have room beside them."""
_TURN = re.compile(r'^barnabas_loop_longest_turn_ms\{process="([^"]+)"\} ([0-9.e+-]+)$', re.MULTILINE)


def longest_turns(metrics_addresses: dict[str, str]) -> dict[str, float]:
    """In ms, by pod and process, of the last one to two minutes."""
    turns = {}
    for pod, address in metrics_addresses.items():
        text = urllib.request.urlopen(f"http://{address}/metrics", timeout=10).read().decode()
        turns |= {f"{pod} {process}": float(value) for process, value in _TURN.findall(text)}
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
    if options.bootstrap:
        outcomes, turns = run(options.bootstrap, api_keys, options.elements, options.times, {})
    else:
        with tempfile.TemporaryDirectory() as directory, RunningCluster(Path(directory), 1) as cluster:
            before = controller_epoch(cluster)
            addresses = metrics_addresses(cluster)
            outcomes, turns = run(cluster.bootstrap, api_keys, options.elements, options.times, addresses)
            print(f"controller epoch before: {before}; after: {controller_epoch(cluster)}")
    text = table(outcomes, turns, options.elements, options.times)
    print(text)
    if options.save:
        options.save.write_text(text)


def controller_epoch(cluster: RunningCluster) -> int | None:
    """Another controller that became active would have another one."""
    return cluster.status().controller_epoch


def metrics_addresses(cluster: RunningCluster) -> dict[str, str]:
    """Of those pods that have an endpoint."""
    return {each.name: each.addresses["metrics"] for each in cluster.local.services if "metrics" in each.ports}


def run(
    bootstrap: str, api_keys: list[ApiKey], elements: int, times: int, metrics: dict[str, str]
) -> tuple[list[Outcome], dict[str, float]]:
    create_topic(bootstrap)
    other = OtherClient(bootstrap)
    outcomes, turns = [], dict[str, float]()
    try:
        for api_key in api_keys:
            outcome = measure(bootstrap, other, api_key, elements, times)
            print(f"{outcome.api_key.name:32} {outcome.longest_wait_ms:9.1f} ms  {outcome.label}", flush=True)
            outcomes.append(outcome)
            for process, turn_ms in longest_turns(metrics).items():
                turns[process] = max(turns.get(process, 0.0), turn_ms)
    finally:
        other.stop()
    return outcomes, turns


def table(outcomes: list[Outcome], turns: dict[str, float], elements: int, times: int) -> str:
    lines = [
        "# The costliest requests",
        "",
        f"{time.strftime('%Y-%m-%d', time.gmtime())}, {platform.platform()}; {elements:,} elements, each request "
        f"{times} times, on one connection, while another client produced one record after the other. Written by "
        "`make costly-requests`.",
        "",
        "| API key | longest wait of the other client, ms | by | bytes | answered | closed | errors of the other |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in outcomes:
        failures = ", ".join(sorted(set(each.failures))) or "none"
        lines.append(
            f"| {each.api_key.api_name} | {each.longest_wait_ms:.0f} | {each.label} | {each.request_bytes:,} "
            f"| {each.answered} | {each.closed} | {failures} |"
        )
    lines += ["", "| event loop | longest turn, ms |", "|---|---|"]
    lines += [f"| {process} | {turn_ms:.0f} |" for process, turn_ms in sorted(turns.items())]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
