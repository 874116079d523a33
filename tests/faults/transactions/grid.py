"""Plays cells one after another on one cluster, and has the histories of their transactional clients checked."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading
import time
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from barnabas_cli.local.services import service_environment
from tests.faults.cells import Need
from tests.faults.cluster import FaultCluster, UnhealthyError
from tests.faults.history import Recorder
from tests.faults.rows import Run
from tests.faults.stage import SETTLE_SECONDS_MAX, Stage
from tests.faults.topics import RefusedError, create_topic, delete_topic, in_sync
from tests.faults.transactions.cells import Cell
from tests.faults.transactions.check import Verdict, check
from tests.faults.transactions.history import ALL, IN, OUT, read_events
from tests.faults.transactions.plan import Plan
from tests.faults.transactions.report import Row

ROOT: Final = Path(__file__).parents[3]
PARTITIONS: Final = 4
WARM_UP_TRANSACTIONS: Final = 20
"""Committed before the first fault."""
WARM_UP_SECONDS_MAX: Final = 60.0
CLIENTS_END_SECONDS_MAX: Final = 420.0
"""The feeder's flush, what is left to copy, and the reads at the end."""
_CONFIGS: Final = {"min.insync.replicas": "2"}


class ClientsError(Exception):
    """The process of the clients ended too early, or committed nothing; the message has its last lines."""


class Clients:
    """The process of a cell's clients, from its start to the end of its history."""

    def __init__(self, plan: Plan) -> None:
        self._directory = Path(plan.directory)
        self._directory.mkdir(parents=True)
        self._log = self._directory / "clients.log"
        self._committed = 0
        argument = msgspec.json.encode(plan).decode()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.transactions.clients", argument],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
                env=service_environment(),
                start_new_session=True,
            )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def wait_for_commits(self, transactions: int, seconds_max: float) -> None:
        """Raises ClientsError."""
        deadline = time.monotonic() + seconds_max
        while self._committed < transactions:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise ClientsError(f"{self._committed} of {transactions} transactions committed:\n{self._last_lines()}")
            time.sleep(0.1)

    def stop(self) -> None:
        """Have everything copied and read. Raises ClientsError."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            code = self._process.wait(CLIENTS_END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise ClientsError(f"the clients did not end within {CLIENTS_END_SECONDS_MAX:.0f} s") from None
        if code != 0:
            raise ClientsError(f"the clients ended with {code}:\n{self._last_lines()}")

    def abandon(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._listener.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._committed = int(line)

    def _last_lines(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-20:])


class TransactionGrid:
    """The cells of one run on one cluster, which has been started."""

    def __init__(
        self, cluster: FaultCluster, seconds: float, seed: int, keep: Path | None, run: Run, debug: str
    ) -> None:
        """Each cell is under faults for so many seconds; `keep` is where the histories and logs of failed ones go,
        `debug` what the producers of librdkafka write into them."""
        self._cluster = cluster
        self._seconds = seconds
        self._seed = seed
        self._keep = keep
        self._run = run
        self._debug = debug
        self._played = 0

    def play(self, cell: Cell) -> Row:
        """One cell, and the cluster whole again after it."""
        row = Row(cell=cell.name, run=self._run)
        if Need.NETWORK in cell.needs and self._cluster.network is None:
            row.skipped = self._cluster.no_network
            return row
        began = time.monotonic()
        self._played += 1
        name = f"{cell.name}-{self._played}"
        directory = self._cluster.layout.directory / "histories" / name
        try:
            self._play(cell, name, directory, row)
        except (UnhealthyError, RefusedError, ClientsError) as reason:
            row.failures.append(str(reason))
        row.seconds = round(time.monotonic() - began, 1)
        row.load = round(os.getloadavg()[0], 1)
        if not row.passed and self._keep is not None:
            shutil.copytree(directory, self._keep / name / "history", dirs_exist_ok=True)
            shutil.copytree(self._cluster.layout.directory / "logs", self._keep / name / "logs", dirs_exist_ok=True)
        self._clean_up(name, directory, row)
        return row

    def _play(self, cell: Cell, name: str, directory: Path, row: Row) -> None:
        layout = self._cluster.layout
        for which in (IN, OUT, ALL):
            topic = f"{name}-{which}"
            create_topic(layout, topic, PARTITIONS, _CONFIGS)
            self._cluster.wait_until(partial(in_sync, layout, topic, PARTITIONS), SETTLE_SECONDS_MAX)
        plan = Plan(
            bootstrap_servers=layout.bootstrap.split(","),
            topic=name,
            partitions=PARTITIONS,
            directory=str(directory),
            seed=self._seed,
            debug=self._debug,
            by_java=cell.by_java,
        )
        clients = Clients(plan)
        try:
            self._inject(cell, name, directory, clients, row)
            clients.stop()
        finally:
            clients.abandon()
        verdict = check(read_events(directory), PARTITIONS)
        _fill(row, verdict)
        if not verdict.is_clean:
            print(verdict, flush=True)

    def _inject(self, cell: Cell, name: str, directory: Path, clients: Clients, row: Row) -> None:
        """Repeat the fault until the time is over. What the clients saw is checked even when a fault went wrong."""
        chance = random.Random(f"{self._seed} {cell.name}")
        clients.wait_for_commits(WARM_UP_TRANSACTIONS, WARM_UP_SECONDS_MAX)
        with Recorder(directory / "faults" / "nemesis.jsonl", self._seed) as nemesis:
            # The faults of the grid hit what leads the topic whose transactions span all partitions.
            stage = Stage(self._cluster, f"{name}-{ALL}", PARTITIONS, chance, nemesis, directory)
            deadline = time.monotonic() + self._seconds
            try:
                while time.monotonic() < deadline:
                    began = time.monotonic()
                    stage.hold(chance.uniform(0.5, 2.0))
                    cell.fault(stage)
                    if time.monotonic() + (time.monotonic() - began) > deadline:
                        break
                stage.hold(max(0.0, deadline - time.monotonic()))
            except (UnhealthyError, RefusedError) as reason:
                row.failures.append(str(reason))
                self._cluster.repair()
            row.faults = len(stage.injections)

    def _clean_up(self, name: str, directory: Path, row: Row) -> None:
        """The next cell finds a cluster that is well; one that can't be repaired is recreated."""
        shutil.rmtree(directory, ignore_errors=True)
        try:
            self._cluster.repair()
            for which in (IN, OUT, ALL):
                delete_topic(self._cluster.layout, f"{name}-{which}")
        except (UnhealthyError, RefusedError) as reason:
            row.failures.append(f"the cluster does not come back: {reason}")
            self._cluster.start_over()


def _fill(row: Row, verdict: Verdict) -> None:
    row.counts = {str(kind): count for kind, count in verdict.counts.items()}
    row.incomplete = verdict.incomplete
    row.fed, row.copied, row.fenced = verdict.fed, verdict.copied, verdict.fenced
    row.committed, row.aborted, row.unknown = verdict.committed, verdict.aborted, verdict.unknown
    silences = (later - earlier for earlier, later in pairwise(verdict.committed_ns))
    row.silence_ms = round(max(silences, default=0) / 1e6)
