"""Spark's standalone master and a worker as processes on loopback, and the processes that the worker has started."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import barnabas_pipeline.cli.__main__
from tests.pipeline.job_process import SECONDS_MAX

BIN = Path(sys.executable).parent
ENVIRONMENT = {
    **os.environ,
    "PATH": f"{BIN}:{os.environ['PATH']}",
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYSPARK_PYTHON": sys.executable,
}
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_EXECUTOR = "CoarseGrainedExecutorBackend"
_PYTHON_DAEMON = "pyspark.daemon"


class StandaloneSpark:
    """Use it as a context manager: all of its processes end with it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._cleanup = ExitStack()

    def __enter__(self) -> StandaloneSpark:
        try:
            master = self._start("master", _MASTER, "--port", "0")
            self.master = self._said("master", master, r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
            work = str(self._directory / "work")
            self.worker = self._start(
                "worker", _WORKER, "--cores", "2", "--memory", "1g", "--work-dir", work, self.master
            )
            self._said("worker", self.worker, "Successfully registered with master")
        except BaseException:
            self._cleanup.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def submit(self, program: str = barnabas_pipeline.cli.__main__.__file__) -> tuple[str, ...]:
        """The command, as docs/use/pipeline.md has it for a cluster."""
        return submit_to(self.master, program)

    def executors(self) -> list[int]:
        """The processes of executors' JVMs."""
        return [pid for pid in _descendants(self.worker.pid) if _EXECUTOR in _command_line(pid)]

    def python_workers(self) -> list[int]:
        """Those that run tasks now or may: children of the executors' Python daemons."""
        found = _descendants(self.worker.pid)
        daemons = {pid for pid in found if _PYTHON_DAEMON in _command_line(pid)}
        return [pid for pid in found if _parent(pid) in daemons]

    def _start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self._directory / f"{name}.log").open("wb") as output:
            process = subprocess.Popen(
                [str(BIN / "spark-class"), arguments[0], "--host", "127.0.0.1", "--webui-port", "0", *arguments[1:]],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=ENVIRONMENT,
                start_new_session=True,
            )
        self._cleanup.callback(_end, process)
        return process

    def _said(self, name: str, process: subprocess.Popen[bytes], pattern: str) -> str:
        log = self._directory / f"{name}.log"
        deadline = time.monotonic() + SECONDS_MAX
        while (found := re.search(pattern, log.read_text(errors="replace"))) is None:
            is_alive = process.poll() is None and time.monotonic() < deadline
            assert is_alive, log.read_text(errors="replace")[-3000:]
            time.sleep(0.1)
        return found[found.re.groups]


def submit_to(master: str, program: str) -> tuple[str, ...]:
    """The command that runs `program` with that master, `spark://…` or `local[…]`."""
    settings = (
        "spark.executor.memory=512m",
        "spark.driver.host=127.0.0.1",
        f"spark.pyspark.python={sys.executable}",
    )
    named = [part for setting in settings for part in ("--conf", setting)]
    return (str(BIN / "spark-submit"), "--master", master, *named, program)


def _end(process: subprocess.Popen[bytes]) -> None:
    for pid in [*_descendants(process.pid), process.pid]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()


def _descendants(pid: int) -> list[int]:
    """Children first met first; a process that ends meanwhile is left out."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            children.setdefault(_parent(int(entry.name)), []).append(int(entry.name))
    found: list[int] = []
    queue = [pid]
    while queue:
        of = children.get(queue.pop(), [])
        found += of
        queue += of
    return found


def _parent(pid: int) -> int:
    try:
        # The name, in parentheses, may have blanks in it.
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return -1


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
