"""Disks that lack room, or are slow, exactly where something has to be undone, or to be waited for, then.

A disk that is full for a while (`Fault.DISK_FULL`) fails what comes first, nearly always a write to a log. Here one
operation lacks room, on files of one kind, for some moments: a checkpoint can't be replaced, a file gets no other name,
or a rollback finds no room itself.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

from barnabas.ports.disk import DiskErrorKind
from tests.sim.disk_model import Fault as DiskFault
from tests.sim.exceptions.insister import KEYED, OLD
from tests.sim.exceptions.questions import TOPIC
from tests.sim.nodes.logstore import LogstoreNode
from tests.sim.scheduler import MS, SECOND

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster

INTERVAL_US: Final = 150 * MS
LACKS: Final = (
    (("write_at", ".log"),),
    (("write_at", ".log"),),
    (("write_at", ".log"), ("truncate", ".log")),
    (("write_at", "index"),),
    (("write_at", ".snapshot"),),
    (("write_at", "leader-epoch"), ("replace_file", "leader-epoch")),
    (("replace_file", "recovery-point"), ("replace_file", "replication-offset")),
    (("rename", f"/{OLD}-0/"), ("rename", f"/{TOPIC}-0/"), ("rename", f"/{KEYED}-0/")),
    (("truncate", f"/{OLD}-0/"), ("truncate", f"/{TOPIC}-0/")),
)
"""Each of them a set of operations, and parts of the paths that they fail for."""
TIMES: Final = (1, 3, 1_000)
LACK_US_MAX: Final = 2 * SECOND
SLOW_SHARE: Final = 0.08
SLOW_US_MAX: Final = 3 * SECOND


class Shortage:
    def __init__(self, cluster: Cluster, random: Random) -> None:
        self._scheduler = cluster.scheduler
        self._logstores = cluster.logstores
        self._random = random
        self._is_over = False
        self.hits = 0

    def begin(self) -> None:
        for node in self._logstores:
            # How long ago a log was written decides whether retention reads its records.
            node.disk.wall_ms = partial(_wall_ms_of, node)
        self._next()

    def stop(self) -> None:
        """Every disk has room, and is fast."""
        self._is_over = True
        for node in self._logstores:
            node.disk.faults.clear()
            node.disk_stall_us = None

    def _next(self) -> None:
        self._scheduler.plan(self._random.randrange(1, 2 * INTERVAL_US), "something lacks room", self._strike)

    def _strike(self) -> None:
        if self._is_over:
            return
        living = [each for each in self._logstores if each.alive and each.core is not None]
        if living and self._random.random() < SLOW_SHARE:
            self._restart_slowly(self._random.choice(living))
        elif living:
            self._have_lack(self._random.choice(living))
        self._next()

    def _have_lack(self, node: LogstoreNode) -> None:
        faults = [
            DiskFault(
                operation,
                part,
                DiskErrorKind.NO_SPACE,
                times=self._random.choice(TIMES),
                written_bytes=self._random.choice((0, 40)),
                on_hit=self._hit,
            )
            for operation, part in self._random.choice(LACKS)
        ]
        node.disk.faults += faults
        delay_us = self._random.randrange(1, LACK_US_MAX)
        self._scheduler.plan(delay_us, f"{node.name} has room again", partial(_has_room, node, faults))

    def _hit(self) -> None:
        self.hits += 1

    def _restart_slowly(self, node: LogstoreNode) -> None:
        """What it has written before it died is not flushed for a while: clients that repeat it wait for that."""
        node.kill()
        end_us = self._scheduler.now_us + self._random.randrange(SECOND, SLOW_US_MAX)
        node.disk_stall_us = lambda: max(0, end_us - self._scheduler.now_us)
        self._scheduler.plan(100 * MS, f"{node.name} is started again", lambda: None if node.alive else node.start())
        self._scheduler.plan(SLOW_US_MAX, f"the disk of {node.name} is fast again", partial(_is_fast, node))
        self.hits += 1


def _has_room(node: LogstoreNode, faults: list[DiskFault]) -> None:
    node.disk.faults = [each for each in node.disk.faults if all(each is not one for one in faults)]


def _is_fast(node: LogstoreNode) -> None:
    node.disk_stall_us = None


def _wall_ms_of(node: LogstoreNode) -> int:
    return node.wall_ms
