"""Apache Kafka's command line tools, and the programs of `tests/compat/java`, in one JVM for all tests of a process."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import threading
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.compat.java_programs import SHORT_LIVED, class_path
from tests.integration.running_cluster import ROOT

LIBS = Path(os.environ.get("BARNABAS_PEER_LIBS") or ROOT / ".cache/peer/libs")


def kafka_libs() -> Path:
    """Return the directory of Kafka's jars, which are fetched where Maven is. Skip the test where there are none."""
    if shutil.which("java") is None or shutil.which("javac") is None:
        pytest.skip("no JDK (java and javac) on PATH")
    if "BARNABAS_PEER_LIBS" not in os.environ:
        got = subprocess.run([ROOT / "scripts/peer"], capture_output=True, text=True, check=False)
        if got.returncode != 0:
            pytest.skip(f"Apache Kafka's jars can't be fetched: {got.stderr.strip()}")
    elif not list(LIBS.glob("kafka-tools-*.jar")):
        pytest.skip(f"no Kafka jars in {LIBS} (BARNABAS_PEER_LIBS)")
    return LIBS


class Done(NamedTuple):
    """What a tool came to."""

    status: int
    stdout: str
    stderr: str


class KafkaTools:
    """Use it as a context manager. The JVM starts with the first tool, and again if a tool did not end in time."""

    def __init__(self) -> None:
        self._jvm: subprocess.Popen[str] | None = None

    def __enter__(self) -> KafkaTools:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def run(self, name: str, *arguments: str, seconds_max: float = 200) -> Done:
        """Run the main class `name` to its end."""
        jvm = self._running()
        assert jvm.stdin is not None
        assert jvm.stdout is not None
        assert not any(each in word for word in arguments for each in "\t\n"), arguments
        late = threading.Timer(seconds_max, jvm.kill)
        late.start()
        try:
            jvm.stdin.write("\t".join((name, *arguments)) + "\n")
            jvm.stdin.flush()
            answer = jvm.stdout.readline()
        except BaseException:
            # A test that ran out of time: the answer would be taken for that of the next tool.
            self._end()
            raise
        finally:
            late.cancel()
        assert answer, f"{name} did not end within {seconds_max} seconds, or ended the JVM"
        status, stdout, stderr = answer.rstrip("\n").split("\t")
        return Done(int(status), _decoded(stdout), _decoded(stderr))

    def output(self, name: str, *arguments: str) -> str:
        """Return what a tool that succeeds writes to standard output."""
        done = self.run(name, *arguments)
        assert done.status == 0, done.stdout + done.stderr
        return done.stdout

    def both_outputs(self, name: str, *arguments: str) -> str:
        """Return what a tool that succeeds writes to standard output, then what to standard error."""
        done = self.run(name, *arguments)
        assert done.status == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def _end(self) -> None:
        if self._jvm is not None:
            self._jvm.kill()
            self._jvm.communicate()
            self._jvm = None

    def _running(self) -> subprocess.Popen[str]:
        if self._jvm is None or self._jvm.poll() is not None:
            self._jvm = subprocess.Popen(
                ["java", "-Xmx256M", *SHORT_LIVED, "-cp", class_path(kafka_libs()), "Tools"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=Path("/"),
            )
        return self._jvm


def _decoded(text: str) -> str:
    return base64.b64decode(text).decode()
