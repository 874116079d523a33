"""A Java program of Kafka's that runs while a suite does, is killed, and starts again."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_JVM: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_LOG4J: Final = """<Configuration status="ERROR">
  <Appenders><Console name="out"><PatternLayout pattern="[%d] %p %m (%c)%n"/></Console></Appenders>
  <Loggers>
    <Logger name="{logger}" level="INFO"/>
    <Root level="WARN"><AppenderRef ref="out"/></Root>
  </Loggers>
</Configuration>
"""


def java(heap: str) -> list[str]:
    """Return the command of a small Java with that much heap ("256M")."""
    return ["java", f"-Xmx{heap}", *_JVM]


class JavaProcess:
    """`name` is that of its settings and of its log in `logs`; `logger` tells of its work there."""

    def __init__(
        self, name: str, logs: Path, command: list[str], settings: Mapping[str, str], class_path: str, logger: str
    ) -> None:
        """`command` ends with the main class; it gets the path of its settings."""
        self.ended_unasked = 0
        properties, log4j = logs / f"{name}.properties", logs / f"{name}-log4j2.xml"
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        log4j.write_text(_LOG4J.format(logger=logger))
        *options, main_class = command
        self._argv = [
            *options,
            f"-Dlog4j2.configurationFile={log4j}",
            *["-cp", class_path, main_class, str(properties)],
        ]
        self._log = logs / f"{name}.log"
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as output:
            return subprocess.Popen(
                self._argv,
                cwd=self._log.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def start_again(self) -> None:
        self._process = self._start()

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)

    def restart_if_ended(self) -> None:
        """Start it again if it ended of its own accord, as a supervisor does."""
        if self._process.poll() is not None:
            self.ended_unasked += 1
            self.start_again()
