"""`python -m bench.slow_hop`: three logstores under load, one of them slow for a while; the metrics have to say which.

The slow one's data process is stopped for 270 ms of every 300 ms (SIGSTOP, SIGCONT), which is what a CPU limit of a
tenth of a core does to it, and needs no privileges. All endpoints are scraped every second; the verdict and the picture
of the dashboard (docs/verify/slow-hop.md, docs/verify/slow-hop.svg) are made of the samples alone. Fails where the
verdict is wrong.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click

from barnabas_cli.local import ports, processes
from barnabas_cli.local.cluster import LocalCluster, cluster_to_start
from barnabas_cli.local.layout import HOST, ClusterDirectory, ClusterLayout
from barnabas_cli.local.processes import ProcessIdentity
from barnabas_cli.local.services import service_environment
from bench.ending import end_in_order
from bench.failover.load import create_topics
from bench.report import ROOT, commit, describe_machine, utc_now
from bench.slow_hop.load import RECORDS_PER_SECOND
from bench.slow_hop.picture import Span, draw
from bench.slow_hop.scraping import Scraping
from bench.slow_hop.verdict import Verdict, judge
from scripts.dashboards.dashboard import ROWS

_PORTS: Final = range(25_000, 26_600, 200)
_TOPIC: Final = "slow-hop"
_PARTITIONS: Final = 12
_WARM_S: Final = 8.0
_SETTLE_S: Final = 4
_STOPPED_S: Final = 0.27
_RUNNING_S: Final = 0.03


class Pulses:
    """Stops a process for most of the time, until the end of the `with`."""

    def __init__(self, identity: ProcessIdentity) -> None:
        self._identity = identity
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Pulses:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        processes.signal_process(self._identity, signal.SIGCONT)

    def _run(self) -> None:
        while not self._ended.is_set():
            processes.signal_process(self._identity, signal.SIGSTOP)
            time.sleep(_STOPPED_S)
            processes.signal_process(self._identity, signal.SIGCONT)
            time.sleep(_RUNNING_S)


@click.command()
@click.option("--slow", type=click.IntRange(0, 2), default=1, show_default=True, help="Which logstore.")
@click.option("--well", "well_s", type=click.IntRange(15), default=20, show_default=True, help="Seconds before.")
@click.option("--fault", "fault_s", type=click.IntRange(15), default=25, show_default=True, help="Seconds of it.")
@click.option("--after", "after_s", type=click.IntRange(0), default=15, show_default=True, help="Seconds after.")
@click.option("--save/--no-save", default=True, show_default=True, help="Into docs/verify.")
def main(slow: int, well_s: int, fault_s: int, after_s: int, save: bool) -> None:
    """Run it, and say what the metrics say."""
    end_in_order()
    with TemporaryDirectory(prefix="slow-hop-") as directory:
        cluster = _cluster(Path(directory))
        try:
            cluster.start(print)
            scraping, span = _run(cluster, slow, well_s, fault_s, after_s)
        finally:
            cluster.stop()
    verdict = judge(scraping.scraped, span.fault_begin_s, span.fault_end_s, min(well_s, fault_s) - _SETTLE_S)
    print("\n".join(verdict.words))
    if save:
        title = f"Logstore {slow} is slow from second {well_s} to second {well_s + fault_s}"
        (ROOT / "docs" / "verify" / "slow-hop.svg").write_text(draw(title, ROWS, scraping.scraped, span))
        (ROOT / "docs" / "verify" / "slow-hop.md").write_text(_page(slow, well_s, fault_s, after_s, verdict))
    if verdict.logstore != str(slow):
        sys.exit(f"wrong: it was logstore {slow}")


def _cluster(directory: Path) -> LocalCluster:
    for port in _PORTS:
        layout = ClusterLayout(port, port + 20, logstores=3)
        if all(ports.is_free(each) for each in layout.ports_used):
            return cluster_to_start(ClusterDirectory(directory), layout, print)
    raise click.ClickException(f"no free ports in {_PORTS}")


def _run(cluster: LocalCluster, slow: int, well_s: int, fault_s: int, after_s: int) -> tuple[Scraping, Span]:
    bootstrap = f"{HOST}:{cluster.layout.kafka_port}"
    create_topics(bootstrap, [_TOPIC], _PARTITIONS, 3)
    targets = {service.name: service.addresses["metrics"] for service in cluster.services if "metrics" in service.ports}
    identity = cluster.identity(cluster.service(f"logstore-{slow}"))
    assert identity is not None, "it was started"
    seconds = _WARM_S + well_s + fault_s + after_s
    argv = [sys.executable, "-m", "bench.slow_hop.load", bootstrap, _TOPIC, str(seconds)]
    load = subprocess.Popen(argv, env=service_environment(), cwd=ROOT)
    try:
        time.sleep(_WARM_S)
        with Scraping(targets) as scraping:
            begin_s = time.monotonic()
            time.sleep(well_s)
            fault_begin_s = time.monotonic()
            with Pulses(identity):
                time.sleep(fault_s)
                fault_end_s = time.monotonic()
            time.sleep(after_s)
        return scraping, Span(begin_s, time.monotonic(), fault_begin_s, fault_end_s)
    finally:
        load.terminate()
        load.wait()


def _page(slow: int, well_s: int, fault_s: int, after_s: int, verdict: Verdict) -> str:
    words = "\n".join(f"> {line}" for line in verdict.words)
    return f"""# Finding a slow logstore by metrics alone

Written by `make slow-hop` ({utc_now()}, commit {commit()}; {describe_machine()["cpu"]}, shared).

There are three logstores, one topic of {_PARTITIONS} partitions with three replicas, a producer that sends
{RECORDS_PER_SECOND} records of 1 KB a second with acks=all, and a consumer. After {well_s} s the data process of
logstore {slow} runs only for 30 ms of every 300 ms, for {fault_s} s, as under a CPU limit of a tenth of a core; then
{after_s} s as before. All endpoints are scraped every second. This verdict is computed from the samples alone
(`bench/slow_hop/verdict.py`), by queries that the dashboard has too:

{words}

The dashboard, `deploy/observability/dashboard.json`, over the same samples; the time of the fault is shaded:

![The dashboard's panels while one logstore is slow](slow-hop.svg)
"""


if __name__ == "__main__":
    main()
