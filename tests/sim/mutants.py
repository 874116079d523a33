"""`python -m tests.sim.mutants`: faults of ours, planted one at a time, that the simulation has to find.

A green run means little unless it turns red when the code is wrong. Each mutant breaks one rule of the production
cores, in a process of its own, and is run from seed to seed until an invariant fails. The last line is `N mutants, N
caught`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from barnabas.channel.messages import Append, ParkProduce
from barnabas.wire.errors import ErrorCode
from services.controller.core import leader_elections, partition_changes
from services.gateway.core.connection import Connection
from services.gateway.core.processor import Processor
from services.gateway.core.produce import PendingProduce
from services.gateway.core.requests import RequestRoom
from services.gateway.core.slots import ResponseKind, Slot
from services.logstore.core.appends import Appends
from services.logstore.core.partition import Partition
from services.logstore.core.storage.log import PartitionLog
from services.logstore.core.storage.log_directory import LogDirectory
from services.logstore.core.storage.producer_state import ProducedBatch, ProducerState
from services.logstore.core.storage.segment import Segment
from services.logstore.core.streams import ExchangeStream
from services.purgatory.core.purgatory import PurgatoryCore
from services.purgatory.core.waiting import ProduceWait
from services.purgatory.core.watches import PartitionWatch, Standing
from tests.sim.faults import Fault
from tests.sim.run import Options, simulate

SEEDS_MAX = 120
SECONDS = 10


def purgatory_ignores_epochs() -> None:
    def standing(self: PartitionWatch, leader_epoch: int) -> Standing:
        return Standing.LEADING if self.state is not None and self.state.leading else Standing.UNKNOWN

    _replace(PartitionWatch, "standing", standing)
    _replace(PurgatoryCore, "metadata_applied", lambda self, image: None)


def purgatory_ignores_topic_ids() -> None:
    original = PurgatoryCore.partition_states

    def partition_states(self: PurgatoryCore, node_id: int, states: list[Any]) -> None:
        original(self, node_id, states)
        for state in states:
            for watch in self._watches:
                if watch.partition == state.partition and watch.topic_id != state.topic_id:
                    watch.learn(state)
                    self._look_at(watch, False)

    _replace(PurgatoryCore, "partition_states", partition_states)


def purgatory_is_one_offset_early() -> None:
    original = ProduceWait.__init__

    def init(self: ProduceWait, entry: Any, watch: PartitionWatch, condition: Any) -> None:
        original(self, entry, watch, condition)
        self.required_offset -= 1

    _replace(ProduceWait, "__init__", init)


def purgatory_looks_before_it_watches() -> None:
    """What is known already when an entry is parked is not looked at: a lost wake-up."""
    original = PurgatoryCore.park_produce

    def park_produce(self: PurgatoryCore, stream_id: int, park: ParkProduce, now_ms: int) -> None:
        known = {watch: watch.state for watch in self._watches}
        for watch in known:
            watch.state = None
        original(self, stream_id, park, now_ms)
        for watch, state in known.items():
            watch.state = state

    _replace(PurgatoryCore, "park_produce", park_produce)


def purgatory_forgets_to_unwatch() -> None:
    _replace(type(PurgatoryCore(0)._watches), "left", lambda self, watch: None)


def lost_entry_is_success() -> None:
    def pod_lost(self: PendingProduce) -> None:
        self.pod = None
        self._respond()

    _replace(PendingProduce, "pod_lost", pod_lost)


def answers_out_of_order() -> None:
    original = RequestRoom.answered

    def answered(self: RequestRoom, slot: Slot, kind: ResponseKind) -> None:
        slots = slot.connection.slots
        slots.remove(slot)
        slots.appendleft(slot)
        original(self, slot, kind)

    _replace(RequestRoom, "answered", answered)


def nothing_is_a_barrier() -> None:
    def may_start(self: Connection, frame: memoryview) -> bool:
        return True

    _replace(Connection, "may_start", may_start)


def request_bytes_are_not_given_back() -> None:
    original = Processor.connection_closed

    def connection_closed(self: Processor, connection_id: int, now_ms: int) -> None:
        self.request_memory.held_bytes += 1
        original(self, connection_id, now_ms)

    _replace(Processor, "connection_closed", connection_closed)


def acknowledged_before_written() -> None:
    original = Appends.append

    def append(self: Appends, stream: ExchangeStream, append: Append, wall_ms: int) -> None:
        original(self, stream, append, wall_ms)
        partition = self._replicas.by_key.get((append.topic_id, append.partition))
        for pending in partition.pending if partition is not None else ():
            if not pending.answered:
                self._succeed(pending)

    _replace(Appends, "append", append)


def watermark_ahead_of_written() -> None:
    def advance(self: Partition, lag_ms_max: int, now_ms: int) -> bool:
        moved = self.log.next_offset > self.high_watermark
        self.high_watermark = self.log.next_offset
        return moved

    _replace(Partition, "advance_high_watermark", advance)


def watermark_without_followers() -> None:
    original = Appends._succeed

    def succeed(self: Appends, pending: Any) -> None:
        original(self, pending)
        pending.result.committed = True

    _replace(Appends, "_succeed", succeed)


def acks_0_is_answered() -> None:
    original = RequestRoom.answered

    def answered(self: RequestRoom, slot: Slot, kind: ResponseKind) -> None:
        if kind is ResponseKind.NO_OP and isinstance(slot, PendingProduce):
            self.respond(slot, slot.response)
        else:
            original(self, slot, kind)

    _replace(RequestRoom, "answered", answered)


def unlimited_reads() -> None:
    def last_stable_offset(self: Partition) -> int:
        return self.log.log_end_offset

    _replace(Partition, "last_stable_offset", property(last_stable_offset))


def duplicates_are_not_recognised() -> None:
    def check(self: ProducerState, *batch: int) -> ProducedBatch | ErrorCode:
        return ErrorCode.NONE

    _replace(ProducerState, "check", check)


def window_of_one_batch() -> None:
    original = ProducerState.check

    def check(self: ProducerState, producer_id: int, *rest: int) -> ProducedBatch | ErrorCode:
        known = original(self, producer_id, *rest)
        entry = self._producers.get(producer_id)
        is_newest = entry is not None and isinstance(known, ProducedBatch) and known is list(entry.batches)[-1]
        return ErrorCode.NONE if isinstance(known, ProducedBatch) and not is_newest else known

    _replace(ProducerState, "check", check)


def restart_keeps_the_epoch() -> None:
    original = partition_changes.after_liveness

    def elected(partition: Any, live: Any, rules: Any) -> Any:
        new = original(partition, live, rules)
        if new is not partition and new.leader in (partition.leader, -1):
            return replace(new, leader_epoch=partition.leader_epoch)
        return new

    _replace(leader_elections, "after_liveness", elected)


def flush_is_not_waited_for() -> None:
    original = PartitionLog.take_write

    def take_write(self: PartitionLog) -> Any:
        effect = original(self)
        if effect is not None and effect.flush is not None:
            effect.flush = self.flushes.in_flight = None
        return effect

    _replace(PartitionLog, "take_write", take_write)


def recovery_checks_no_crc() -> None:
    original = Segment.rebuild

    def rebuild(self: Segment, *, check_crc: bool) -> Any:
        return original(self, check_crc=False)

    _replace(Segment, "rebuild", rebuild)


def recovery_loses_the_last_batch() -> None:
    original = Segment.rebuild

    def rebuild(self: Segment, *, check_crc: bool) -> Any:
        return list(original(self, check_crc=check_crc))[:-1]

    _replace(Segment, "rebuild", rebuild)


def clean_shutdown_marker_stays() -> None:
    def take_marker(self: LogDirectory) -> None:
        self.was_shut_down_cleanly = True

    _replace(LogDirectory, "_take_marker", take_marker)


def _replace(owner: Any, name: str, mutation: Any) -> None:
    assert name in vars(owner), f"{owner} has no {name} of its own any more"
    setattr(owner, name, mutation)


MUTANTS: dict[str, Callable[[], None]] = {
    plant.__name__.replace("_", " "): plant
    for plant in (
        purgatory_ignores_epochs,
        purgatory_ignores_topic_ids,
        purgatory_is_one_offset_early,
        purgatory_looks_before_it_watches,
        purgatory_forgets_to_unwatch,
        lost_entry_is_success,
        answers_out_of_order,
        nothing_is_a_barrier,
        request_bytes_are_not_given_back,
        acknowledged_before_written,
        watermark_ahead_of_written,
        watermark_without_followers,
        acks_0_is_answered,
        unlimited_reads,
        duplicates_are_not_recognised,
        window_of_one_batch,
        restart_keeps_the_epoch,
        flush_is_not_waited_for,
        recovery_checks_no_crc,
        recovery_loses_the_last_batch,
        clean_shutdown_marker_stays,
    )
}


# What only a disk brings to light is looked for where disks suffer; every other mutant has to show in any mixture.
DISK_FAULTS = [Fault.POWER_CUT, Fault.KILL_LOGSTORE, Fault.TERMINATE_LOGSTORE]
ON_DISKS = (flush_is_not_waited_for, recovery_checks_no_crc, recovery_loses_the_last_batch, clean_shutdown_marker_stays)


@dataclass(slots=True)
class Verdict:
    mutant: str
    seed: int | None
    failure: str
    cpu_s: float


def hunt(mutant: str) -> Verdict:
    """Run seed after seed with the mutant planted, in this process, until something is noticed."""
    began = time.process_time()
    plant = MUTANTS[mutant]
    plant()
    faults = DISK_FAULTS if plant in ON_DISKS else None
    for seed in range(1, SEEDS_MAX + 1):
        outcome = simulate(seed, Options(seconds=SECONDS, faults=faults))
        if outcome.failure:
            return Verdict(mutant, seed, str(outcome.failure), time.process_time() - began)
    return Verdict(mutant, None, "", time.process_time() - began)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.mutants", description="Can the simulation see?")
    parser.add_argument("--only", metavar="WORDS", default="", help="mutants whose name contains this")
    parser.add_argument("--processes", type=int)
    arguments = parser.parse_args()
    wanted = [mutant for mutant in MUTANTS if arguments.only in mutant]
    caught = 0
    context = multiprocessing.get_context("spawn")
    with context.Pool(arguments.processes, maxtasksperchild=1) as pool:
        for verdict in pool.imap_unordered(_hunt, wanted):
            caught += verdict.seed is not None
            found = f"seed {verdict.seed}: {verdict.failure}" if verdict.seed is not None else "NOT CAUGHT"
            print(f"{verdict.mutant:<36} {verdict.cpu_s:6.1f} s  {found}", flush=True)
    print(f"{len(wanted)} mutants, {caught} caught")
    sys.exit(0 if caught == len(wanted) else 1)


def _hunt(mutant: str) -> Verdict:
    # By name: in the spawned process `__main__` is another module than the one that patches.
    from tests.sim import mutants

    return mutants.hunt(mutant)


if __name__ == "__main__":
    main()
