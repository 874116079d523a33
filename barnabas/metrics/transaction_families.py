"""Transactions: at the logstore that coordinates their ids, at the leaders that hold their records, and at gateways."""

from __future__ import annotations

from typing import Final

from barnabas.metrics.family import Family, Kind

_PREFIX: Final = "barnabas_transaction_"

TRANSACTIONAL_IDS = Family(
    f"{_PREFIX}ids", Kind.GAUGE, "Transactional ids coordinated by this logstore, by state.", ("state",)
)
ONGOING_TIME_MAX = Family(
    f"{_PREFIX}ongoing_time_max_ms", Kind.GAUGE, "How long the oldest ongoing transaction coordinated here has taken."
)
TRANSACTIONS_ENDED = Family(
    f"{_PREFIX}ends",
    Kind.COUNTER,
    "Transactions whose end this coordinator has decided, by result: commit, abort, or timeout (it took longer "
    "than its producer allowed, and was aborted).",
    ("result",),
)
PRODUCERS_FENCED = Family(
    f"{_PREFIX}producers_fenced", Kind.COUNTER, "Requests of producers that a later one with the same id has replaced."
)
UNWRITTEN_ENDS = Family(
    f"{_PREFIX}unwritten_ends",
    Kind.GAUGE,
    "Transactions whose end is decided and whose markers are not all written: producers wait for them.",
)
REFUSED_COMPLETIONS = Family(
    "kafka_coordinator_transaction_transactionmarkerchannelmanager_logappendretryqueuesize",
    Kind.GAUGE,
    "Transactions whose markers are written, and whose completion __transaction_state refuses, as with too few "
    "replicas in sync; each is tried again.",
)
LOADING_PARTITIONS = Family(
    f"{_PREFIX}loading_partitions",
    Kind.GAUGE,
    "Partitions of __transaction_state that are still being loaded: their ids are not served yet.",
)
LATE_TRANSACTIONS = Family(
    "kafka_server_replicamanager_partitionswithlatetransactionscount",
    Kind.GAUGE,
    "Partitions led here whose first open transaction has got no record for longer than transaction.max.timeout.ms and "
    "five minutes: it hangs, and committed records behind it are not read.",
)
VERIFICATION_TIME = Family(
    "kafka_server_addpartitionstotxnmanager_verificationtimems",
    Kind.HISTOGRAM,
    "Time that a gateway waits until the coordinator of a transaction has confirmed or added its partitions.",
)
VERIFICATION_FAILURES = Family(
    "kafka_server_addpartitionstotxnmanager_verificationfailurerate",
    Kind.COUNTER,
    "Partitions of transactions that a coordinator has neither confirmed nor added: their records are refused.",
)
