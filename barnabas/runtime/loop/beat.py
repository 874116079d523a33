"""The beat: the moments at which a process does what it does periodically, the same in all processes of a host.

An idle process wakes up for each timer of its own and for each message of others. A dozen streams that send heartbeats
at moments of their own are two dozen wake-ups in each period; at the beat they are one or two, since the monotonic
clock, from which beats are counted, is the same for every process of a host. A wake-up costs more than the heartbeat.
"""

from __future__ import annotations

from math import floor
from typing import Final

BEAT_MS: Final = 500

_EARLY_S: Final = 0.001
"""A timer may run that much before its time."""


def next_beat(now_s: float, beat_ms: int = BEAT_MS) -> float:
    """Return when the next beat is, by the clock of `now_s`: the monotonic one, as of an event loop. It is at most
    `beat_ms` away.
    """
    beat_s = beat_ms / 1000
    return (floor((now_s + _EARLY_S) / beat_s) + 1) * beat_s


def wait_to_beat(now_s: float, wait_s: float, beat_ms: int = BEAT_MS) -> float:
    """Return how long to wait, `wait_s` at most, to go on at the last beat until then; `wait_s` if the wait would be
    less than half of that.
    """
    beat_s = beat_ms / 1000
    shortened_s = floor((now_s + wait_s) / beat_s) * beat_s - now_s
    return shortened_s if shortened_s >= wait_s / 2 else wait_s
