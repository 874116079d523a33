"""LogstoreCore: all decisions of a logstore, as one actor without I/O, clock or threads.

The host (the shell's loop, or the simulation) passes in what has arrived, lets the core take a step, carries out the
effects, and sends the core's messages. One turn of the host:

    for stream_id, message in arrived:
        core.on_exchange(stream_id, message)       # or on_read, on_coordinate, on_watch; decoded messages of streams
    for session_id, command in commands:
        core.on_control(session_id, command)       # answered in Outputs.controls, in order
    for stream_id, message in fetched:
        core.on_replicate(stream_id, message)      # of followers; answered in Outputs.replication.responses
    for leader_id, message in answered:
        core.on_leader_response(leader_id, message)  # on the streams that Outputs.replication.links asks for
    for call_id, request in calls:
        core.on_administration(call_id, request)   # answered in Outputs.administration, in any order; False: refused
    core.step(now_ms, wall_ms)                     # bounded pieces: control first, then groups and data
    while (outputs := core.take_outputs()).effects:
        for effect in outputs.effects:             # reads, writes, flushes: carried out now or on an IO worker, ...
            core.on_io_done(effect, outcome)       # ... reported as its result or a DiskError, now or later
    send outputs                                   # one message per stream; then the streams to close
    if core.has_work: take another turn at once

The cleaner, a process of its own (`storage.compaction.cleaner`), gets the commands in Outputs.cleaner; what it answers
comes back by `on_cleaner_report`, its end by `on_cleaner_gone`. A request to the controller
(`Outputs.replication.alter_partition`) is answered by `on_alter_partition`; there is one at a time.

The streams of `Outputs.transactions.links` report to `transactions`. Further inputs: `on_registered(broker_epoch)`
after each registration, `on_stream_closed(stream_id)` when a stream of any kind is closed, `tick(now_ms)` every
TICK_MS, or while `ticks.is_at_rest` every REST_TICK_MS. The host guarantees:

- Stream ids are unique and never reused. A stream exists from its first message on.
- Effects may be carried out in any order and at any time, but each is reported exactly once, and never after the log
  directory that it belongs to was handed to another process. The buffers of a write stay as they are until then.
- `on_io_done` is called between steps, never from inside the core. It may lead to further effects.
- `now_ms` is monotonic, `wall_ms` the wall clock; both only ever come in as arguments.
- Nothing said needs anything but the effects reported before it: a message may be sent at once.

To stop cleanly: `stopping.begin()`, turns until `is_idle`, the effects of `stopping.take_closing_flushes()` reported,
`stopping.shut_down()`. When `all_directories_offline`, stop uncleanly: nothing can be served any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from barnabas.channel.credits import CreditPool
from barnabas.channel.messages import (
    CoordinateRequest,
    ExchangeRequest,
    ReadRequest,
    ReplicateRequest,
    ReplicateResponse,
    WatchRequest,
)
from barnabas.cluster.administration import AdministrationRequest
from barnabas.cluster.messages import AlterPartitionResponse, ControlRequest
from barnabas.ports.compression import Codecs
from barnabas.ports.disk import DiskError
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.administration.broker_loggers import LoggerLevels
from barnabas_logstore.core.administration.dispatch import Administration
from barnabas_logstore.core.config import LogstoreConfig as LogstoreConfig
from barnabas_logstore.core.control.control_commands import ControlCommands
from barnabas_logstore.core.control.control_inbox import ControlInbox
from barnabas_logstore.core.coordinator.coordination import Coordination
from barnabas_logstore.core.coordinator.groups.joining import MakeMemberId
from barnabas_logstore.core.coordinator.groups.kind import GroupKind
from barnabas_logstore.core.coordinator.runtime.inbox import CoordinateInbox
from barnabas_logstore.core.coordinator.transaction_coordination import TransactionCoordination
from barnabas_logstore.core.data.appends import Appends
from barnabas_logstore.core.data.data_inbox import DataInbox, StepLimits
from barnabas_logstore.core.data.queries import Queries
from barnabas_logstore.core.data.reads import Reads
from barnabas_logstore.core.data.uncommitted_results import UncommittedResults
from barnabas_logstore.core.effect_failures import EffectFailures
from barnabas_logstore.core.maintenance.alter_replica_log_dirs import AlterReplicaLogDirs
from barnabas_logstore.core.maintenance.checkpoints import Checkpoints
from barnabas_logstore.core.maintenance.cleaning import Cleaning
from barnabas_logstore.core.maintenance.directories import Directories
from barnabas_logstore.core.maintenance.expired_segments import ExpiredSegments
from barnabas_logstore.core.maintenance.full_disks import FullDisks
from barnabas_logstore.core.maintenance.housekeeping import FLUSH_CHECK_MS, Housekeeping
from barnabas_logstore.core.maintenance.log_flusher import LogFlusher
from barnabas_logstore.core.maintenance.producer_expiry import ProducerExpiry
from barnabas_logstore.core.maintenance.retention import Retention
from barnabas_logstore.core.observability.measures import Measures
from barnabas_logstore.core.replica.broker_settings import BrokerSettings
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.replica.throttles import Throttles
from barnabas_logstore.core.replication.follower_cuts import FollowerCuts
from barnabas_logstore.core.replication.replication import Replication
from barnabas_logstore.core.stopping import Stopping
from barnabas_logstore.core.storage.compaction.orders import CleanerReport
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory, OpenedPartition
from barnabas_logstore.core.storage.effect_execution import EffectResult
from barnabas_logstore.core.storage.effects import StorageEffect
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.streams.outbox import CompletionFault, Outbox, Outputs
from barnabas_logstore.core.streams.request_times import RequestTimes
from barnabas_logstore.core.streams.stream_handshake import StreamHandshake
from barnabas_logstore.core.streams.watch_inbox import WatchInbox
from barnabas_logstore.core.streams.watches import Watches
from barnabas_logstore.core.ticks import Ticks

TICK_MS = FLUSH_CHECK_MS


class LogstoreCore:
    def __init__(
        self,
        config: LogstoreConfig,
        directories: Sequence[LogDirectory],
        loaded: Sequence[OpenedPartition],
        codecs: Codecs,
        make_member_id: MakeMemberId,
        read_us: Callable[[], int],
        levels: LoggerLevels,
    ) -> None:
        """`loaded` is what `LogDirectory.load` found in all of `directories`, without what was set aside;
        `make_member_id` returns unique ids for members of groups, with the given prefix. `read_us` is monotonic, and
        decides nothing: requests are timed by it. `levels` are those of the host's loggers.
        """
        self._config = config
        self._credits = CreditPool(config.queued_requests_max, config.queued_request_bytes_max)
        self._outbox = Outbox(self._credits, RequestTimes(read_us))
        self._replicas = Replicas(config.node_id, config.cluster_id, config.metered_topics_max)
        # Read only: the cluster as the controller has described it.
        self.image, self.contained = self._replicas.image, self._replicas.contained
        self._settings = BrokerSettings(
            config.settings, config.topic_defaults, self._replicas, config.cleaner_backoff_ms
        )
        self._directories = Directories(directories, self._replicas)
        self._full_disks = FullDisks(self._replicas, self._directories, self._outbox)
        self._watches = Watches(self._replicas, self._outbox)
        self._checkpoints = Checkpoints(
            self._directories,
            self._full_disks,
            self._outbox,
            recovery_point_interval_ms=config.recovery_point_checkpoint_interval_ms,
            log_start_interval_ms=config.log_start_checkpoint_interval_ms,
            replaced=self._checkpoint_replaced,
        )
        self._flusher = LogFlusher(
            self._replicas, self._directories, self._checkpoints, self._full_disks, self._outbox, self
        )
        self._throttles = Throttles(
            config.node_id, config.replication.quota_windows, config.replication.log_dirs_quota_windows
        )
        self._throttles.follow(self._settings.values())
        cuts = FollowerCuts(self._replicas, self._checkpoints, self._full_disks, self._outbox, self._before_cut)
        self._replication = Replication(
            self._replicas,
            self._throttles,
            self._checkpoints,
            cuts,
            self._watches,
            self._outbox,
            config.replication,
            self,
        )
        self._retention = Retention(
            self._replicas,
            self._checkpoints,
            self._full_disks,
            self._flusher,
            ExpiredSegments(self._replicas, self._outbox, codecs.decompress),
            self._outbox,
            config.retention_check_interval_ms,
            self._replication.log_start_moved,
        )
        self._cleaning = Cleaning(
            self._replicas,
            self._checkpoints,
            self._retention,
            self._outbox,
            self._settings,
            is_enabled=config.cleaner_is_enabled,
        )
        self._housekeeping = Housekeeping(
            self._replicas, self._directories, self._checkpoints, self._retention, self._flusher, self._outbox
        )
        self._uncommitted = UncommittedResults(self._outbox, self._watches, config.commit_hold_ms)
        self._appends = Appends(
            self._replicas,
            self._housekeeping,
            self._outbox,
            codecs,
            self._full_disks,
            self._uncommitted,
            self._watches,
            self._replication.wrote,
        )
        self._reads = Reads(self._replicas, self._outbox, config.replica_selector, config.range_bytes_min)
        self._queries = Queries(self._replicas, self._outbox, codecs.decompress)
        handshake = StreamHandshake(self._replicas, self._outbox)
        self._data_inbox = DataInbox(
            StepLimits(config.step_requests_max, config.step_bytes_max),
            handshake,
            self._credits,
            self._outbox,
            self._appends,
            self._reads,
            self._queries,
        )
        # Calls to coordinators have credit of their own.
        call_credits = CreditPool(config.queued_requests_max, config.queued_request_bytes_max)
        inbox = CoordinateInbox(handshake, call_credits, self._outbox.times)
        self.transactions = TransactionCoordination(config.transactions, codecs.decompress, self._replicas, inbox)
        self._coordination = Coordination(
            self._replicas,
            inbox,
            GroupKind(config.groups, make_member_id),
            self.transactions,
            self._appends,
            self._watches,
            self._outbox,
            codecs.decompress,
        )
        self._watch_inbox = WatchInbox(handshake, self._outbox, self._watches, self._coordination.group_watches)
        commands = ControlCommands(
            self._replicas,
            self._settings,
            self._directories,
            self._checkpoints,
            self._watches,
            self._replication,
            self._fail_pending,
            self._coordination.topics_deleted,
        )
        self._control = ControlInbox(self._replicas, commands, self._outbox)
        self._producer_expiry = ProducerExpiry(
            self._replicas, config.producer_id_expiration_ms, config.producer_id_expiration_check_interval_ms
        )
        self._moves = AlterReplicaLogDirs(
            self._replicas,
            self._directories,
            self._checkpoints,
            self.has_writes,
            self._flusher,
            self._outbox,
            self._throttles.log_dirs,
        )
        self._administration = Administration(
            self._replicas, self._directories, self._settings, self._retention, self._moves, self._outbox, levels
        )
        self._failures = EffectFailures(
            self._replicas,
            self._directories,
            self._full_disks,
            self._replication,
            self._watches,
            self._outbox,
            self._checkpoints,
            self._fail_pending,
        )
        disks = (self._appends, self._housekeeping, self._cleaning, self._moves)
        resting = (*disks, self._replication, self._administration, self._producer_expiry)
        self.ticks = Ticks(resting, self._replication.leading)
        counting = (self._replication, self._coordination, self._cleaning, self._outbox.times, self.contained)
        self.measures = Measures(
            self._replicas, self._directories, self._coordination, self._cleaning, counting, config.transactions
        )
        served = (self._administration, self._data_inbox, self._coordination, self._replication, self._uncommitted)
        self.stopping = Stopping(
            (*served, self._cleaning, self._moves),
            [self._data_inbox, self._coordination, self._administration, self._control, self._cleaning, self._moves],
            self._directories,
            self._flusher,
            self._replicas,
        )
        self._effect_outputs = Outputs()
        self._now_ms, self._wall_ms, self._may_replicate_on = 0, 0, False
        """Whether what is carried out in this turn may still lead to messages between replicas."""
        self._found_at_start(loaded)

    def _found_at_start(self, loaded: Sequence[OpenedPartition]) -> None:
        for opened in loaded:
            assert opened.topic_id is not None, "a partition without its topic id has no owner"
            topic, partition = opened.topic_partition
            replica = Partition(self._config.node_id, topic, opened.topic_id, partition, opened.opened.log)
            replica.high_watermark = max(opened.high_watermark, replica.high_watermark)
            self._replicas.add(replica)
            self._housekeeping.found_at_start(replica.log)
        self._moves.resume()

    # --- the turn ----------------------------------------------------------------------------------------------------

    def step(self, now_ms: int, wall_ms: int) -> None:
        """Process a bounded piece of the control commands that have arrived, then one of the data requests."""
        self._now_ms = now_ms
        self._wall_ms = wall_ms
        self._may_replicate_on = True
        self._replication.begin_turn(now_ms, wall_ms)
        self._control.step(now_ms)
        self._failures.act()
        self._administration.step(now_ms)
        self._coordination.step(now_ms, wall_ms)
        self._data_inbox.step(wall_ms)
        self._replication.step()
        self._uncommitted.expire(now_ms)
        self._failures.act()

    @property
    def partitions(self) -> list[Partition]:
        """The partitions hosted here, led or not; read only."""
        return list(self._replicas.by_key.values())

    @property
    def watched_partitions(self) -> int:
        return self._watches.watched_partitions

    @property
    def has_work(self) -> bool:
        """Whether requests wait that the last step did not process, or something to be said for the next outputs."""
        has_data = len(self._data_inbox) > 0 or self._replication.has_work
        has_calls = self._coordination.has_work
        has_more = self._watches.has_work or self._outbox.has_more
        return has_data or has_calls or has_more or self._control.has_work or self._administration.has_work

    def next_deadline_ms(self) -> int | None:
        """Return when a step has something to do that must not wait for the next tick."""
        deadline_ms, hold_ms = self._coordination.next_deadline_ms, self._uncommitted.next_deadline_ms()
        return hold_ms if deadline_ms is None or (hold_ms is not None and hold_ms < deadline_ms) else deadline_ms

    def take_outputs(self) -> Outputs:
        """Return the effects that are due, and nothing else; or, when there are none, everything to be said.

        What is said waits for the effects that the host carries out at once: an append that is written in place is
        answered in the message of the same turn.
        """
        self._coordination.settle()
        self._moves.continue_moves()
        self._appends.begin_writes()
        self._full_disks.take_back()
        if self.contained.failures:
            self._failures.act()
        effects = self._outbox.drain_effects()
        if not effects and self._may_replicate_on and self._replication.has_work:
            # Once: what is written by now is fetched, or sent to those who wait for it, in this turn. Its reads follow.
            self._may_replicate_on = False
            self._replication.step()
            effects = self._outbox.drain_effects()
        if effects:
            self.stopping.effects_in_flight += len(effects)
            self._effect_outputs.effects = effects
            return self._effect_outputs
        self._uncommitted.settle(self._now_ms)
        self._watches.publish()
        self._coordination.publish()
        outputs = self._outbox.drain_messages()
        outputs.replication = self._replication.drain_outputs()
        outputs.coordinations = self._coordination.take_responses()
        outputs.transactions = self.transactions.take_outputs()
        outputs.coordination_problems = self._coordination.take_problems()
        outputs.traced = self._outbox.times.take_traced()
        outputs.contained = self.contained.take_reports()
        return outputs

    # --- what arrives ------------------------------------------------------------------------------------------------

    def on_exchange(self, stream_id: int, request: ExchangeRequest) -> None:
        """A message of a processor on the Exchange stream."""
        self._data_inbox.on_exchange(stream_id, request)

    def on_read(self, stream_id: int, request: ReadRequest) -> None:
        """A message of a processor on the Read stream."""
        self._data_inbox.on_read(stream_id, request)

    def on_coordinate(self, stream_id: int, request: CoordinateRequest) -> None:
        """A message of a processor on the Coordinate stream."""
        self._coordination.on_coordinate(stream_id, request)

    def on_watch(self, stream_id: int, request: WatchRequest) -> None:
        """A message of a purgatory pod on the Watch stream."""
        self._watch_inbox.on_watch(stream_id, request)

    def on_replicate(self, stream_id: int, request: ReplicateRequest) -> None:
        """A message of a follower on its Replicate stream."""
        self._replication.on_request(stream_id, request)

    def on_leader_response(self, leader_id: int, response: ReplicateResponse) -> None:
        """A message of a leader on the stream that `Outputs.replication.links` has asked for; its welcome first."""
        self._replication.on_response(leader_id, response)
        self._failures.act()

    def on_leader_lost(self, leader_id: int) -> None:
        """That stream is lost. It is opened again without being requested again."""
        self._replication.following.disconnected(leader_id)

    def on_alter_partition(self, response: AlterPartitionResponse | None) -> None:
        """The controller's answer to `Outputs.replication.alter_partition`; None: there will be none."""
        self._replication.on_alter_partition(response)

    def on_control(self, session_id: int, request: ControlRequest) -> None:
        """A command of the controller; it is carried out at the beginning of the next step."""
        self._control.enqueue(session_id, request)

    def on_registered(self, broker_epoch: int) -> None:
        """This logstore is registered under a new epoch: commands meant for an older one are refused."""
        self._replicas.broker_epoch = broker_epoch

    def on_stream_closed(self, stream_id: int) -> None:
        """A stream is closed. Its requests that have not begun are dropped; what is appended stays appended."""
        self._data_inbox.on_stream_closed(stream_id)
        self._watch_inbox.on_stream_closed(stream_id)
        self._coordination.on_stream_closed(stream_id)
        self._replication.on_stream_closed(stream_id)

    def on_administration(self, call_id: int, request: AdministrationRequest) -> bool:
        """A gateway's call; answered in `Outputs.administration`. False: it is refused, and nothing has been done."""
        return self._administration.on_call(call_id, request)

    def on_administration_cancelled(self, call_id: int) -> None:
        """The caller is gone, or was answered: no answer is sent any more."""
        self._administration.on_cancelled(call_id)

    def on_cleaner_report(self, report: CleanerReport) -> None:
        """What the cleaner says of the order that it has (`Outputs.cleaner`)."""
        self._cleaning.on_report(report)
        self._failures.act()

    def on_cleaner_gone(self) -> None:
        """The cleaner has ended, with its order if it had one. The next command is for a new one."""
        self._cleaning.on_cleaner_gone()
        self._failures.act()

    def tick(self, now_ms: int) -> None:
        """Do what is due by the clock; the wall clock time is that of the last step."""
        self._replication.begin_turn(now_ms, self._wall_ms)
        self._replication.tick()
        self._housekeeping.written(self._appends.take_written())
        self._housekeeping.tick(now_ms, self._wall_ms)
        self._producer_expiry.tick(now_ms, self._wall_ms)
        self._full_disks.tick(now_ms)
        self._moves.tick(now_ms)
        self._cleaning.tick(now_ms, self._wall_ms)
        self._administration.wake_waiting()
        self._failures.act()

    # --- disks -------------------------------------------------------------------------------------------------------

    def on_io_done(self, effect: StorageEffect, outcome: EffectResult | DiskError) -> None:
        """An effect has been carried out, with its result, or the reason why it failed."""
        self.stopping.effects_in_flight -= 1
        if self._control.waits_for_disk:
            self._control.on_io_done()
        if isinstance(outcome, DiskError):
            self._failures.on_failed(effect, outcome)
        else:
            try:
                self._outbox.effect_done(effect, outcome)
            except CompletionFault as fault:
                self._failures.on_fault(effect, fault)
            if self.contained.failures:
                self._failures.act()

    def _fail_pending(self, partition: Partition, error: ErrorCode) -> None:
        """Answer every pending request of a partition at once."""
        self._replication.leading.fail_pending(partition, error)
        self._appends.fail_pending(partition, error)
        self._cleaning.abort(partition)
        self._reads.fail_pending(partition, error)
        self._queries.fail_pending(partition, error)

    def _before_cut(self, partition: Partition) -> bool:
        self._fail_pending(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self._moves.interrupt(partition.log)

    def has_writes(self, log: PartitionLog) -> None:
        """See `ReplicationOwner`."""
        self._appends.has_writes(log)

    def log_start_followed(self, partition: Partition) -> None:
        """See `ReplicationOwner`."""
        self._retention.log_start_followed(partition)

    def follower_log_start_moved(self) -> None:
        """See `ReplicationOwner`."""
        self._administration.wake_waiting()

    def log_flushed(self, log: PartitionLog) -> None:
        """See `FlushOwner`."""
        self._retention.continue_retiring(log)

    def flush_ended(self, log: PartitionLog) -> None:
        """See `FlushOwner`."""
        self._appends.has_writes(log)

    def _checkpoint_replaced(self) -> None:
        self._replication.following.continue_cuts()

    @property
    def all_directories_offline(self) -> bool:
        return not self._directories.online

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits to be done, and nothing is in progress."""
        return self.stopping.is_idle
