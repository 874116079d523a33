"""A logstore's logs and disks."""

from __future__ import annotations

from typing import Final

from barnabas.metrics.family import Family, Kind

FLUSH_TIME = Family(
    "kafka_log_logflushstats_logflushrateandtimems", Kind.HISTOGRAM, "Duration of flushes, each of one log."
)
OFFLINE_LOG_DIRECTORIES = Family(
    "kafka_log_logmanager_offlinelogdirectorycount", Kind.GAUGE, "Log directories that have failed."
)
FULL_LOG_DIRECTORIES = Family(
    "barnabas_log_directories_full", Kind.GAUGE, "Log directories whose disk is full: their logs accept no appends."
)
LOG_DIRECTORY_FREE_BYTES = Family(
    "barnabas_log_directory_free_bytes", Kind.GAUGE, "Free space on the disk of a log directory.", ("directory",)
)
LOG_DIRECTORY_TOTAL_BYTES = Family(
    "barnabas_log_directory_total_bytes", Kind.GAUGE, "The size of the disk of a log directory.", ("directory",)
)
IO_TIME = Family(
    "barnabas_logstore_io_time_ms",
    Kind.HISTOGRAM,
    "Duration of disk operations; by: loop (in a turn of the data loop) or worker.",
    ("effect", "by"),
)
IO_QUEUE_SIZE = Family(
    "barnabas_logstore_io_queue_size", Kind.GAUGE, "Disk operations that wait for an IO worker, or are in progress."
)

_CLEANER: Final = "kafka_log_logcleanermanager_"
MAX_DIRTY_PERCENT = Family(
    f"{_CLEANER}max_dirty_percent",
    Kind.GAUGE,
    "The maximum dirty ratio of the logs at the last check, 0 to 100.",
)
TIME_SINCE_LAST_RUN = Family(
    f"{_CLEANER}time_since_last_run_ms", Kind.GAUGE, "Time since logs were checked for cleaning; -1: never."
)
UNCLEANABLE_PARTITIONS = Family(
    f"{_CLEANER}uncleanable_partitions_count",
    Kind.GAUGE,
    "Replicas that are not compacted any more; the log has the reason.",
)
CLEANER_PASSES = Family(
    "barnabas_log_cleaner_passes", Kind.COUNTER, "Passes of the cleaner over a log, by how they ended.", ("outcome",)
)
CLEANER_DEATHS = Family(
    "barnabas_log_cleaner_deaths",
    Kind.COUNTER,
    "How often the cleaner's process has died at an order; the next order starts it again.",
)
CLEANER_BYTES_READ = Family("barnabas_log_cleaner_bytes_read", Kind.COUNTER, "Bytes that the cleaner has read.")
CLEANER_BYTES_WRITTEN = Family("barnabas_log_cleaner_bytes_written", Kind.COUNTER, "And written.")
