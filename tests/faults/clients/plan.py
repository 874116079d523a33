"""The plan of a process of recording clients."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Part(StrEnum):
    """One process each."""

    PRODUCERS = "producers"
    READERS = "readers"
    PURE_PYTHON = "pure_python"
    FINAL_READERS = "final_readers"


class Mix(msgspec.Struct, frozen=True, kw_only=True):
    """How many of which clients, and how busy they are."""

    idempotent: int = 2
    acks_all: int = 1
    acks_1: int = 1
    readers: int = 3
    """One from the beginning, the others from the tail and from in between; all go back now and then."""
    kafka_python: bool = False
    """An idempotent producer and a reader of kafka-python."""
    aiokafka: bool = False
    """An idempotent producer and a reader of aiokafka."""
    sends_per_second: int = 120
    """Of all producers together, evenly over them and the partitions."""
    record_bytes: int = 100
    life_seconds: float = 20.0
    """About how often a producer of librdkafka is thrown away, with what it has in flight, for a new one; 0: never."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    part: Part
    bootstrap_servers: list[str]
    topic: str
    partitions: int
    directory: str
    """For the histories, one file per client."""
    seed: int
    mix: Mix
    seconds_max: float = 0.0
    """Of producers, to flush in once they are to stop; of final readers, for each to read everything."""
