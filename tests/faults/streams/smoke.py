"""Kafka Streams' smoke test: what it is started with, and the topics that it needs before."""

from __future__ import annotations

from typing import Final

MAIN_CLASS: Final = "org.apache.kafka.streams.tests.StreamsSmokeTest"
LIBS: Final = "smoke/libs"
"""Its jars, beside those of the other programs: it runs with the classes of its own version only."""
VERSION: Final = "4.3.1"
TOPICS: Final = (
    *("data", "fk", "echo", "max", "min", "min-suppressed", "min-raw", "dif", "sum"),
    *("sws-raw", "sws-suppressed", "cnt", "avg", "tagg"),
)
