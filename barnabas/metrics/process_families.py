"""Every process and every pod: resource usage, version, and whether its processes answer a scrape."""

from __future__ import annotations

from barnabas.metrics.family import Family, Kind

BUILD_INFO = Family(
    "barnabas_build_info", Kind.GAUGE, "Always 1; the labels describe the process.", ("version", "role", "id")
)
PROCESSES = Family("barnabas_metrics_processes", Kind.GAUGE, "Processes of the pod that have answered this scrape.")
SILENT_PROCESSES = Family(
    "barnabas_metrics_silent_processes",
    Kind.COUNTER,
    "Scrapes that a process of the pod did not answer in time: its gauges are left out, its counters keep their "
    "last values.",
)
CONDITIONS = Family(
    "barnabas_health_conditions",
    Kind.GAUGE,
    "What the pod reports of its own health, by kind; docs/operate/runbook.md explains each.",
    ("kind",),
)

LOOP_LATENESS = Family(
    "barnabas_loop_lateness_ms",
    Kind.HISTOGRAM,
    "How late the event loop of a process runs a timer, measured twice a second: it is busy, or the process was "
    "stopped.",
    ("process",),
)
LOOP_LONGEST_TURN = Family(
    "barnabas_loop_longest_turn_ms",
    Kind.GAUGE,
    "The longest turn of a process's event loop in the last one to two minutes: the maximum wait of new "
    "input. One client's requests don't make it long; other load on the machine does.",
    ("process",),
)
LOOP_LONGEST_TURN_CPU = Family(
    "barnabas_loop_longest_turn_cpu_ms",
    Kind.GAUGE,
    "The most processor time that one turn of a process's event loop has used in the last one to two minutes: how long "
    "the process itself delays other requests, independent of other load on the machine.",
    ("process",),
)
CPU_SECONDS = Family("process_cpu_seconds", Kind.COUNTER, "User and system time of a process.", ("process",))
RESIDENT_BYTES = Family("process_resident_memory_bytes", Kind.GAUGE, "Memory of a process, in RAM.", ("process",))
OPEN_FDS = Family("process_open_fds", Kind.GAUGE, "Open file descriptors of a process.", ("process",))
MAX_FDS = Family("process_max_fds", Kind.GAUGE, "Maximum number of open file descriptors.", ("process",))
START_TIME_SECONDS = Family(
    "process_start_time_seconds", Kind.GAUGE, "When a process was started, in seconds since 1970.", ("process",)
)
GC_COLLECTIONS = Family(
    "python_gc_collections", Kind.COUNTER, "Collections of Python's garbage collector.", ("process", "generation")
)
GC_SECONDS = Family(
    "barnabas_gc_seconds", Kind.COUNTER, "Time that a process spent in garbage collection.", ("process",)
)
