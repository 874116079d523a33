"""Real clients that work on a cluster while something is done to it, and the history of what they saw.

    workload = start(["127.0.0.1:9092"], "t", 4, directory=directory, seed=7)
    workload.wait_for_more(500)
    workload.nemesis.fault("kill -9 logstore-1")
    …                                            # whatever it is
    paths = workload.stop()                      # when the cluster is whole again
    verdict = check(read(paths))

The clients are in processes of their own, one for the producers, one for the readers, one for clients in pure Python,
which end with this process however it ends. They send some records per second to every partition, read concurrently,
and ask for ends; `stop` ends them and reads everything twice through each gateway. The topic has to exist, without
compaction and retention.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import msgspec

from barnabas_cli.local.services import service_environment
from tests.faults.clients.plan import Mix, Part, Plan
from tests.faults.history import Recorder, paths_of

__all__ = ["Mix", "Workload", "WorkloadError", "start"]

ROOT = Path(__file__).parents[2]

FLUSH_SECONDS_MAX = 30.0
"""How long idempotent producers may take to deliver what they have when they are stopped."""
READ_SECONDS_MAX = 60.0
"""How long one final reader may take."""
SETTLE_SECONDS = 1.0
"""Between the last producer's end and the final reads, for what a gateway may still hold of it."""
_POLL_SECONDS = 0.05


class WorkloadError(Exception):
    """A process of clients ended by itself, or nothing is acknowledged any more; the message says which, and its last
    words. That is a fault of the tests or of a client library, or a cluster that does not serve."""


class Workload:
    """Running clients. Use `start`."""

    def __init__(self, plan: Plan, parts: Sequence[Part], command_prefix: Sequence[str]) -> None:
        self._plan = plan
        self._command_prefix = command_prefix
        self._directory = Path(plan.directory)
        self.nemesis = Recorder(self._directory / "nemesis.jsonl", plan.seed)
        """Write down here what is done to the cluster."""
        self._acknowledged = 0
        self._processes = {part: self._spawn(msgspec.structs.replace(plan, part=part)) for part in parts}
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def __enter__(self) -> Workload:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abandon()

    @property
    def acknowledged(self) -> int:
        """Records so far, by all producers of librdkafka, as of half a second ago."""
        return self._acknowledged

    def wait_for_more(self, records: int, seconds_max: float = 60.0) -> None:
        """Until so many more are acknowledged than are now. Raises WorkloadError."""
        wanted = self.acknowledged + records
        deadline = time.monotonic() + seconds_max
        while self.acknowledged < wanted:
            self.check_alive()
            if time.monotonic() > deadline:
                raise WorkloadError(f"{self.acknowledged} of {wanted} records acknowledged within {seconds_max} s")
            time.sleep(_POLL_SECONDS)

    def check_alive(self) -> None:
        """Raises WorkloadError when a process has ended by itself."""
        for part, process in self._processes.items():
            if process.poll() is not None:
                raise WorkloadError(f"the {part} ended with {process.returncode}:\n{self._last_words(part)}")

    def stop(self, bootstrap_servers: Sequence[str] | None = None) -> list[Path]:
        """End the clients, read everything, and return the paths of the history.

        The final readers go through these servers one by one, by default through those of the start. Takes as long as
        idempotent producers have records to deliver, 30 s at the most, and the final reads, a minute each at the most.
        Raises WorkloadError.
        """
        self.check_alive()
        for process in self._processes.values():
            assert process.stdin is not None
            process.stdin.close()
        for part, process in self._processes.items():
            self._wait_for_end(part, process, 2 * FLUSH_SECONDS_MAX)
        self._close()
        time.sleep(SETTLE_SECONDS)
        servers = list(bootstrap_servers or self._plan.bootstrap_servers)
        plan = msgspec.structs.replace(
            self._plan, part=Part.FINAL_READERS, bootstrap_servers=servers, seconds_max=READ_SECONDS_MAX
        )
        self._processes[Part.FINAL_READERS] = final = self._spawn(plan)
        self._wait_for_end(Part.FINAL_READERS, final, 2 * len(servers) * (READ_SECONDS_MAX + 10))
        self._close()
        return paths_of(self._directory)

    def abandon(self) -> None:
        """End what still runs, at once; the history stays as it is."""
        for process in self._processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()
        self._close()

    def _close(self) -> None:
        """Our ends of the pipes, once the others are closed."""
        self._listener.join()
        for process in self._processes.values():
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        self.nemesis.close()

    def _spawn(self, plan: Plan) -> subprocess.Popen[bytes]:
        argument = msgspec.json.encode(plan).decode()
        with self._log_path(plan.part).open("ab") as log:
            return subprocess.Popen(
                [*self._command_prefix, sys.executable, "-m", "tests.faults.clients", argument],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if plan.part is Part.PRODUCERS else log,
                stderr=log,
                cwd=ROOT,
                env=service_environment(),
                start_new_session=True,
            )

    def _listen(self) -> None:
        output = self._processes[Part.PRODUCERS].stdout
        assert output is not None
        for line in output:
            self._acknowledged = int(line)

    def _wait_for_end(self, part: Part, process: subprocess.Popen[bytes], seconds_max: float) -> None:
        try:
            code = process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise WorkloadError(f"the {part} did not end within {seconds_max} s") from None
        if code != 0:
            raise WorkloadError(f"the {part} ended with {code}:\n{self._last_words(part)}")

    def _log_path(self, part: Part) -> Path:
        return self._directory / f"{part}.log"

    def _last_words(self, part: Part) -> str:
        return "\n".join(self._log_path(part).read_text(errors="replace").splitlines()[-20:])


def start(
    bootstrap_servers: Sequence[str],
    topic: str,
    partitions: int,
    *,
    directory: Path,
    seed: int,
    mix: Mix | None = None,
    command_prefix: Sequence[str] = (),
) -> Workload:
    """Start the clients on a topic that exists; they need about a second to begin (`wait_for_more`).

    `directory` is for this run's history alone. `command_prefix` is put before each command, as
    `["ip", "netns", "exec", name]` for clients in a network namespace.
    """
    directory.mkdir(parents=True, exist_ok=True)
    assert not paths_of(directory), "one directory per run"
    chosen = mix or Mix()
    plan = Plan(
        part=Part.PRODUCERS,
        bootstrap_servers=list(bootstrap_servers),
        topic=topic,
        partitions=partitions,
        directory=str(directory),
        seed=seed,
        mix=chosen,
        seconds_max=FLUSH_SECONDS_MAX,
    )
    parts = [Part.PRODUCERS]
    if chosen.readers:
        parts.append(Part.READERS)
    if chosen.kafka_python or chosen.aiokafka:
        parts.append(Part.PURE_PYTHON)
    return Workload(plan, parts, command_prefix)
