"""The processes of a cluster, killed one after the other under what runs there, and started again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from barnabas_cli.local.services import Role
from tests.faults.moving_leaders.clusters import KafkaCluster
from tests.integration.running_cluster import RunningCluster

_DOWN_SECONDS: Final = 2.0
Say = Callable[[str], None]


class Victim(NamedTuple):
    name: str
    kill: Callable[[], None]
    """kill -9; returns when it is gone."""
    start: Callable[[], None]
    """Returns at once."""


def of_barnabas(cluster: RunningCluster, only_logstores: bool) -> list[Victim]:
    """Its services, without etcd: a cluster of one member has no other."""
    names = [service.name for service in cluster.local.services if service.role is not Role.ETCD]
    return [
        Victim(name, lambda name=name: cluster.kill(name), lambda name=name: cluster.start(name))  # type: ignore[misc]
        for name in names
        if not only_logstores or name.startswith("logstore-")
    ]


def of_kafka(cluster: KafkaCluster) -> list[Victim]:
    return [
        Victim(f"broker-{each}", lambda each=each: cluster.kill(each), lambda each=each: cluster.spawn(each))  # type: ignore[misc]
        for each in cluster.broker_ids
    ]


class Killer:
    """Kills one each `period_seconds`, in turn, from `start` to `stop`; the last one is started again by then."""

    def __init__(self, victims: list[Victim], period_seconds: float, say: Say) -> None:
        self.kills = 0
        self._victims = victims
        self._period_seconds = period_seconds
        self._say = say
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._failure: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Raises what a kill or a start has raised."""
        self._stopping.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self._period_seconds):
                victim = self._victims[self.kills % len(self._victims)]
                self._say(f"kill -9 {victim.name}")
                victim.kill()
                time.sleep(_DOWN_SECONDS)
                victim.start()
                self.kills += 1
        except BaseException as failure:
            self._failure = failure
