"""Leaders move under idempotent producers of real clients, at Barnabas, at Apache Kafka, or at both in turn.

    python -m tests.faults.moving_leaders --client java --broker both --move reassign --seconds 60 --runs 5

Each run has a fresh cluster of three brokers and a topic of three replicas of which two must have a write before it is
acknowledged. When leaders rest and the producers have ended, every partition is read: every acknowledged record must be
at the offset that was reported, once and in order, and no record may have failed. Exit code 0 when it is so.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from barnabas_cli.local.cluster import ClusterError
from tests.compat.matrix.toolchains import UnavailableError
from tests.faults.cluster import UnhealthyError, signals_end_the_run
from tests.faults.moving_leaders.clusters import BarnabasCluster, Cluster, KafkaCluster, kafka_is_lacking
from tests.faults.moving_leaders.cpu_load import cpu_load
from tests.faults.moving_leaders.log import UnreadableError
from tests.faults.moving_leaders.movers import Move
from tests.faults.moving_leaders.producers import Client, ProducersError, command_of
from tests.faults.moving_leaders.report import RESULTS, save, verdict_line
from tests.faults.moving_leaders.rows import Row, row_of, row_without_verdict, wrong
from tests.faults.moving_leaders.run import Plan, play
from tests.faults.rows import this_run
from tests.faults.topics import RefusedError

TOPIC = "moving"
BROKERS = {"barnabas": ["barnabas"], "kafka": ["kafka"], "both": ["barnabas", "kafka"]}


def main() -> int:
    arguments = _arguments()
    client = Client(arguments.client)
    brokers = BROKERS[arguments.broker]
    try:
        command_of(client)
    except UnavailableError as reason:
        print(f"{client} can't run here: {reason}", file=sys.stderr)
        return 2
    if "kafka" in brokers and (lacking := kafka_is_lacking()):
        print(lacking, file=sys.stderr)
        return 2
    signals_end_the_run()
    if arguments.keep is not None:
        arguments.keep.mkdir(parents=True, exist_ok=True)
    session = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    run = this_run("tests.faults.moving_leaders")
    rows = []
    for number in range(1, arguments.runs + 1):
        plan = Plan(
            client=client,
            move=Move(arguments.move),
            seconds=arguments.seconds,
            partitions=arguments.partitions,
            producers=arguments.producers,
            seed=arguments.seed + number - 1,
        )
        for broker in brokers:
            _say(f"run {number}/{arguments.runs}, {client} at {broker}, {plan.move}, seed {plan.seed}")
            about = {
                "run": run,
                "session": session,
                "is_interleaved": len(brokers) > 1,
                "number": number,
                "broker": broker,
                "is_beside_load": arguments.load == 1,
            }
            row = _run(broker, plan, about, arguments.keep)
            rows.append(row)
            _say(verdict_line(row))
            if arguments.save:
                save([row], RESULTS)
    if arguments.save:
        _say(f"saved: {RESULTS}")
    failures = wrong(rows)
    for line in failures:
        _say(f"WRONG {line}")
    _say(f"{len(rows)} runs, {'wrong' if failures else 'ok'}")
    return 1 if failures else 0


def _run(broker: str, plan: Plan, about: dict[str, object], keep: Path | None) -> Row:
    """One run on a cluster of its own. What was seen of one that went wrong is kept, and its place is printed."""
    directory = Path(tempfile.mkdtemp(prefix=f"moving-leaders-{broker}-{plan.client}-", dir=keep))
    try:
        with ExitStack() as stack:
            cluster: Cluster
            if broker == "barnabas":
                cluster = stack.enter_context(BarnabasCluster(directory / "cluster"))
            else:
                cluster = stack.enter_context(KafkaCluster(directory / "cluster"))
            if about["is_beside_load"]:
                stack.enter_context(cpu_load(plan.seed))
            row = row_of(play(cluster, plan, TOPIC, directory / "seen", _say), plan, **about)
    except (ClusterError, UnhealthyError, RefusedError, ProducersError, UnreadableError) as reason:
        row = row_without_verdict(str(reason), plan, **about)
    finally:
        shutil.rmtree(directory / "cluster", ignore_errors=True)
    if not wrong([row]):
        shutil.rmtree(directory)
    else:
        _say(f"what was seen is in {directory}/seen")
    return row


def _say(line: str) -> None:
    print(line, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.moving_leaders", description=__doc__)
    parser.add_argument("--client", choices=list(Client), default=Client.JAVA)
    parser.add_argument("--broker", choices=list(BROKERS), default="barnabas", help="both: in turn, run by run")
    parser.add_argument("--move", choices=list(Move), default=Move.REASSIGN)
    parser.add_argument("--seconds", type=float, default=60.0, help="for which leaders move (60)")
    parser.add_argument("--partitions", type=int, default=24)
    parser.add_argument("--producers", type=int, default=3)
    parser.add_argument("--runs", type=int, default=1, help="one after the other, each on a fresh cluster")
    parser.add_argument("--load", type=int, choices=[0, 1], default=0, help="1: beside CPU load that comes and goes")
    parser.add_argument("--seed", type=int, default=1, help="of what is chosen by chance; each run has the next")
    parser.add_argument("--save", action="store_true", help=f"add the runs to {RESULTS.name}")
    parser.add_argument("--keep", type=Path, help="the directory for what was seen of runs that went wrong")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
