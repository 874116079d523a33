"""The programs of real clients: how each is built, started, listened to and ended."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from enum import StrEnum
from pathlib import Path
from typing import Final

from barnabas_cli.local.services import service_environment
from tests.compat.matrix.toolchains import prepare
from tests.faults.moving_leaders.check import Kind
from tests.faults.moving_leaders.deliveries import Deliveries, ReportError, Sender, read_reports
from tests.faults.moving_leaders.movers import Say

ROOT: Final = Path(__file__).parents[3]
DELIVERY_SECONDS_MAX: Final = 120.0
"""Of every client: the default of Java's delivery.timeout.ms."""
END_SECONDS_MAX: Final = DELIVERY_SECONDS_MAX + 30.0
UNANSWERED_MAX: Final = 100
"""Records per producer and partition that wait for their answers; a partition that is stuck hinders no other."""
_POLL_SECONDS: Final = 0.1
_SAY_SECONDS: Final = 10.0


class Client(StrEnum):
    JAVA = "java"
    LIBRDKAFKA = "librdkafka"
    FRANZ_GO = "franz-go"


KNOWN_AT_KAFKA: Final = {
    Client.JAVA: frozenset[Kind](),
    Client.LIBRDKAFKA: frozenset({Kind.DOUBLED, Kind.OUT_OF_ORDER}),
    Client.FRANZ_GO: frozenset[Kind](),
}
"""What a client does at Apache Kafka, too: librdkafka's issue 4953. It is held against Kafka's, per move."""


class ProducersError(Exception):
    """The clients' program ended by itself, or does not end; the message has its last words."""


def command_of(client: Client) -> list[str]:
    """What starts its program, built first where it has to be. Raises UnavailableError."""
    match client:
        case Client.JAVA:
            libs = prepare("peer")
            log4j = ROOT / "tests/faults/moving_leaders/log4j2.xml"
            source = ROOT / "tests/compat/java/MovingProducers.java"
            flags = ["-Xmx512M", f"-Dlog4j2.configurationFile={log4j}", "-cp", f"{libs}/*"]
            return ["java", *flags, str(source)]
        case Client.LIBRDKAFKA:
            return [sys.executable, "-m", "tests.faults.moving_leaders.librdkafka_producers"]
        case Client.FRANZ_GO:
            return [str(prepare("go") / "bin/moving-producers")]


class Producers:
    """Producers that run, in one process. Use it as a context manager.

    However this process ends, that one ends, too: after a delivery timeout at the latest.
    """

    def __init__(self, command: list[str], bootstrap: str, topic: str, partitions: int, count: int, to: Path) -> None:
        """Their reports, and what the client says, are in the directory `to`."""
        to.mkdir(parents=True, exist_ok=True)
        self._directory = to
        self._partitions = partitions
        self._count = count
        self.version = ""
        self.acknowledged = 0
        self.failed = 0
        arguments = [bootstrap, topic, str(partitions), str(count), str(UNANSWERED_MAX), str(to)]
        with (to / "client.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*command, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
                env=service_environment(),
                start_new_session=True,
            )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def __enter__(self) -> Producers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._listener.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def wait_for(self, acknowledged: int, seconds_max: float) -> None:
        """Until so many records are acknowledged. Raises ProducersError."""
        deadline = time.monotonic() + seconds_max
        while self.acknowledged < acknowledged:
            self.check_alive()
            if time.monotonic() > deadline:
                raise ProducersError(f"{self.acknowledged} records acknowledged within {seconds_max:.0f} s")
            time.sleep(_POLL_SECONDS)

    def check_alive(self) -> None:
        """Raises ProducersError when they have ended by themselves."""
        if self._process.poll() is not None:
            raise ProducersError(f"the clients ended with {self._process.returncode}:\n{self._last_words()}")

    def finish(self, say: Say) -> dict[Sender, Deliveries]:
        """Have them deliver what they have and end, and read their reports. Raises ProducersError."""
        self.check_alive()
        assert self._process.stdin is not None
        self._process.stdin.close()
        began = time.monotonic()
        while self._process.poll() is None:
            waited = time.monotonic() - began
            if waited > END_SECONDS_MAX:
                raise ProducersError(f"the clients did not end within {END_SECONDS_MAX:.0f} s:\n{self._last_words()}")
            try:
                self._process.wait(_SAY_SECONDS)
            except subprocess.TimeoutExpired:
                say(f"flushing: {self.acknowledged} acknowledged, {self.failed} failed")
        if self._process.returncode != 0:
            raise ProducersError(f"the clients ended with {self._process.returncode}:\n{self._last_words()}")
        try:
            return read_reports(self._directory, self._count, self._partitions)
        except (ReportError, OSError, ValueError) as reason:
            raise ProducersError(f"the reports can't be read: {reason}") from None

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            match line.decode().split():
                case ["version", version]:
                    self.version = version
                case [acknowledged, failed]:
                    self.acknowledged, self.failed = int(acknowledged), int(failed)

    def _last_words(self) -> str:
        said = (self._directory / "client.log").read_text(errors="replace")
        return os.linesep.join(said.splitlines()[-20:])
