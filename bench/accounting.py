"""What the processes of one side cost: CPU time and memory, with all of their children."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from barnabas.cli.processes import ProcessIdentity, session_members

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def cpu_seconds(sessions: Iterable[ProcessIdentity]) -> float:
    """User and system time used so far."""
    return sum(cpu_seconds_of(pid) for session in sessions for pid in session_members(session))


def cpu_seconds_of(pid: int) -> float:
    """Of one process with all of its threads; 0 when it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    fields = text[text.rindex(")") + 2 :].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def memory_bytes(sessions: Iterable[ProcessIdentity]) -> int:
    """The sum of PSS: a page that several processes share is counted once."""
    return sum(_pss_bytes(pid) for session in sessions for pid in session_members(session))


def _pss_bytes(pid: int) -> int:
    try:
        rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next(int(row.split()[1]) * 1024 for row in rows if row.startswith("Pss:"))
