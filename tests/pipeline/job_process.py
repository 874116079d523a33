"""The command as a process, and what is in its tables by readers that are not ours."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from barnabas_pipeline.tables.parquet import committed_files
from tests.integration.running_cluster import ROOT

SECONDS_MAX = 240.0
"""No process of a test has more: what is asserted never depends on how fast it was."""
COMMAND = (sys.executable, "-m", "barnabas_pipeline.cli")
LOCAL = ("--spark", "spark.master=local[2]")


class JobProcess:
    """In a session of its own, with its output in files. Used as a context manager it leaves no process behind."""

    def __init__(
        self,
        directory: Path,
        *arguments: str,
        command: Sequence[str] = COMMAND,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        number = len(list(directory.glob("*.out")))
        self._out, self._err = directory / f"{number}.out", directory / f"{number}.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [*command, *arguments],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=environment,
                start_new_session=True,
            )

    def __enter__(self) -> JobProcess:
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        try:
            self.kill()
        except ProcessLookupError:
            pass  # nothing is left of its session
        self.process.wait()
        if error is not None:
            error.add_note(f"--- the job said\n{self.out}{self.err[-3000:]}")

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    @property
    def batches(self) -> int:
        """How many were told as done."""
        return sum(line.startswith("batch ") for line in self.out.splitlines())

    def until(self, is_so: Callable[[], object]) -> None:
        """Wait for something while the job runs; an end of the job before it is a failure."""
        deadline = time.monotonic() + SECONDS_MAX
        while not is_so():
            assert self.process.poll() is None, f"the job ended with {self.process.returncode}"
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.05)

    def kill(self) -> None:
        """SIGKILL for the driver, its JVM and its workers."""
        os.killpg(self.process.pid, signal.SIGKILL)

    def end(self) -> int:
        """Wait for its end; the exit code."""
        return self.process.wait(SECONDS_MAX)


def rows_of(into: str, lake: Path, table: str, columns: Sequence[str] = ("partition", "offset", "value")) -> pa.Table:
    """By a reader of the format's own."""
    match into:
        case "iceberg":
            catalog = load_catalog("barnabas", type="sql", uri=f"sqlite:///{lake}/catalog.db")
            return catalog.load_table(f"lake.{table}").scan(selected_fields=tuple(columns)).to_arrow()
        case "delta":
            return DeltaTable(str(lake / table)).to_pyarrow_table(columns=list(columns))
        case _:
            files = committed_files(str(lake / table))
            return duckdb.read_parquet(files, union_by_name=True).select(*columns).to_arrow_table()
