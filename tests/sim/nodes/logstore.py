"""A logstore: `LogstoreCore` over a disk that outlives the process, with IO workers that take their time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from barnabas.channel.messages import ReadResponse
from barnabas.channel.range_files import HandedFiles
from barnabas.cluster.controller_calls.table import MembershipResponse
from barnabas.cluster.keys import LogstoreRegistration, Role
from barnabas.cluster.messages import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionResponse,
    ControlledShutdownRequest,
    ControlRequest,
    ControlResponse,
)
from barnabas.cluster.topic_config import TopicConfig
from barnabas.containment import ContainedException
from barnabas.ports.disk import DiskError
from barnabas.runtime.compression import CODECS
from barnabas_logstore.core.coordinator.groups.config import GroupConfig
from barnabas_logstore.core.coordinator.transactions.config import TransactionConfig
from barnabas_logstore.core.logstore import TICK_MS, LogstoreConfig, LogstoreCore
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.replication.replication import ReplicationConfig
from barnabas_logstore.core.storage.compaction.orders import PassOutcome
from barnabas_logstore.core.storage.directories.finished_moves import without_moved
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory, OpenedPartition
from barnabas_logstore.core.streams.replication_outbox import ReplicationOutputs
from barnabas_logstore.core.ticks import REST_TICK_MS
from tests.logger_levels import FixedLoggers
from tests.sim.append_fence import AppendFence
from tests.sim.disk_model import DiskModel
from tests.sim.fencing import CommandFence
from tests.sim.network import End, Network
from tests.sim.nodes.cleaner import CleanerNode
from tests.sim.nodes.disk_watcher import DiskWatcher
from tests.sim.nodes.disk_workers import DiskWorkers
from tests.sim.nodes.etcd import EtcdClient
from tests.sim.nodes.logstore_streams import ControlSession, CoordinatorStreams, DataStream, LeaderStream
from tests.sim.nodes.membership import Membership
from tests.sim.nodes.registrar import Registrar
from tests.sim.process import CrashPoint, Process
from tests.sim.protocols import WithFiles
from tests.sim.scheduler import MS, Event, InvariantViolation, Scheduler

DIRECTORY = "/data"
ALTER_PARTITION_TIMEOUT_MS = 5_000
ALLOCATE_TIMEOUT_MS = 5_000
TRANSACTIONS = TransactionConfig(abort_timed_out_interval_ms=1_000, remove_expired_interval_ms=3_000)
"""Intervals shorter than Kafka's, so that transactions of clients that are gone end within a run, and ids are looked
through in it: none is unused for long enough to expire.
"""
HAND_OVER_MS_MAX = 5_000
CLEANER_BACKOFF_MS = 300
SESSION_MS_MIN = 500
RESTART_US_MAX = 3_000 * MS
RANGE_BYTES_MIN = 100
"""So small that most records are sent as ranges, and some are not."""
KEPT_OPEN = 0.7
"""The part of the files in use that the disk still has open: for the others a worker opens them again."""
HANDED_FILES_MAX = 3
HOLD_MS = 20
COMMIT_HOLD_MS = 1
"""Shorter than they are in earnest, so that many have to wait in purgatory too."""
LOST_US = 100 * MS
"""How long a logstore goes on with what its controller has sent, before it has lost it."""


class LogstoreNode(Process):
    """`turned` is called in every turn, before what it has to say is sent; `opened` after a start."""

    def __init__(
        self,
        node_id: int,
        scheduler: Scheduler,
        network: Network,
        disk_watcher: DiskWatcher,
        replica_lag_ms_max: int,
        initial_rebalance_delay_ms: int,
    ) -> None:
        super().__init__(f"logstore-{node_id}", scheduler, network)
        self.node_id = node_id
        self._disk_watcher = disk_watcher
        self._disk_workers = DiskWorkers(self, disk_watcher)
        self._replication = ReplicationConfig(replica_lag_ms_max)
        self._groups = GroupConfig(initial_rebalance_delay_ms, min_session_timeout_ms=SESSION_MS_MIN, hold_ms=HOLD_MS)
        self.disk = DiskModel(chance=scheduler.random)
        self.disk.keeps_open = lambda: scheduler.random.random() < KEPT_OPEN
        # How much longer the disk takes for the next effect.
        self.disk_stall_us: Callable[[], int] | None = None
        self._crash: Callable[[], None] = self.kill
        # A controller is lost, by this, before the logstore has its full UpdateMetadata.
        self.lose_controller: Callable[[], None] | None = None
        self._lost_sessions: set[int] = set()
        self.core: LogstoreCore | None = None
        self.turned: Callable[[LogstoreNode], None] = lambda node: None
        self.opened: Callable[[LogstoreNode], None] = lambda node: None
        self.offline_partitions: dict[str, str] = {}
        """Those that are offline alone, until it starts again, and why."""
        self.configure: Callable[[LogstoreConfig], LogstoreConfig] = lambda config: config
        """Changes the configuration of its next life."""
        self.log_dirs: Sequence[str] = (DIRECTORY,)
        """On one disk; with several of them no fault of that disk is thought of."""
        self.rack = ""
        self.passes = 0
        """Logs cleaned, so far."""
        self.is_stopping = False
        self._has_handed_over = False
        self._is_closing = False
        self._shutdown_call_id = 0
        self._broker_epoch: int | None = None
        self._boots = 0
        self._ends: dict[int, End] = {}
        self._handed: dict[int, HandedFiles] = {}
        self._last_stream_id = 0
        self._last_call_id = 0
        self._links: dict[int, LeaderStream] = {}
        self._peers = CoordinatorStreams(self)
        self._producer_id_calls: set[int] = set()
        self._wake: Event | None = None
        self._next_tick: Event | None = None
        self._is_tick_due = False
        self._rests = False
        """Whether the next tick is as far away as for a core at rest."""

    @property
    def partitions(self) -> list[Partition]:
        """What it hosts, led or not; nothing while it is down."""
        return list(self.core._replicas.by_key.values()) if self.core is not None else []

    # --- life --------------------------------------------------------------------------------------------------------

    def boot(self) -> None:
        self.etcd = EtcdClient(self)
        self.membership = Membership(self, self.etcd, Role.LOGSTORE, str(self.node_id), None, self._answered)
        self.etcd.when_present(self.etcd.keys.cluster, self._open)

    def _open(self, cluster_record: bytes) -> None:
        try:
            self._open_logs(cluster_record)
        except DiskError as error:
            self._give_up(str(error))

    def _open_logs(self, cluster_record: bytes) -> None:
        cluster_id = self.etcd.cluster_id_of(cluster_record)
        random = self.scheduler.random
        self.disk.close_files()
        directories: list[LogDirectory] = []
        loaded: list[OpenedPartition] = []
        for path in self.log_dirs:
            directory = LogDirectory.open(
                self.disk,
                path,
                cluster_id=cluster_id,
                node_id=self.node_id,
                kernel_boot_id=f"boot-{self._boots}",
                new_directory_id=random.randbytes(16),
                unique_name=lambda: random.randbytes(16).hex(),
            )
            assert isinstance(directory, LogDirectory), directory
            directories.append(directory)
        for directory in directories:
            found = directory.load(self._topic_config, self.now_ms)
            loaded += [opened for opened in found if _is_ours(directory, opened)]
        loaded, _ = without_moved(self.disk, directories, loaded, self.now_ms)
        config = LogstoreConfig(
            self.node_id,
            cluster_id,
            range_bytes_min=RANGE_BYTES_MIN,
            cleaner_backoff_ms=CLEANER_BACKOFF_MS,
            replication=self._replication,
            groups=self._groups,
            transactions=TRANSACTIONS,
            commit_hold_ms=COMMIT_HOLD_MS,
        )
        self.cleaner = CleanerNode(self)
        self.core = LogstoreCore(
            self.configure(config),
            directories,
            loaded,
            CODECS,
            self._new_member_id,
            lambda: self.scheduler.now_us,
            FixedLoggers(),
        )
        self._fence = CommandFence(self.name, self.core)
        self.append_fence = AppendFence(self.name, self.core)
        self._disk_watcher.opened(self)
        self.opened(self)
        self.network.listen(f"{self.name}:control", self, self._accept_control)
        self._tick()
        self._full_log_dirs: dict[str, str] = {}
        self._room_changes = 0
        self.offline_partitions.clear()
        self._registrar = Registrar(
            self.etcd,
            Role.LOGSTORE,
            str(self.node_id),
            lambda incarnation: LogstoreRegistration(
                self.node_id,
                incarnation,
                ",".join(sorted(each.identity.directory_id.hex() for each in directories)),
                f"{self.name}:data",
                f"{self.name}:control",
                self.rack,
                boot_id=f"boot-{self._boots}",
                full_log_dirs=dict(self._full_log_dirs),
                room_changes=self._room_changes,
                offline_partitions=dict(self.offline_partitions),
                may_lack_records=any(each.boot.may_lack_records for each in directories),
            ),
            on_registered=self._registered,
        )

    def _new_member_id(self, prefix: str) -> str:
        return f"{prefix}-{self.scheduler.random.randbytes(16).hex()}"

    def _topic_config(self, topic: str) -> TopicConfig:
        config = TopicConfig.from_overrides({})
        assert isinstance(config, TopicConfig), config
        return config

    def _registered(self, broker_epoch: int) -> None:
        if self.core is not None:
            self._broker_epoch = broker_epoch
            self.core.on_registered(broker_epoch)
            self.network.listen(f"{self.name}:data", self, self._accept)
            self.turn_soon()

    def terminate(self) -> None:
        """SIGTERM: others are to lead; then appends are refused, what is begun is finished, everything is flushed, and
        it leaves.
        """
        assert self.core is not None
        self.scheduler.note(f"{self.name} is told to stop")
        self.is_stopping = True
        if self._broker_epoch is None:
            self._begin_stopping()
            return
        self._last_call_id += 1
        self._shutdown_call_id = self._last_call_id
        request = ControlledShutdownRequest(self.node_id, self._broker_epoch)
        self.membership.call(self._last_call_id, request, HAND_OVER_MS_MAX)
        self.after(HAND_OVER_MS_MAX * MS, "hands over no longer", self._begin_stopping)

    def _begin_stopping(self) -> None:
        if not self._has_handed_over:
            self._has_handed_over = True
            assert self.core is not None
            self.core.stopping.begin()
            self.turn_soon()

    def _stop_when_idle(self, core: LogstoreCore) -> None:
        if not core.is_idle:
            return
        if not self._is_closing:
            self._is_closing = True
            self._disk_workers.carry_out(core.stopping.take_closing_flushes())
            self.turn_soon()
            return
        core.stopping.shut_down()
        self.kill()

    def interrupt_after(self, changes: int, crash: Callable[[], None]) -> None:
        """So many more changes of its disk go well, in this life or the next one; the one after that is done in part or
        not at all, and `crash` ends the process, or its machine."""
        self.disk.interrupt_after, self._crash = changes, crash

    def interrupted(self) -> None:
        self._crash()
        assert not self.alive, "a process that lives does not go on from the midst of something"

    def _give_up(self, why: str) -> None:
        """Its only log directory is offline: it ends, and its supervisor restarts it.

        What a failed flush has marked clean need not be in the page cache any more by then.
        """
        self.scheduler.note(f"{self.name} gives up: {why}")
        self.kill()
        self.disk.drop_clean_pages()
        delay_us = RESTART_US_MAX // 10 + self.scheduler.below(RESTART_US_MAX)
        self.scheduler.plan(delay_us, f"{self.name} is started again", lambda: None if self.alive else self.start())

    def died(self) -> None:
        self.core = None
        self.is_stopping = self._has_handed_over = self._is_closing = False
        self._shutdown_call_id = 0
        self._broker_epoch = None
        self._ends.clear()
        self._handed.clear()
        self._links.clear()
        self._peers.clear()
        self._producer_id_calls.clear()
        self._wake = self._next_tick = None

    def lose_power(self) -> None:
        """The machine stops: what was not flushed is at the mercy of chance."""
        self.vanish()
        self._boots += 1
        self.disk.lose_power(self.scheduler.random)

    # --- streams -----------------------------------------------------------------------------------------------------

    def _accept(self, end: End) -> DataStream:
        self._last_stream_id += 1
        self._ends[self._last_stream_id] = end
        return DataStream(self, self._last_stream_id)

    def _accept_control(self, end: End) -> ControlSession:
        self._last_stream_id += 1
        self._ends[self._last_stream_id] = end
        end.send(ControlResponse(0, 0, heartbeat=1))
        return ControlSession(self, self._last_stream_id)

    def command(self, session_id: int, command: ControlRequest) -> None:
        """Of a controller."""
        assert self.core is not None
        update = command.update_metadata
        if session_id in self._lost_sessions:
            return
        if self.lose_controller is not None and update is not None and update.full:
            # What has come before is carried out: a stream that ends takes with it what waits.
            self._lost_sessions.add(session_id)
            self.after(LOST_US, "its controller is lost", partial(self._controller_lost, session_id))
            return
        self._fence.received(session_id, command, self.core._replicas.broker_epoch)
        self.core.on_control(session_id, command)
        self.turn_soon()

    def _controller_lost(self, session_id: int) -> None:
        if self.lose_controller is not None:
            self.lose_controller()
        if session_id in self._ends:
            self.refuse(session_id)

    def refuse(self, call_id: int) -> None:
        """A call that the core does not take, or a stream that has ended in an internal error."""
        self._ends[call_id].close("refused")
        self.stream_closed(call_id)

    def stream_closed(self, stream_id: int) -> None:
        self._handed.pop(stream_id, None)
        if self._ends.pop(stream_id, None) is not None and self.core is not None:
            self.core.on_stream_closed(stream_id)
            self.core.on_administration_cancelled(stream_id)
            self.turn_soon()

    # --- turns -------------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        core = self.core
        if core is None:
            return
        if self._is_tick_due:
            self._is_tick_due = False
            core.tick(self.now_ms)
        core.step(self.now_ms, self.wall_ms)
        if core.all_directories_offline:
            self._tell_contained(core.take_outputs().contained)
            self._give_up("every log directory is offline")
            return
        while (outputs := core.take_outputs()).effects:
            self._disk_workers.carry_out(outputs.effects)
            if not self.alive:
                return
        # Before any of it leaves: the process may die in the midst of sending, and what has left by then counts.
        self.turned(self)
        for session_id, answer in outputs.controls:
            self._fence.answered(session_id, answer, core._replicas.broker_epoch)
        for stream_id, response in outputs.exchanges:
            self.append_fence.answered(stream_id, response.append_results)
        streams = (
            *outputs.exchanges,
            *[(stream_id, self._with_files(stream_id, response)) for stream_id, response in outputs.reads],
            *outputs.coordinations,
            *outputs.watches,
            *outputs.controls,
            *outputs.replication.responses,
        )
        for stream_id, message in (*streams, *outputs.administration):
            end = self._ends.get(stream_id)
            if end is not None:
                end.send(message)
        for path, lack in outputs.full_disks:
            self._full_log_dirs = {} if lack is None else {path: str(lack)}
            self._room_changes += 1
            self._registrar.update()
        self._tell_contained(outputs.contained)
        for partition_name, reason in outputs.offline_partitions:
            self.offline_partitions[partition_name] = reason
            self._room_changes += 1
            self._registrar.update()
        self._replicate(outputs.replication)
        if outputs.transactions is not None:
            self._peers.send(outputs.transactions)
            if outputs.transactions.wants_producer_ids:
                self._ask_for_producer_ids()
        for problem in outputs.coordination_problems:
            self.scheduler.note(f"{self.name}: {problem}")
        if not self.alive:
            return
        for stream_id, reason in (*outputs.closes, *outputs.replication.closes):
            end = self._ends.get(stream_id)
            if end is not None:
                end.close(reason)
                self.stream_closed(stream_id)
        for call_id in outputs.administration_failures:
            if call_id in self._ends:
                self.refuse(call_id)
        for command in outputs.cleaner:
            self.cleaner.command(command)
        self.passes += len([report for report in outputs.passes if report.ended.outcome is PassOutcome.DONE])
        if self._next_tick is None or (self._rests and not core.ticks.is_at_rest):
            self._wait_for_tick(core)
        deadline_ms = core.next_deadline_ms()
        if deadline_ms is not None and deadline_ms <= self.now_ms:
            raise InvariantViolation(f"{self.name} would turn in vain: what was due {deadline_ms} has not been done")
        self._wake = self.wake_at_ms(deadline_ms, self._wake)
        if core.has_work:
            self.turn_soon()
        elif self._has_handed_over:
            self._stop_when_idle(core)

    def _tell_contained(self, contained: Sequence[ContainedException]) -> None:
        for each in contained:
            self.scheduler.contained(self, each.place.name, each.place.scope.value, each.traceback)

    def _with_files(self, stream_id: int, response: ReadResponse) -> ReadResponse | WithFiles:
        files = self._handed.setdefault(stream_id, HandedFiles(HANDED_FILES_MAX)).number_ranges(response)
        return WithFiles(response, files) if files else response

    def _replicate(self, outputs: ReplicationOutputs) -> None:
        if outputs.links is not None:
            for leader_id, link in list(self._links.items()):
                if link.wanted not in outputs.links:
                    link.close()
                    del self._links[leader_id]
            for wanted in outputs.links:
                if wanted.leader.node_id not in self._links:
                    self._links[wanted.leader.node_id] = LeaderStream(self, wanted)
        for leader_id, request in outputs.requests:
            if leader_id in self._links:
                self._links[leader_id].send(request)
        if outputs.alter_partition is not None:
            self._last_call_id += 1
            self.membership.call(self._last_call_id, outputs.alter_partition, ALTER_PARTITION_TIMEOUT_MS)
            if self.reached(CrashPoint.ALTER_PARTITION_SENT):
                return
        for problem in outputs.problems:
            self.scheduler.note(f"{self.name} can't follow: {problem}")

    def _ask_for_producer_ids(self) -> None:
        self._last_call_id += 1
        self._producer_id_calls.add(self._last_call_id)
        self.membership.call(self._last_call_id, AllocateProducerIdsRequest(self.name), ALLOCATE_TIMEOUT_MS)

    def _answered(self, call_id: int, answer: MembershipResponse | None) -> None:
        if call_id == self._shutdown_call_id:
            self._begin_stopping()
            return
        if call_id in self._producer_id_calls:
            self._producer_id_calls.discard(call_id)
            assert answer is None or isinstance(answer, AllocateProducerIdsResponse)
            if self.core is not None:
                length = 0 if answer is None or answer.error_code else answer.length
                self.core.transactions.on_producer_ids(0 if answer is None else answer.first_producer_id, length)
                self.turn_soon()
            return
        assert answer is None or isinstance(answer, AlterPartitionResponse)
        if self.core is not None:
            self.core.on_alter_partition(answer)
            self.turn_soon()

    def _tick(self) -> None:
        self._next_tick = None
        self._is_tick_due = True
        self.turn_soon()

    def _wait_for_tick(self, core: LogstoreCore) -> None:
        """As the service has it: the next tick is further away as long as the core is at rest."""
        if self._next_tick is not None:
            self._next_tick.cancelled = True
        self._rests = core.ticks.is_at_rest
        delay_ms = REST_TICK_MS if self._rests else TICK_MS
        fetch_deadline_ms = core.ticks.fetch_deadline_ms
        if fetch_deadline_ms is not None:
            delay_ms = min(delay_ms, max(1, fetch_deadline_ms - self.now_ms))
        self._next_tick = self.after(delay_ms * MS, "ticks", self._tick)


def _is_ours(directory: LogDirectory, opened: OpenedPartition) -> bool:
    """Without its topic id it is unknown whose records these are: they are set aside."""
    if opened.topic_id is None:
        directory.set_aside(opened.topic_partition)
    return opened.topic_id is not None
