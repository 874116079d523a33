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
from barnabas_logstore.core.storage.effect_execution import failed_by_fault
from barnabas_logstore.core.storage.effect_results import Refusal
from barnabas_logstore.core.storage.effects import StorageEffect
from barnabas_logstore.core.storage.log.partition_log import PartitionLog

APPEND: Final = Place("logstore.append", Scope.REQUEST, "an append that has changed nothing of its log")
APPEND_TO_LOG: Final = Place("logstore.append_to_log", Scope.PARTITION, "an append that may be in its log in part")
HOLD_RESULT: Final = Place(
    "logstore.hold_result", Scope.REQUEST, "a result to be held until it is committed, which leaves at once instead"
)
BEGIN_WRITE: Final = Place("logstore.begin_write", Scope.PARTITION, "starting a log's next write")
LOG_EFFECT: Final = Place(
    "logstore.log_effect", Scope.PARTITION, "what follows a write, a flush or a rename of a log's files"
)
DISK_WORK: Final = Place(
    "logstore.disk_work",
    Scope.PARTITION,
    "work on the files of a log directory, which goes offline as after a failed disk",
)
BATCH_WORK: Final = Place("logstore.batch_work", Scope.REQUEST, "the check of a batch, or a search in it")
READ: Final = Place("logstore.read", Scope.REQUEST, "a read, or one partition of it")
READ_BYTES: Final = Place("logstore.read_bytes", Scope.REQUEST, "the bytes of one partition of a read")
QUERY: Final = Place("logstore.query", Scope.REQUEST, "a query for an offset by time, or for a partition's state")
MESSAGE: Final = Place("logstore.message", Scope.STREAM, "a message of a gateway, of purgatory or of another logstore")
ADMINISTRATION: Final = Place("logstore.administration", Scope.REQUEST, "a call of the Administration service")
CONTROL: Final = Place(
    "logstore.control", Scope.PARTITION, "what a command of the controller says of one partition, and its creation"
)
FOLLOW: Final = Place("logstore.follow", Scope.PARTITION, "what a leader answers for one partition")
REPLICA_READ: Final = Place("logstore.replica_read", Scope.REQUEST, "one partition of an answer to a follower")
REPLICA_ANSWER: Final = Place("logstore.replica_answer", Scope.STREAM, "an answer to a follower")
ISR: Final = Place(
    "logstore.isr", Scope.PARTITION, "the ISR of one partition, its watermark, and the controller's answer about it"
)
COORDINATOR_QUERY: Final = Place(
    "logstore.coordinator_query", Scope.REQUEST, "a call to a coordinator that changes nothing"
)
COORDINATOR_CALL: Final = Place("logstore.coordinator_call", Scope.PARTITION, "any other call to a coordinator")
COORDINATOR_STATE: Final = Place(
    "logstore.coordinator_state", Scope.PARTITION, "what a coordinator does by the clock, and what it has committed"
)
COORDINATOR_LOAD: Final = Place(
    "logstore.coordinator_load",
    Scope.PARTITION,
    "the loading of a coordinator's partition; after three it is offline",
)
MARKER: Final = Place("logstore.marker", Scope.REQUEST, "a transaction's marker for one partition")
RETENTION: Final = Place("logstore.retention", Scope.PARTITION, "retention of one log")
FLUSH: Final = Place("logstore.flush", Scope.PARTITION, "a flush of one log that is due")
CLEANING: Final = Place("logstore.cleaning", Scope.DUTY, "the search for a log to be compacted, log by log")
CLEANING_PASS: Final = Place(
    "logstore.cleaning_pass", Scope.PARTITION, "a log that is being compacted: its order, and what the cleaner reports"
)
PRODUCER_EXPIRY: Final = Place("logstore.producer_expiry", Scope.PARTITION, "expired producers of one log")
MOVE: Final = Place("logstore.move", Scope.PARTITION, "a step of a log's move to another log directory")

PLACES: Final = (
    *(APPEND, APPEND_TO_LOG, HOLD_RESULT, BEGIN_WRITE, LOG_EFFECT, DISK_WORK, BATCH_WORK, READ, READ_BYTES, QUERY),
    *(MESSAGE, ADMINISTRATION, CONTROL, FOLLOW, REPLICA_READ, REPLICA_ANSWER, ISR),
    *(COORDINATOR_QUERY, COORDINATOR_CALL, COORDINATOR_STATE, COORDINATOR_LOAD, MARKER),
    *(RETENTION, FLUSH, CLEANING, CLEANING_PASS, PRODUCER_EXPIRY, MOVE),
)


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

    def work_failed(self, effect: StorageEffect, fault: Exception) -> Refusal | DiskError:
        """Note an unexpected exception in the work of an effect, and return the effect's outcome."""
        outcome = failed_by_fault(effect, fault)
        place = BATCH_WORK if isinstance(outcome, Refusal) else DISK_WORK
        self.contain(place, fault, {"effect": type(effect).__name__})
        return outcome

    def doubt(self, log: PartitionLog, error: Exception) -> None:
        """Do the same for an exception that is noted already."""
        if log not in self.in_doubt:
            self.in_doubt[log] = summary_of(error)
            self.failures.append((log, DiskError(DiskErrorKind.IO, "trust", log.state.directory)))
