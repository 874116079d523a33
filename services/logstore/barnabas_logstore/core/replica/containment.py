"""What becomes of unexpected exceptions in a logstore: the places where they are caught, and logs that are in doubt.

Before anything of a partition has changed an exception costs one request. One that may have left a log, or what
followers and coordinators rely on, half-changed takes that replica offline as a failed disk would, at the end of the
step (`EffectFailures`), while the other partitions of its directory go on; it comes back at the next start, when the
log is recovered from the disk. What is not caught here ends the process: credit, the order of effects and the turn
itself are shared by all.
"""

from __future__ import annotations

from typing import Final

from barnabas.containment import Containment, Place, Scope, summary_of
from barnabas.ports.disk import DiskError, DiskErrorKind
from barnabas_logstore.core.storage.log.partition_log import PartitionLog

APPEND: Final = Place("logstore.append", Scope.REQUEST, "an append that has changed nothing of its log")
APPEND_TO_LOG: Final = Place("logstore.append_to_log", Scope.PARTITION, "an append that may be in its log in part")
HOLD_RESULT: Final = Place(
    "logstore.hold_result", Scope.REQUEST, "a result to be held until it is committed, which leaves at once instead"
)
BEGIN_WRITE: Final = Place("logstore.begin_write", Scope.PARTITION, "the begin of a log's next write")
LOG_EFFECT: Final = Place(
    "logstore.log_effect", Scope.PARTITION, "what follows a write, a flush or a rename of a log's files"
)
READ: Final = Place("logstore.read", Scope.REQUEST, "a read, or one partition of it")
READ_BYTES: Final = Place("logstore.read_bytes", Scope.REQUEST, "the bytes of one partition of a read")
QUERY: Final = Place("logstore.query", Scope.REQUEST, "a query for an offset by time, or for a partition's state")

PLACES: Final = (APPEND, APPEND_TO_LOG, HOLD_RESULT, BEGIN_WRITE, LOG_EFFECT, READ, READ_BYTES, QUERY)


class LogstoreContainment(Containment):
    """The exceptions that were contained, and the logs that they have left in doubt."""

    def __init__(self) -> None:
        super().__init__(PLACES)
        self.in_doubt: dict[PartitionLog, str] = {}
        """Why, in one line. A log is here until it is removed or this process ends."""
        self.failures: list[tuple[str | PartitionLog, DiskError]] = []
        """Log directories and logs that can't be trusted any more: found in this step and handled at its end, when no
        component is in the middle of anything.
        """

    def log_in_doubt(self, place: Place, error: Exception, log: PartitionLog) -> None:
        """Note an exception that may have left the state of `log` half-changed: its replica goes offline."""
        topic, partition = log.topic_partition
        self.contain(place, error, {"topic": topic, "partition": partition})
        self.doubt(log, error)

    def doubt(self, log: PartitionLog, error: Exception) -> None:
        """Do the same for an exception that is noted already."""
        if log not in self.in_doubt:
            self.in_doubt[log] = summary_of(error.__cause__ or error)
            self.failures.append((log, DiskError(DiskErrorKind.IO, "trust", log.state.directory)))
