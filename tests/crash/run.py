"""One run: a program is carried out, life after life, and after every crash the directory is looked at."""

from __future__ import annotations

import traceback
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from barnabas.ports.disk import DiskError
from tests.crash.checks import check_opened
from tests.crash.life import Life
from tests.crash.programs import LifePlan, Program, program_of
from tests.crash.world import End, World
from tests.sim.disk_model import MachineStopped

STARTS_MAX = 30


@dataclass(slots=True)
class Outcome:
    """What a run has to tell; `failure` is empty when everything held."""

    seed: int
    trace: str
    crashes: int
    hits: Counter[str] = field(default_factory=Counter)
    failure: str = ""
    lines: list[str] = field(default_factory=list)


def run_seed(seed: int) -> Outcome:
    return run_program(program_of(seed))


def run_program(program: Program) -> Outcome:
    world = World(program.shape)
    run = _Run(world)
    failure = ""
    try:
        for plan in program.lives:
            run.live(plan)
        run.end_well(program.seed)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        failure = f"{type(error).__name__}: {error} ({where.filename.rpartition('/')[2]}:{where.lineno})"
        world.note(failure)
    hits = world.hits + world.disk.losses
    return Outcome(program.seed, world.trace.digest, run.crashes, hits, failure, world.trace.lines if failure else [])


class _Run:
    def __init__(self, world: World) -> None:
        self.world = world
        self.crashes = 0
        self._last_end = End.CLEAN_STOP

    def live(self, plan: LifePlan) -> None:
        """A start, a life, an end."""
        world = self.world
        world.disk.interrupt_after = plan.interrupt_in
        phase = "its start"
        try:
            life = self._start(plan.chance)
            if life is None:
                return
            phase = "its life"
            world.lead_everything()
            for operation in plan.operations:
                operation.run(world, life)
                world.look()
                if life.is_halted:
                    break
            if plan.end is End.CLEAN_STOP and not life.is_halted:
                phase = "a clean stop"
                self._stop(life, plan)
                return
        except MachineStopped:
            world.hits[f"crashes within {phase}"] += 1
            world.note(f"broken off in {phase}")
        self._crash(End.POWER_CUT if plan.end is End.POWER_CUT else End.KILL)

    def _start(self, chance: int) -> Life | None:
        """None when the disk does not let it start: the process ends, and what was wrong with the disk is mended."""
        world = self.world
        # Those whose volume can't be flushed as a whole have it done file by file.
        world.disk.flushes_volumes = chance % 2 == 0
        try:
            world.begin_life(chance)
        except DiskError as error:
            world.hits["starts refused by the disk"] += 1
            world.note(f"can't start: {error}")
            self._note_failed_flushes()
            world.disk.faults.clear()
            world.disk.capacity_bytes = None
            return None
        life = world.life
        assert life is not None
        with world.undisturbed():
            check_opened(world, life, self._last_end)
        self._last_end = End.KILL
        world.hits["operators who moved a deleted partition away"] += life.moved_away
        ends = [f"{truth.name} {truth.next_offset}" for truth in world.alive()]
        world.note(f"started: {', '.join(ends)}")
        world.disk.faults.clear()
        world.disk.capacity_bytes = None
        return life

    def _stop(self, life: Life, plan: LifePlan) -> None:
        world = self.world
        world.note("told to stop")
        unclean = life.stop_cleanly(world.chance)
        world.look()
        assert not unclean or world.is_disturbed, f"{unclean} without a marker, and nothing is wrong with it"
        for truth in world.alive():
            partition = life.partition(truth.topic_id, truth.partition)
            if partition is not None and partition.log.directory.rpartition("/")[0] not in unclean:
                assert partition.log.log_end_offset == truth.next_offset, f"{truth.name}: stopped before all is written"
                truth.durable_offset = truth.written_offset = truth.next_offset
        self._last_end = End.CLEAN_STOP
        world.hits["clean stops"] += 1
        if plan.is_power_cut_after_stop or life.offline:
            self._crash(End.POWER_CUT if plan.is_power_cut_after_stop else End.KILL)
        world.end_life()

    def _crash(self, end: End) -> None:
        world = self.world
        self.crashes += 1
        life = world.life
        world.disk.interrupt_after = None
        if life is not None:
            world.hits["effects done in part"] += life.break_off(world.disk, world.chance)
        self._note_failed_flushes()
        if end is End.POWER_CUT:
            world.boots += 1
            world.disk.lose_power(world.chance)
        world.end_life()
        world.hits[f"{end.value}s"] += 1
        world.note(end.value)
        # After a power cut nothing less may be expected than after whatever came before it.
        self._last_end = end if self._last_end is not End.POWER_CUT else End.POWER_CUT

    def _note_failed_flushes(self) -> None:
        """What a failed flush was about is gone from the page cache too: it may be lost without a power cut."""
        world = self.world
        if not any(fault.operation in ("flush", "flush_volume") and fault.hits for fault in world.disk.faults):
            return
        world.hits["failed flushes"] += 1
        world.disk.drop_clean_pages()
        for truth in world.truths:
            truth.written_offset = truth.durable_offset

    def end_well(self, seed: int) -> None:
        """A last start without any fault: everything works, stops cleanly, and starts without a scan."""
        world = self.world
        world.disk.faults.clear()
        world.disk.capacity_bytes = world.disk.interrupt_after = None
        life = self._start(seed)
        assert life is not None
        world.lead_everything()
        life.settle(Random(seed))
        world.look()
        for producer in world.producers:
            world.repeat(producer)
            life.settle(Random(seed))
            if producer.must_repeat:
                world.repeat(producer)
                life.settle(Random(seed))
            left = [(sent.header.producer_epoch, sent.header.base_sequence) for sent in producer.unanswered]
            assert not left, f"{producer.truth.name}: producer {producer.producer_id} got no answer to {left}"
        life.stop_cleanly(Random(seed))
        for truth in world.alive():
            truth.durable_offset = truth.written_offset = truth.next_offset
        self._last_end = End.CLEAN_STOP
        self._start(seed)
        assert world.life is not None
        assert all(directory.was_shut_down_cleanly for directory in world.life.directories)
