"""A disk that runs full and has room again, at any moment of any history: the log is what is written, no more, no less.

The runs are those of the crash test, on a disk whose capacity comes and goes. What finds no room is taken back; at the
end of each life the log is opened anew and compared, after a crash or without one.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.ports.disk import DiskError
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.effects import FlushEffect, RetireEffect, TakeBackEffect, WriteEffect
from tests.property.test_storage_crash import Run, check_byte_count, header_of, headers_of
from tests.tiers import Cost, examples


class FullDiskRun(Run):
    """The capacity comes back by chance, or when nothing else is left to be done."""

    def live(self, steps: int) -> None:
        for _ in range(steps):
            self.now_ms += self.random.randint(0, 10)
            common = (self.try_to_append, self.start_effect, self.try_to_finish)
            self.random.choices((*common, self.fill, self.make_room, self.shorten), (12, 8, 8, 1, 2, 1))[0]()
            check_byte_count(self.log)
        self.make_room()

    def fill(self) -> None:
        self.disk.capacity_bytes = self.disk.used_bytes() + self.random.randint(0, 1500)

    def make_room(self) -> None:
        self.disk.capacity_bytes = None
        log = self.log
        while log.no_room is not None and not log.disk_full.accept_appends():
            effect = log.begin_taking_back()
            if effect is not None:
                self.take_back(effect)
            else:
                self.start_effect()
                self.try_to_finish()

    def take_back(self, effect: TakeBackEffect) -> None:
        self.log.disk_full.done(effect, execute(self.disk, effect))
        known = {entry.producer_id: entry.last_sequence + 1 for entry in self.log.producers.entries()}
        assert {key: known[key] for key in self.sequences} == self.sequences

    def try_to_append(self) -> None:
        if self.log.no_room is None:
            self.append()

    def try_to_finish(self) -> None:
        if not self.under_way:
            return
        effect = self.random.choice(self.under_way)
        try:
            self.finish(effect)
        except DiskError as error:
            self.lack_of_room(effect, error)

    def lack_of_room(self, effect: WriteEffect | FlushEffect | RetireEffect, error: DiskError) -> None:
        match effect:
            case WriteEffect():
                self.log.on_write_without_room(effect, error)
            case FlushEffect():
                self.log.on_flush_without_room(effect, error)
            case RetireEffect():
                self.log.retirement.undo(effect)
        end_offset = self.log.next_offset
        assert end_offset == self.log.log_end_offset or not isinstance(effect, WriteEffect)
        self.history = [each for each in self.history if header_of(each).last_offset < end_offset]
        self.sequences = {
            header.producer_id: header.last_sequence + 1 for header in headers_of(self.history) if header.has_producer
        }


@examples(Cost.HIGH)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_full_disk_leaves_the_log_as_it_is_written(seed: int) -> None:
    run = FullDiskRun(seed)
    for _ in range(3):
        run.live(run.random.randint(10, 80))
        if run.random.random() < 0.4:
            run.shut_down()
        elif run.random.random() < 0.5:
            run.kill()
        else:
            run.lose_power()
        run.restart()
