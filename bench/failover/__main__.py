"""`python -m bench.failover`: how long until others lead, measured by a client, beside Apache Kafka on request.

Four parts, each against a cluster of three brokers: `kill` (SIGKILL to all processes of a leader), `pause` (SIGSTOP,
past its lease), `shutdown` (SIGTERM to a leader of 1,000 partitions), `many` (10,000 partitions made, and led again
after a kill). A run of all parts is saved under bench/results.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import click

from bench.apache_kafka import need_apache_kafka
from bench.ending import end_in_order
from bench.failover.measurements import Fault, controlled_shutdown, failovers, many_partitions
from bench.failover.report import FailoverRun, SideResult, save, tables
from bench.failover.trio import ApacheKafkaTrio, BarnabasTrio, Trio
from bench.report import ROOT, client_version, commit, describe_machine, utc_now, without_paths

PARTS = ("kill", "pause", "shutdown", "many")
_PARTITIONS_PER_TOPIC = 1000
_LED_BY_EACH = 1000


@click.command()
@click.option("--part", "parts", multiple=True, type=click.Choice(PARTS), help="Only these; nothing is saved then.")
@click.option("--kills", type=click.IntRange(1), default=12, show_default=True)
@click.option("--pauses", type=click.IntRange(1), default=4, show_default=True)
@click.option("--topics", type=click.IntRange(1), default=10, show_default=True, help="Of 1,000 partitions each.")
@click.option("--kafka", "beside_kafka", is_flag=True, help="Apache Kafka as well, one after the other.")
def main(parts: tuple[str, ...], kills: int, pauses: int, topics: int, beside_kafka: bool) -> None:
    """Measure, and save what is whole."""
    end_in_order()
    if beside_kafka:
        need_apache_kafka()
    directory = ROOT / ".cache/bench-failover"
    shutil.rmtree(directory, ignore_errors=True)
    machine, wanted = describe_machine(), parts or PARTS
    makers: list[Callable[[Path], Trio]] = [BarnabasTrio, ApacheKafkaTrio] if beside_kafka else [BarnabasTrio]
    run = FailoverRun(
        shlex.join(["python", "-m", "bench.failover", *sys.argv[1:]]),
        commit(),
        utc_now(),
        machine,
        client_version(),
        sides=[],
    )
    for make in makers:
        run.sides.append(_measure(make(directory / make.__name__.lower()), wanted, kills, pauses, topics))
        click.echo("\n" + tables(run))
        if not parts:
            # After each: half an hour of one side is not lost with the other.
            click.echo(f"\nsaved {save(run).relative_to(ROOT)}")
    shutil.rmtree(directory)


def _measure(trio: Trio, parts: tuple[str, ...], kills: int, pauses: int, topics: int) -> SideResult:
    def say(line: str) -> None:
        print(f"{trio.name}: {line}", flush=True)

    result = SideResult(trio.name, without_paths(trio.flags))
    try:
        trio.start()
        for part in parts:
            match part:
                case "kill":
                    result.kills = failovers(trio, Fault.KILL, kills, say)
                case "pause":
                    result.pauses = failovers(trio, Fault.PAUSE, pauses, say)
                case "shutdown":
                    result.shutdown = controlled_shutdown(trio, _LED_BY_EACH, say)
                case "many":
                    result.many = many_partitions(trio, topics, _PARTITIONS_PER_TOPIC, say)
    finally:
        trio.stop()
    return result


if __name__ == "__main__":
    main()
