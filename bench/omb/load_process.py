"""The process that loads both sides: Java clients in the manner of OpenMessaging Benchmark, of bench/omb/java."""

from __future__ import annotations

import fcntl
import hashlib
import os
import select
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from bench.apache_kafka import LIBS
from bench.omb.histogram import Latencies, latencies_of
from bench.omb.workloads import Options, Workload

SOURCES: Final = Path(__file__).parent / "java"
JVM_FLAGS: Final = ("-Xmx1G", "-Xms1G", "-XX:+UseG1GC")
_CLASSES: Final = LIBS.parent / "bench-omb-classes"
_ANSWER_SECONDS_MAX: Final = 150.0
"""Longer than a client tries to deliver a record."""
_STOP_SECONDS_MAX: Final = 10.0
_LOG4J: Final = """<Configuration status="WARN">
  <Appenders><Console name="err" target="SYSTEM_ERR"><PatternLayout pattern="[%d] %p %m (%c)%n"/></Console></Appenders>
  <Loggers><Root level="WARN"><AppenderRef ref="err"/></Root></Loggers>
</Configuration>
"""


class LoadFailed(RuntimeError):  # noqa: N818 - the message says what has failed
    """The load has failed, or does not answer."""


class Counters(msgspec.Struct):
    """Since a workload was opened."""

    published: int
    """Records that were acknowledged."""
    failed: int
    received: int
    first_failure: str = ""


class _Histograms(msgspec.Struct):
    publish: list[tuple[int, int]]
    delay: list[tuple[int, int]]
    end_to_end: list[tuple[int, int]]


class _Version(msgspec.Struct):
    java: str


@dataclass(slots=True, frozen=True)
class LatenciesOfAll:
    publish: Latencies | None
    """From `send` to the acknowledgement."""
    delay: Latencies | None
    """From when a record was due to `send`."""
    end_to_end: Latencies | None
    """From `send` to the consumer."""


_Answer = TypeVar("_Answer")


def parse_answer(line: bytes, kind: type[_Answer]) -> _Answer:
    """Read what the load has answered. Raises LoadFailed: it reports an error, has ended, or says something else."""
    if not line:
        raise LoadFailed("the load has ended")
    try:
        error = msgspec.json.decode(line, type=dict[str, object]).get("error")
        if error is not None:
            raise LoadFailed(str(error))
        return msgspec.json.decode(line, type=kind)
    except msgspec.MsgspecError as error:
        raise LoadFailed(f"{error}: {line[:200]!r}") from error


def open_command(bootstrap: str, workload: Workload, topic: str, options: Options) -> str:
    words = {
        "bootstrap": bootstrap,
        "topic": topic,
        "topics": workload.topics,
        "partitions": workload.partitions,
        "replicas": options.replicas,
        "bytes": workload.record_bytes,
        "producers": workload.producers,
        "subscriptions": workload.subscriptions,
        "consumers": workload.consumers,
        "in_flight": options.in_flight,
    }
    return " ".join(["open", *[f"{key}={value}" for key, value in words.items()]])


class LoadProcess:
    """One Java process, which has one workload open at a time."""

    def __init__(self, directory: Path) -> None:
        """Start it; it inherits the processors of this thread. `directory`: for what it logs."""
        directory.mkdir(parents=True, exist_ok=True)
        log4j = directory / "log4j2.xml"
        log4j.write_text(_LOG4J)
        self._log = (directory / "load.log").open("ab")
        classes = compiled_classes()
        java = shutil.which("java") or "java"
        argv = [
            java,
            *JVM_FLAGS,
            "-cp",
            f"{LIBS}/*{os.pathsep}{classes}",
            f"-Dlog4j2.configurationFile={log4j}",
            "Load",
        ]
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, bufsize=0
        )
        self._received = b""

    @property
    def pid(self) -> int:
        return self._process.pid

    def java_version(self) -> str:
        return self._ask("version", _Version).java

    def open(self, bootstrap: str, workload: Workload, topic: str, options: Options) -> None:
        """Return when its topics exist and each consumer has received what each producer has sent."""
        self._order(open_command(bootstrap, workload, topic, options))

    def load(self, rate: int) -> None:
        self._order(f"load rate={rate}")

    def counters(self) -> Counters:
        return self._ask("counters", Counters)

    def latencies(self) -> LatenciesOfAll:
        found = self._ask("latencies", _Histograms)
        return LatenciesOfAll(latencies_of(found.publish), latencies_of(found.delay), latencies_of(found.end_to_end))

    def reset(self) -> None:
        """Forget the latencies, not the counters."""
        self._order("reset")

    def reset_end_to_end(self) -> None:
        """Forget the latencies up to the consumers alone."""
        self._order("reset_end_to_end")

    def pause(self) -> None:
        """Make the consumers fetch no more."""
        self._order("pause")

    def resume(self) -> None:
        self._order("resume")

    def finish(self) -> None:
        """Stop sending; return when all is acknowledged."""
        self._order("finish")

    def close(self) -> None:
        """End the clients and delete the topics."""
        self._order("close")

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def _order(self, command: str) -> None:
        self._ask(command, dict[str, object])

    def _ask(self, command: str, kind: type[_Answer]) -> _Answer:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{command}\n".encode())
        except BrokenPipeError as error:
            raise LoadFailed("the load has ended") from error
        return parse_answer(self._line(command), kind)

    def _line(self, command: str) -> bytes:
        """Return the next whole line, or nothing at its end."""
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        while b"\n" not in self._received:
            if not select.select([pipe], [], [], _ANSWER_SECONDS_MAX)[0]:
                raise LoadFailed(f"no answer to {command.split()[0]} within {_ANSWER_SECONDS_MAX:.0f} s")
            found = os.read(pipe, 1 << 20)
            if not found:
                return b""
            self._received += found
        line, _, self._received = self._received.partition(b"\n")
        return line


def compiled_classes() -> Path:
    """Compile the load for what it is now, if that was not done yet; return where its classes are."""
    sources = sorted(SOURCES.glob("*.java"))
    digest = hashlib.sha256(repr(sorted(path.name for path in LIBS.glob("*.jar"))).encode())
    for source in sources:
        digest.update(source.read_bytes())
    classes = _CLASSES / digest.hexdigest()[:16]
    _CLASSES.mkdir(parents=True, exist_ok=True)
    with (_CLASSES / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not classes.exists():
            unfinished = _CLASSES / "unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            subprocess.run(["javac", "-cp", f"{LIBS}/*", "-d", unfinished, *sources], check=True)
            unfinished.rename(classes)
    return classes
