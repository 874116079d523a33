"""A service that is watched: how it is started, which process it is now, and when it is started again."""

from __future__ import annotations

import os
import signal

from barnabas.supervisor.process_table import ProcessIdentity

DELAY_MS_MIN = 100
DELAY_MS_MAX = 30_000
CALM_MS = 30_000
"""A process that has run this long is restarted without delay when it dies."""


class Watched:
    """All times are of a monotonic clock."""

    __slots__ = ("argv", "delay_ms", "environment", "identity", "log_path", "name", "pid_path", "pidfd", "since_ms")

    def __init__(self, name: str, argv: list[str], environment: dict[str, str], log_path: str, pid_path: str) -> None:
        self.name = name
        self.argv = argv
        self.environment = environment
        self.log_path = log_path
        self.pid_path = pid_path
        self.identity: ProcessIdentity | None = None
        """The process that was started last."""
        self.pidfd = -1
        """Of that process; -1 if it has ended."""
        self.since_ms = 0
        """When the process began, or when it ended."""
        self.delay_ms = 0
        """Between the last death and the restart; 0 if there was none, or if the process has been calm since."""

    @property
    def is_running(self) -> bool:
        return self.pidfd >= 0

    @property
    def due_ms(self) -> int:
        """Return when an ended process is started again."""
        return self.since_ms + self.delay_ms

    def begin(self, identity: ProcessIdentity, now_ms: int) -> None:
        """Watch this process. Raises ProcessLookupError if it has ended, and OSError."""
        self.identity = identity
        self.pidfd = os.pidfd_open(identity.pid)
        self.since_ms = now_ms

    def end(self, now_ms: int) -> str:
        """Return how the process ended, and decide when it is started again."""
        reason = reason_of_end(self.pidfd)
        os.close(self.pidfd)
        self.pidfd = -1
        if now_ms - self.since_ms >= CALM_MS:
            self.delay_ms = 0
        self.put_off(now_ms)
        return reason

    def put_off(self, now_ms: int) -> None:
        """Wait for twice as long as before."""
        self.delay_ms = min(max(2 * self.delay_ms, DELAY_MS_MIN), DELAY_MS_MAX)
        self.since_ms = now_ms


def reason_of_end(pidfd: int) -> str:
    """Return how the process of a pidfd ended, and reap it; its parent alone can know."""
    try:
        ended = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        ended = None
    if ended is None:
        return "ended, with a status that only the supervisor knew that had started it"
    if ended.si_code == os.CLD_EXITED:
        return f"exited with code {ended.si_status}"
    try:
        name = f" ({signal.Signals(ended.si_status).name})"
    except ValueError:
        name = ""
    return f"killed by signal {ended.si_status}{name}"
