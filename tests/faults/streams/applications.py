"""The programs of Kafka Streams that are run: processes of Java, ended by the end of their input."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Final

from barnabas_cli.local.processes import last_lines
from tests.compat.matrix.toolchains import prepare

_HEAP: Final = "-Xmx256m"
END_SECONDS_MAX: Final = 60.0


class ApplicationError(Exception):
    """A program ended before it was asked to, or did not end."""


class Application:
    """One process; its output is in `log`. Use it as a context manager: it is killed at the end."""

    def __init__(self, main_class: str, arguments: list[str], log: Path, libs: str = "libs") -> None:
        """Raises UnavailableError where there is no Java, or no way to get the packages."""
        directory = prepare("streams")
        self.log = log
        self._name = main_class.rpartition(".")[2]
        options = [
            _HEAP,
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            f"-Dlog4j2.configurationFile={directory}/log4j2.xml",
        ]
        class_path = os.pathsep.join(f"{directory}/{each}" for each in ("classes", f"{libs}/*"))
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                ["java", *options, "-cp", class_path, main_class, *arguments],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=log.parent,
                start_new_session=True,
            )

    def __enter__(self) -> Application:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """kill -9, or nothing when it has ended."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()

    def check_alive(self) -> None:
        """Raises ApplicationError when it has ended before it was asked to."""
        if self._process.poll() is not None:
            raise ApplicationError(self._explain(f"ended with {self._process.returncode}"))

    def end_input(self) -> None:
        """Have it end; raises ApplicationError if it does not, or ends with an error."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        code = self.wait(END_SECONDS_MAX)
        if code != 0:
            raise ApplicationError(self._explain(f"ended with {code}"))

    def wait(self, seconds_max: float) -> int:
        """Return its exit code. Raises ApplicationError."""
        try:
            return self._process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            raise ApplicationError(self._explain(f"did not end within {seconds_max:.0f} s")) from None

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def await_line(self, text: str, seconds_max: float) -> None:
        """Return when it has printed a line with `text`. Raises ApplicationError."""
        deadline = time.monotonic() + seconds_max
        while text not in self.log.read_text(errors="replace"):
            self.check_alive()
            if time.monotonic() > deadline:
                raise ApplicationError(self._explain(f'did not print "{text}" within {seconds_max:.0f} s'))
            time.sleep(0.1)

    def _explain(self, what: str) -> str:
        return "\n".join([f"{self._name} {what}:", *last_lines(self.log, 20)])
