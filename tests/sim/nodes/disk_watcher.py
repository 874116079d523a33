"""Who looks on as the logs of logstores change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from barnabas_logstore.core.replica.partition import Partition
from tests.sim.compaction import CleanedLog
from tests.sim.replica_logs import Batch

if TYPE_CHECKING:
    from tests.sim.nodes.logstore import LogstoreNode


class DiskWatcher(Protocol):
    def opened(self, node: LogstoreNode) -> None:
        """A process has opened them."""

    def writing(self, node: LogstoreNode, partition: Partition, data: bytes) -> list[Batch]:
        """Before a write, whatever becomes of it."""

    def wrote(self, node: LogstoreNode, partition: Partition, batches: list[Batch]) -> None:
        """It is done."""

    def failed(self, batches: list[Batch]) -> None:
        """It is not done, or only in part."""

    def starts_over(self, node: LogstoreNode, partition: Partition) -> None:
        """A process begins to remove all of a log, which then begins where its leader's does."""

    def cut(self, node: LogstoreNode, partition: Partition, end: int, *, truncate_fully: bool) -> None:
        """A log ends at `end` from now on; or it begins there, empty."""

    def cleaned(self, node: LogstoreNode, partition: Partition, cleaned: CleanedLog) -> None:
        """A part of a log is read from a cleaned segment from now on, whose files get their names later."""

    def flushed(self, node: LogstoreNode, partition: Partition, offset: int) -> None:
        """Everything below `offset` survives a loss of power."""
