"""Timed and Times: the requests of a message whose times are asked for, and how long they took (data.proto).

They travel beside the requests, not in them: what is not timed costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Timed:
    request_id: int
    trace_id: bytes = b""
    span_id: bytes = b""


@dataclass(slots=True)
class Times:
    request_id: int
    queue_us: int = 0
    work_us: int = 0
