"""Processes that simulate: jobs go out in their order and come back in it, so that an interruption leaves no gap."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor

from tests.sim.run import Options, Outcome, simulate_job

Job = tuple[int, Options]

# Processes are replaced after so many seeds: whatever a run leaves behind, it does not add up.
SEEDS_PER_PROCESS = 50


class Workers:
    """A pool of processes, and another in its place when each has had its seeds.

    The executor's own `max_tasks_per_child` is not used: in Python 3.11 a process that has had its tasks is replaced
    only when another job is submitted, so a pool that has been given all its jobs waits for ever (CPython 115634).
    """

    def __init__(self, processes: int | None) -> None:
        self.processes = processes or multiprocessing.cpu_count()
        self._context = multiprocessing.get_context("spawn")
        self._pools = [self._pool()]
        self._submitted = 0

    def _pool(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self.processes, self._context)

    def submit(self, job: Job) -> Future[Outcome]:
        if self._submitted == SEEDS_PER_PROCESS * self.processes:
            self._pools[-1].shutdown(wait=False)
            self._pools.append(self._pool())
            self._submitted = 0
        self._submitted += 1
        return self._pools[-1].submit(simulate_job, job)

    def map(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Outcome]]:
        """Yield each job with its outcome. A few are under way at a time, and cancelled if not taken."""
        under_way: deque[tuple[Job, Future[Outcome]]] = deque()
        try:
            for job in jobs:
                under_way.append((job, self.submit(job)))
                if len(under_way) == 4 * self.processes:
                    yield _next(under_way)
            while under_way:
                yield _next(under_way)
        finally:
            for _, future in under_way:
                future.cancel()

    def close(self) -> None:
        """Run no further job. One that is under way ends."""
        for pool in self._pools:
            pool.shutdown(wait=False, cancel_futures=True)


def _next(under_way: deque[tuple[Job, Future[Outcome]]]) -> tuple[Job, Outcome]:
    job, future = under_way.popleft()
    return job, future.result()
