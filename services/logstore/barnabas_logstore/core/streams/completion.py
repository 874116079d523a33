"""What follows an effect once a worker has carried it out, apart from the effect itself, which is data."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.ports.disk import DiskError
from barnabas_logstore.core.storage.effect_execution import EffectResult
from barnabas_logstore.core.storage.log.partition_log import PartitionLog


class Completion:
    """`done` takes the effect's result, `failed` why there is none; one of them is called, once.

    `logs` are those whose files the effect works on: a log that goes offline meanwhile counts it as under way until
    then.
    """

    __slots__ = ("done", "failed", "logs")

    def __init__(
        self,
        done: Callable[[EffectResult], None],
        failed: Callable[[DiskError], None],
        logs: tuple[PartitionLog, ...] = (),
    ) -> None:
        self.done = done
        self.failed = failed
        self.logs = logs


def ignore_result(result: EffectResult) -> None:
    """For effects after which nothing follows."""


def refuse_failure(error: DiskError) -> None:
    """For effects that touch no disk."""
    raise AssertionError("work on a batch does not fail for its disk") from error
