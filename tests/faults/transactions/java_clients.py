"""The same writers and copiers with Kafka's own client, which uses transaction version 2: one JVM for all of a cell.

`tests/compat/java/TransactionalClients.java` does what `producers.py` does, and says what happens, a line each; the
events are recorded here.
"""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from typing import Final

from tests.compat.java_programs import SHORT_LIVED, class_path
from tests.faults.history import Type
from tests.faults.transactions.history import EventRecorder
from tests.faults.transactions.plan import TRANSACTION_TIMEOUT_MS, Plan
from tests.integration.kafka_tools import kafka_libs

_END_SECONDS_MAX: Final = 180.0
_EVENTS: Final = {
    "invoke": (Type.INVOKE, "transaction"),
    "ok": (Type.OK, "transaction"),
    "fail": (Type.FAIL, "transaction"),
    "copied": (Type.OK, "copied"),
    "zombie-ok": (Type.OK, "zombie"),
    "zombie-fail": (Type.FAIL, "zombie"),
}


class JavaClient:
    """One writer or copier of the JVM."""

    def __init__(self, jvm: JavaClients, name: str, directory: Path) -> None:
        self.committed = 0
        """Transactions."""
        self.ended = threading.Event()
        self._jvm = jvm
        self._name = name
        self._recorder = EventRecorder(directory, name)

    def start(self) -> None:
        """The JVM starts all of its clients together."""
        self._jvm.start()

    def stop(self) -> None:
        """Begin to; `join` waits for it."""
        self._jvm.stop(self._name)

    def join(self) -> None:
        assert self.ended.wait(_END_SECONDS_MAX), f"{self._name} does not end"

    def happened(self, event: str, value: str) -> None:
        if event == "ended":
            self._recorder.__exit__(None, None, None)
            self.ended.set()
            return
        kind, what = _EVENTS[event]
        self._recorder.record(kind, what, value=value)
        self.committed += event in ("ok", "copied")


class JavaClients:
    """All writers and copiers of a plan, and their JVM, which ends after the last of them."""

    def __init__(self, plan: Plan) -> None:
        names = [f"copier-{number}" for number in range(plan.copiers)]
        names += [f"writer-{number}" for number in range(plan.writers)]
        self.by_name = {name: JavaClient(self, name, Path(plan.directory)) for name in names}
        self._plan = plan
        self._jvm: subprocess.Popen[str] | None = None

    def start(self) -> None:
        if self._jvm is not None:
            return
        plan, pipe = self._plan, subprocess.PIPE
        command = [
            *("java", "-Xmx256M", *SHORT_LIVED, "-cp", class_path(kafka_libs()), "TransactionalClients"),
            *(",".join(plan.bootstrap_servers), plan.topic, str(plan.partitions)),
            *(str(TRANSACTION_TIMEOUT_MS), str(plan.life_seconds), str(plan.seed), *self.by_name),
        ]
        self._jvm = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        threading.Thread(target=self._listen, daemon=True).start()

    def stop(self, name: str) -> None:
        assert self._jvm is not None
        assert self._jvm.stdin is not None
        self._jvm.stdin.write(f"stop {name}\n")
        self._jvm.stdin.flush()

    def _listen(self) -> None:
        assert self._jvm is not None
        assert self._jvm.stdout is not None
        for line in self._jvm.stdout:
            self.said(line)
        self._jvm.wait()

    def said(self, line: str) -> None:
        """The JVM has written this line: an event, a client's name, and a value."""
        event, name, value = line.rstrip("\n").split(" ", 2)
        self.by_name[name].happened(event, value)
