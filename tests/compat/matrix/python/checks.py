"""What every program of the matrix does: it says what it will check, checks it, and prints a line for each.

The lines are the same in every language, and everything else that a program prints is only kept in its log:

    version <what the client calls itself>
    lacks <capability that the client has no call for> …
    plan <capability> <capability> …
    ok <capability>
    failed <capability>: <why, on one line>

Its arguments are the bootstrap address, the replication factor of its topics, and a unique prefix for the names of its
topics and groups.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

PARTITIONS = 4
RECORDS = 40
SECONDS = 60.0
CODECS = ("gzip", "snappy", "lz4", "zstd")


@dataclass(slots=True, frozen=True)
class Target:
    bootstrap: str
    replication: int
    prefix: str

    def name(self, suffix: str) -> str:
        """Of a topic or a group."""
        return f"{self.prefix}-{suffix}"


def target_of_arguments() -> Target:
    bootstrap, replication, prefix = sys.argv[1:]
    return Target(bootstrap, int(replication), prefix)


def values_of(name: str, count: int = RECORDS) -> list[bytes]:
    return [f"{name} {number}".encode() for number in range(count)]


def until(is_so: Callable[[], bool], what: str, seconds: float = SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.05)


def equal(found: object, expected: object) -> None:
    assert found == expected, f"{found!r:.300} instead of {expected!r:.300}"


def run(version: str, checks: Mapping[str, Callable[[], None]], lacking: Sequence[str] = ()) -> None:
    """A check that fails stops none of those behind it."""
    print("version", version, flush=True)
    if lacking:
        print("lacks", *lacking, flush=True)
    print("plan", *checks, flush=True)
    for capability, check in checks.items():
        try:
            check()
        except Exception as error:
            why = " ".join(f"{type(error).__name__}: {error}".split())
            print(f"failed {capability}: {why[:500]}", flush=True)
        else:
            print("ok", capability, flush=True)
