"""Timed and Times: the requests of a message whose times are requested, and how long they took (data.proto).

They are separate from the requests, so that untimed requests cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated


@dataclass(slots=True)
class Timed:
    request_id: Annotated[int, "uint64", 1]
    trace_id: Annotated[bytes, "bytes", 2] = b""
    span_id: Annotated[bytes, "bytes", 3] = b""


@dataclass(slots=True)
class Times:
    request_id: Annotated[int, "uint64", 1]
    queue_us: Annotated[int, "uint64", 2] = 0
    work_us: Annotated[int, "uint64", 3] = 0
    wait_us: Annotated[int, "uint64", 4] = 0
