"""Where the shells of a logstore's processes catch unexpected exceptions, and what each of them ends."""

from __future__ import annotations

from typing import Final

from barnabas.containment import Place, Scope

IO_THREAD: Final = Place("logstore.io_thread", Scope.PROCESS, "a thread that works on logs, apart from that work")
CONTROL_HEALTH: Final = Place(
    "logstore.control_health", Scope.PROCESS, "the health of the control listener, whose process alone ends"
)
DISKS: Final = Place("logstore.disks", Scope.DUTY, "a look at the free space of disks, for metrics")
WRITE_BACK: Final = Place("logstore.write_back", Scope.DUTY, "writing back before a stop, which flushes do later")
REGISTRATION: Final = Place(
    "logstore.registration", Scope.DUTY, "registering which directories and partitions are offline or full"
)

PLACES: Final = (IO_THREAD, CONTROL_HEALTH, DISKS, WRITE_BACK, REGISTRATION)
