"""When what happened to a leader change, told by the processes that it passes: one line of JSON per event in a file.

All times are CLOCK_MONOTONIC, which the processes of a machine share. An event names the leader epochs that it was
about; a leader change is found again by (topic id, partition, leader epoch).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

from barnabas.cluster.messages import ControlRequest

EpochKey: TypeAlias = tuple[str, int, int]
"""Topic id in hexadecimal, partition, leader epoch."""


class Event(StrEnum):
    COMMITTED = "the controller has etcd's answer to the Txn, or the watch's event of its revision: which comes first"
    SENT = "the controller has given LeaderAndIsr to the stream of the loaded logstore"
    ARRIVED = "its data process has it from its control process"
    APPLIED = "its core has carried it out, and all of the old epoch is answered"
    ACKNOWLEDGED = "the controller has the answer"


@dataclass(slots=True, frozen=True)
class Noted:
    at_ns: int
    requests_waiting: int


class Recording:
    """Appends to a file of one process's own."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(
        self, event: Event, epochs: Iterable[EpochKey], at_ns: int | None = None, requests_waiting: int = -1
    ) -> None:
        """It happened now, if not said otherwise; so many data requests waited at the logstore then, where that is
        known.
        """
        line = json.dumps([event.name, at_ns or time.monotonic_ns(), list(epochs), requests_waiting]) + "\n"
        os.write(self._descriptor, line.encode())


def read_recordings(paths: Iterable[Path]) -> dict[EpochKey, dict[Event, Noted]]:
    """For every leader epoch each event that was the first about it."""
    found: dict[EpochKey, dict[Event, Noted]] = {}
    for path in paths:
        for line in path.read_text().splitlines():
            name, at_ns, epochs, requests_waiting = json.loads(line)
            noted = Noted(at_ns, requests_waiting)
            for topic_id, partition, leader_epoch in epochs:
                found.setdefault((topic_id, partition, leader_epoch), {}).setdefault(Event[name], noted)
    return found


def epochs_of(request: ControlRequest) -> list[EpochKey]:
    """The leader epochs that a command brings; none unless it is LeaderAndIsr."""
    topics = request.leader_and_isr.topics if request.leader_and_isr is not None else []
    return [(topic.topic_id.hex(), each.partition, each.leader_epoch) for topic in topics for each in topic.partitions]
