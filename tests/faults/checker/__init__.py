"""The checker of histories: pure, one pass over the events and one over the log.

    verdict = check(history.read(history.paths_of(directory)))

Its cases are those of Jepsen's Kafka workload that a log without transactions has (lost and unseen writes, duplicates,
inconsistent offsets, reads that skip or go backwards, sends out of order, reads of what was refused), expressed in
Kafka's own terms: offsets are known, so an order need not be inferred from a graph; and what was promised is known by
producer.
"""

from tests.faults.checker.check import check
from tests.faults.checker.silences import Silences
from tests.faults.checker.verdict import Apart, Figures, Kind, Verdict

__all__ = ["Apart", "Figures", "Kind", "Silences", "Verdict", "check"]
