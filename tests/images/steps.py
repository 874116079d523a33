"""The steps of `make image-test`. Each returns what was seen, or raises AssertionError with what is wrong."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from docker import DockerClient

from tests.images.builds import Images
from tests.images.containers import ORDER, ContainerCluster
from tests.k8s.load_process import clean

_DOWN_S: Final = 5
"""How long a killed logstore stays down after others lead."""


@dataclass(frozen=True, slots=True)
class Trial:
    engine: DockerClient
    images: Images


def kill(trial: Trial) -> list[str]:
    """kill -9 of a logstore's container that leads, under idempotent producers."""
    with ContainerCluster(trial.engine, trial.images) as cluster:
        lines = [f"every broker seen by a client {cluster.start(trial.images.present):.0f} s after the first container"]
        with cluster.load("killed") as reports:
            victim = cluster.leader("killed")
            killed_s = time.monotonic()
            cluster.kill(victim)
            cluster.wait_led_by_others(victim)
            lines.append(f"{victim} killed: others lead {time.monotonic() - killed_s:.1f} s later")
            time.sleep(_DOWN_S)
            cluster.start_again(victim)
            lines.append(f"started again: every replica in sync after {cluster.wait_in_sync():.1f} s")
        return [*lines, clean(reports)]


def upgrade(trial: Trial) -> list[str]:
    """Every container replaced, role by role, by one of another version, under load."""
    before, present = trial.images.before, trial.images.present
    with ContainerCluster(trial.engine, trial.images) as cluster:
        started_s = cluster.start(before)
        lines = [f"{before.number}: every broker seen by a client {started_s:.0f} s after the first container"]
        with cluster.load("upgraded") as reports:
            for service in ORDER:
                assert cluster.version_in(service) == before.number
                replaced_s = time.monotonic()
                cluster.replace(service, present)
                # Made by the controller, on every logstore: all of them serve again.
                cluster.create_topic(f"after-{service}")
                cluster.wait_in_sync()
                assert cluster.version_in(service) == present.number
                lines.append(
                    f"{service}: stopped with exit code 0, replaced by {present.number}; a new topic and every replica "
                    f"in sync {time.monotonic() - replaced_s:.1f} s after SIGTERM"
                )
        lines.append(clean(reports))
        for service in reversed(ORDER):
            cluster.stop(service)
        return [*lines, "all containers then ended with exit code 0 at SIGTERM"]


STEPS: Final[dict[str, Callable[[Trial], list[str]]]] = {each.__name__: each for each in (kill, upgrade)}
