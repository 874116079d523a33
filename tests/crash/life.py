"""One life of a logstore's process: `LogstoreCore` hosted as the shell hosts it, over a disk.

Effects go through two steps that the workload takes when it likes and in any order: they are carried out (the disk
changes), and they are reported (the core hears of it). The process may end before, between and after; and within any
operation of the disk.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from random import Random
from typing import Any

from barnabas.channel.assembly import ReadAssembler
from barnabas.channel.messages import (
    Append,
    AppendResult,
    ExchangeRequest,
    Hello,
    OffsetAnswer,
    OffsetQuery,
    Read,
    ReadPartition,
    ReadPartitionResult,
    ReadRequest,
)
from barnabas.cluster.administration import AdministrationRequest
from barnabas.cluster.messages import (
    ControlRequest,
    ControlResponse,
    LeaderAndIsr,
    StopReplica,
    UpdateMetadata,
)
from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import Disk, DiskError
from barnabas.runtime.compression import CODECS
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.logstore import TICK_MS, LogstoreConfig, LogstoreCore
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.storage.compaction.cleaner import Cleaner
from barnabas_logstore.core.storage.compaction.orders import CleanOrder, PassReport
from barnabas_logstore.core.storage.directories.finished_moves import without_moved
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory, OpenedPartition
from barnabas_logstore.core.storage.effect_execution import EffectResult, execute
from barnabas_logstore.core.storage.effects import (
    DeleteDirectoryEffect,
    DeleteFilesEffect,
    FlushEffect,
    ReadBatchesEffect,
    ReadEffect,
    ReplaceEffect,
    RetireEffect,
    StorageEffect,
    SwapEffect,
    VolumeFlushEffect,
    WriteEffect,
)
from barnabas_logstore.core.streams.outbox import Outputs
from tests.logger_levels import FixedLoggers
from tests.sim.disk_model import DiskModel, MachineStopped
from tests.sim.page_cache import carry_out

NODE_ID = 1
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
CONTROLLER_EPOCH = 5
WALL_MS = 1_700_000_000_000

_EXCHANGE, _READ, _CONTROL = 1, 2, 3
_STEPS_MAX = 5_000

Written = Callable[[StorageEffect], None]


@dataclass(slots=True, frozen=True)
class LifeSettings:
    """How a process is started."""

    paths: Sequence[str]
    defaults: dict[str, str]
    """Of topic configs."""
    boot_id: str
    unique: Callable[[], str]
    broker_epoch: int
    now_ms: int
    options: Mapping[str, int]
    """Settings of the logstore, in the names of LogstoreConfig."""
    dedupe_buffer_bytes: int


class Life:
    """From the opening of the log directories to whatever end comes."""

    def __init__(
        self,
        disk: Disk,
        settings: LifeSettings,
        *,
        written: Written,
        turned: Callable[[], None],
        is_deleted: Callable[[bytes], bool],
    ) -> None:
        """Opens and loads, as the shell does. Raises DiskError where the shell would refuse to start.

        `written` hears of every effect that the disk has carried out, `turned` of every turn.
        """
        self.disk = disk
        self.now_ms = settings.now_ms
        self.in_flight: list[StorageEffect] = []
        self.finished: list[tuple[StorageEffect, EffectResult | DiskError]] = []
        self.offline: list[str] = []
        self.directories = [_open(disk, path, settings) for path in settings.paths]
        config = TopicConfig.from_overrides(settings.defaults)
        assert isinstance(config, TopicConfig), config
        self.loaded: list[OpenedPartition] = []
        self.lacked_room = False
        """Some log directory was full for a while."""
        for directory in self.directories:
            for opened in directory.load(lambda topic: config, settings.now_ms):
                if opened.topic_id is not None:
                    self.loaded.append(opened)
                elif (error := directory.set_aside(opened.topic_partition)) is not None:
                    # Without its topic id it is unknown whose records these are.
                    raise error
        self._finish_moves()
        self.moved_away = self._move_away_deleted(is_deleted)
        """Partitions in two log directories with different topic ids: the shell refuses to start until an operator has
        moved one of them away. Here that is done at once."""
        self.core = LogstoreCore(
            LogstoreConfig(NODE_ID, CLUSTER_ID, topic_defaults=settings.defaults, **settings.options),  # type: ignore[arg-type]
            self.directories,
            self.loaded,
            CODECS,
            lambda prefix: f"{prefix}-member",
            lambda: 0,
            FixedLoggers(),
        )
        self.core.on_registered(settings.broker_epoch)
        self._broker_epoch = settings.broker_epoch
        self._written = written
        self._turned = turned
        self._ids = count(1)
        self._credit = 0
        self._to_send: deque[Append] = deque()
        self._on_append: dict[int, Callable[[AppendResult], None]] = {}
        self._on_offset: dict[int, Callable[[OffsetAnswer], None]] = {}
        self._on_read: dict[int, Callable[[ReadPartitionResult], None]] = {}
        self._assembler = ReadAssembler()
        self._on_answer: dict[int, Callable[[Any], None]] = {}
        self._controls: list[ControlResponse] = []
        self._dedupe_buffer_bytes = settings.dedupe_buffer_bytes
        self._cleaner = self._new_cleaner()
        self.passes: list[PassReport] = []
        """What became of compactions."""
        self.core.on_exchange(_EXCHANGE, ExchangeRequest(Hello(CLUSTER_ID, "crash")))
        self.core.on_read(_READ, ReadRequest(Hello(CLUSTER_ID, "crash")))
        self.turn()

    def _finish_moves(self) -> None:
        self.loaded, _ = without_moved(self.disk, self.directories, self.loaded, self.now_ms)
        for error in (directory.error for directory in self.directories):
            if error is not None:
                raise error

    def _move_away_deleted(self, is_deleted: Callable[[bytes], bool]) -> int:
        names = Counter(opened.topic_partition for opened in self.loaded)
        twice = [opened for opened in self.loaded if names[opened.topic_partition] > 1]
        leaving = [opened for opened in twice if opened.topic_id is not None and is_deleted(opened.topic_id)]
        for opened in leaving:
            path = opened.opened.log.directory.rpartition("/")[0]
            (directory,) = [each for each in self.directories if each.path == path]
            error = directory.set_aside(opened.topic_partition)
            if error is not None:
                raise error
            self.loaded.remove(opened)
        return len(leaving)

    # --- what is there ---

    @property
    def partitions(self) -> list[Partition]:
        return self.core.partitions

    def partition(self, topic_id: bytes, number: int) -> Partition | None:
        """A replica that is there and served."""
        for partition in self.core.partitions:
            if partition.key == (topic_id, number):
                return partition if partition.online else None
        return None

    @property
    def is_halted(self) -> bool:
        """There is nothing left to serve: the shell ends the process."""
        return self.core.all_directories_offline

    # --- turns and effects ---

    def turn(self) -> None:
        self.core.step(self.now_ms, WALL_MS + self.now_ms)
        self._take()

    def tick(self) -> None:
        self.core.tick(self.now_ms)
        self._take()

    def _take(self) -> None:
        while (outputs := self.core.take_outputs()).effects:
            self.in_flight += outputs.effects
        self.offline += [path for path, _ in outputs.offline]
        self._turned()
        self._hear(outputs)

    def execute(self, choice: int) -> str:
        """Have a worker carry out one of the effects in flight; what it was."""
        effect = self.in_flight.pop(choice % len(self.in_flight))
        outcome: EffectResult | DiskError
        try:
            # What is in the page cache is left to chance.
            outcome = carry_out(self.disk, effect, lambda: choice % 2 == 0)
        except DiskError as error:
            outcome = error
        else:
            self._written(effect)
        self.finished.append((effect, outcome))
        return f"{described(effect)}{f': {outcome}' if isinstance(outcome, DiskError) else ''}"

    def report(self, choice: int) -> str:
        """Let the core hear of one that has been carried out."""
        effect, outcome = self.finished.pop(choice % len(self.finished))
        self.core.on_io_done(effect, outcome)
        self._take()
        return described(effect)

    # --- the cleaner, a process of its own ---

    def _new_cleaner(self) -> Cleaner:
        return Cleaner(lambda: self.disk, CODECS, dedupe_buffer_bytes=self._dedupe_buffer_bytes, io_buffer_bytes=2_000)

    @property
    def is_cleaning(self) -> bool:
        return self._cleaner.is_busy

    def clean(self) -> str:
        """A step of the pass that is under way; what it was."""
        _, report = self._cleaner.step(self.now_ms)
        if report is None:
            return "the cleaner reads on"
        self.core.on_cleaner_report(report)
        self._take()
        return f"the cleaner reports {report}"

    def kill_cleaner(self) -> None:
        self._cleaner = self._new_cleaner()
        self.core.on_cleaner_gone()
        self._take()

    # --- turns of all ---

    def settle(self, chance: Random) -> None:
        """Turns until nothing is left to be done."""
        for _ in range(_STEPS_MAX):
            self.turn()
            if self.is_cleaning and chance.random() < 0.5:
                self.clean()
            elif self.finished and (not self.in_flight or chance.random() < 0.5):
                self.report(chance.randrange(len(self.finished)))
            elif self.in_flight:
                self.execute(chance.randrange(len(self.in_flight)))
            elif not self.core.has_work and not self.is_cleaning:
                return
        raise AssertionError("the logstore never comes to rest")

    def break_off(self, disk: DiskModel, chance: Random) -> int:
        """The process ends with effects in flight: not begun, done in part, or done. How many were done in part.

        `disk` is the one that it was begun with.
        """
        in_part = 0
        disk.interrupt_after = chance.randint(0, 8)
        try:
            while self.is_cleaning and chance.random() < 0.8:
                self._cleaner.step(self.now_ms)
        except MachineStopped:
            in_part += 1
        chance.shuffle(self.in_flight)
        for effect in self.in_flight:
            fate = chance.random()
            if fate < 0.4:
                continue
            disk.interrupt_after = chance.randint(0, 8) if fate < 0.7 else None
            try:
                execute(disk, effect)
                self._written(effect)
            except MachineStopped:
                in_part += 1
            except DiskError:
                pass
        disk.interrupt_after = None
        self.in_flight.clear()
        return in_part

    def stop_cleanly(self, chance: Random) -> list[str]:
        """SIGTERM; the directories that had to stay without a marker."""
        self.core.stopping.begin()
        self.settle(chance)
        assert self.core.is_idle
        self.in_flight += self.core.stopping.take_closing_flushes()
        self.settle(chance)
        return self.core.stopping.shut_down()

    # --- requests ---

    def append(
        self, topic_id: bytes, partition: int, leader_epoch: int, records: bytes, answer: Callable[[AppendResult], None]
    ) -> None:
        """Hand in a batch; it goes out when there is credit for it."""
        request_id = next(self._ids)
        self._on_append[request_id] = answer
        self._to_send.append(Append(request_id, topic_id, partition, leader_epoch, -1, records))
        self._send()

    def _send(self) -> None:
        while self._to_send and self._credit > 0:
            self._credit -= 1
            self.core.on_exchange(_EXCHANGE, ExchangeRequest(appends=[self._to_send.popleft()]))

    def read(
        self,
        topic_id: bytes,
        partition: int,
        offset: int,
        bytes_max: int,
        answer: Callable[[ReadPartitionResult], None],
    ) -> None:
        request_id = next(self._ids)
        self._on_read[request_id] = answer
        asked = ReadPartition(topic_id, partition, -1, offset, bytes_max)
        self.core.on_read(_READ, ReadRequest(reads=[Read(request_id, bytes_max, 0, [asked])]))

    def query_offset(
        self, topic_id: bytes, partition: int, timestamp: int, answer: Callable[[OffsetAnswer], None]
    ) -> bool:
        if self._credit <= 0:
            return False
        self._credit -= 1
        request_id = next(self._ids)
        self._on_offset[request_id] = answer
        query = OffsetQuery(request_id, topic_id, partition, -1, 0, timestamp)
        self.core.on_exchange(_EXCHANGE, ExchangeRequest(offset_queries=[query]))
        return True

    def call(self, request: AdministrationRequest, answer: Callable[[Any], None]) -> None:
        """A gateway's call."""
        call_id = next(self._ids)
        self._on_answer[call_id] = answer
        assert self.core.on_administration(call_id, request)

    def command(self, body: LeaderAndIsr | StopReplica | UpdateMetadata, chance: Random) -> ControlResponse:
        """A command of the controller, in as many turns as it takes; effects in flight go on meanwhile."""
        request = ControlRequest(
            next(self._ids),
            CONTROLLER_EPOCH,
            self._broker_epoch,
            leader_and_isr=body if isinstance(body, LeaderAndIsr) else None,
            stop_replica=body if isinstance(body, StopReplica) else None,
            update_metadata=body if isinstance(body, UpdateMetadata) else None,
        )
        self.core.on_control(_CONTROL, request)
        for _ in range(_STEPS_MAX):
            self.turn()
            if self._controls:
                (response,) = self._controls
                self._controls = []
                assert response.sequence == request.sequence
                assert response.error_code == ErrorCode.NONE
                return response
            if self.finished:
                self.report(chance.randrange(len(self.finished)))
            elif self.in_flight:
                self.execute(chance.randrange(len(self.in_flight)))
            elif self.is_cleaning:
                self.clean()
            else:
                # Some of what it waits for is tried again by the clock.
                self.now_ms += TICK_MS
                self.tick()
        raise AssertionError(f"never answered: {request}")

    def _hear(self, outputs: Outputs) -> None:
        assert not outputs.closes, outputs.closes
        for _, response in outputs.exchanges:
            if response.credit is not None:
                self._credit += response.credit.requests
                self._send()
            for result in response.append_results:
                self._on_append.pop(result.request_id)(result)
            for answer in response.offset_answers:
                self._on_offset.pop(answer.request_id)(answer)
        for _, pieces in outputs.reads:
            for piece in pieces.pieces:
                whole = self._assembler.add_piece(piece)
                if whole is not None:
                    self._on_read.pop(whole.request_id)(whole.partitions[0])
        self._controls += [response for _, response in outputs.controls]
        for call_id, answered in outputs.administration:
            self._on_answer.pop(call_id)(answered)
        for command in outputs.cleaner:
            if isinstance(command, CleanOrder):
                self._cleaner.begin(command, self.now_ms)
            else:
                self._cleaner.cancel(command.order_id)
        self.passes += outputs.passes
        self.lacked_room |= bool(outputs.full_disks)


def _open(disk: Disk, path: str, settings: LifeSettings) -> LogDirectory:
    directory = LogDirectory.open(
        disk,
        path,
        cluster_id=CLUSTER_ID,
        node_id=NODE_ID,
        kernel_boot_id=settings.boot_id,
        new_directory_id=sha256(path.encode()).digest()[:16],
        unique_name=settings.unique,
    )
    assert isinstance(directory, LogDirectory), directory
    return directory


def described(effect: StorageEffect) -> str:
    match effect:
        case WriteEffect():
            flush = " and flushes" if effect.flush is not None else ""
            return f"writes {effect.directory} up to {effect.end_offset}{flush}"
        case FlushEffect():
            return f"flushes {effect.directory} up to {effect.upto_offset}"
        case VolumeFlushEffect():
            return f"flushes the volume of {effect.log_directory} for {len(effect.flushes)} logs"
        case ReadBatchesEffect():
            return f"reads {effect.max_bytes} bytes of {effect.part.file.path} from offset {effect.offset}"
        case ReadEffect():
            return f"reads {effect.length} bytes of {effect.file.path} at {effect.position}"
        case ReplaceEffect():
            return f"replaces {effect.replacement.path}"
        case DeleteDirectoryEffect():
            return f"removes {effect.path}"
        case SwapEffect():
            return f"swaps {effect.directory} {[phase[-1].source for phase in effect.phases]}"
        case RetireEffect():
            return f"retires {len(effect.segments)} segments of {effect.directory}"
        case DeleteFilesEffect():
            return f"removes {len(effect.paths)} files"
        case _:
            return type(effect).__name__
