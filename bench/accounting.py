"""What the processes of one side cost: CPU time and memory, with all of their children."""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from barnabas_cli.local.processes import ProcessIdentity, session_members

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

TOUCHED_BYTES: Final = 1 << 30
"""More than a measured run takes of new pages, on either side."""


class CpuTime(NamedTuple):
    """Seconds of CPU, of the programs and of the kernel on their behalf."""

    user: float
    system: float

    @property
    def total(self) -> float:
        return self.user + self.system

    def since(self, before: CpuTime) -> CpuTime:
        return CpuTime(self.user - before.user, self.system - before.system)


def cpu_time(sessions: Iterable[ProcessIdentity]) -> CpuTime:
    """User and system time used so far."""
    times = [cpu_time_of(pid) for session in sessions for pid in session_members(session)]
    return CpuTime(sum(each.user for each in times), sum(each.system for each in times))


def cpu_time_of(pid: int) -> CpuTime:
    """Of one process with all of its threads; 0 when it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return CpuTime(0.0, 0.0)
    fields = text[text.rindex(")") + 2 :].split()
    return CpuTime(int(fields[11]) / _TICKS_PER_SECOND, int(fields[12]) / _TICKS_PER_SECOND)


def switches(sessions: Iterable[ProcessIdentity]) -> int:
    """How often a thread of these processes has given its processor up to wait for something, so far."""
    return sum(_switches_of(pid) for session in sessions for pid in session_members(session))


def _switches_of(pid: int) -> int:
    count = 0
    for path in Path(f"/proc/{pid}/task").glob("*/status"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            count += int(path.read_text().partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    return count


def cpu_seconds(sessions: Iterable[ProcessIdentity]) -> float:
    """User and system time used so far, together."""
    return cpu_time(sessions).total


def touch_pages(byte_count: int = TOUCHED_BYTES) -> None:
    """Have the machine back so much free memory, before a measured run of either side.

    A virtual machine gives free pages back to its host. The first touch of such a page costs 1.3 to 2.2 ms per MB, and
    which side pays it is chance.
    """
    if not byte_count:
        return
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    mmap.mmap(-1, byte_count, flags=flags).close()


def memory_bytes(sessions: Iterable[ProcessIdentity]) -> int:
    """The sum of PSS: a page that several processes share is counted once."""
    return sum(_pss_bytes(pid) for session in sessions for pid in session_members(session))


def _pss_bytes(pid: int) -> int:
    try:
        rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next(int(row.split()[1]) * 1024 for row in rows if row.startswith("Pss:"))
