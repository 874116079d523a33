"""A logstore's logs and disks."""

from __future__ import annotations

from typing import Final

from barnabas.metrics.family import Family, Kind

FLUSH_TIME = Family(
    "kafka_log_logflushstats_logflushrateandtimems", Kind.HISTOGRAM, "How long flushes took, each of one log."
)
OFFLINE_LOG_DIRECTORIES = Family(
    "kafka_log_logmanager_offlinelogdirectorycount", Kind.GAUGE, "Log directories that have failed."
)
FULL_LOG_DIRECTORIES = Family(
    "barnabas_log_directories_full", Kind.GAUGE, "Log directories whose disk is full: their logs take no appends."
)
LOG_DIRECTORY_FREE_BYTES = Family(
    "barnabas_log_directory_free_bytes", Kind.GAUGE, "What is free on the disk of a log directory.", ("directory",)
)
LOG_DIRECTORY_TOTAL_BYTES = Family(
    "barnabas_log_directory_total_bytes", Kind.GAUGE, "The size of the disk of a log directory.", ("directory",)
)
IO_TIME = Family(
    "barnabas_logstore_io_time_ms",
    Kind.HISTOGRAM,
    "How long effects on the disks took; by: loop, in a turn of the data loop, or worker.",
    ("effect", "by"),
)
IO_QUEUE_SIZE = Family(
    "barnabas_logstore_io_queue_size", Kind.GAUGE, "Effects that wait for an IO worker, or are being carried out."
)

_CLEANER: Final = "kafka_log_logcleanermanager_"
MAX_DIRTY_PERCENT = Family(
    f"{_CLEANER}max_dirty_percent",
    Kind.GAUGE,
    "Of the filthiest log when the logs were looked at last, 0 to 100.",
)
TIME_SINCE_LAST_RUN = Family(
    f"{_CLEANER}time_since_last_run_ms", Kind.GAUGE, "Since logs were looked at for something to clean; -1: never."
)
UNCLEANABLE_PARTITIONS = Family(
    f"{_CLEANER}uncleanable_partitions_count", Kind.GAUGE, "Replicas that are not compacted any more, see the log."
)
CLEANER_PASSES = Family(
    "barnabas_log_cleaner_passes", Kind.COUNTER, "Passes of the cleaner over a log, by how they ended.", ("outcome",)
)
CLEANER_BYTES_READ = Family("barnabas_log_cleaner_bytes_read", Kind.COUNTER, "Bytes that the cleaner has read.")
CLEANER_BYTES_WRITTEN = Family("barnabas_log_cleaner_bytes_written", Kind.COUNTER, "And written.")
