"""LogstoreCore: everything that a logstore decides, as one actor without I/O, clock or threads.

The host (the shell's loop, or the simulation) brings what has arrived, lets the core take a step, carries out the
effects, and sends what the core says. One turn of the host:

    for stream_id, message in arrived:
        core.on_exchange(stream_id, message)       # or on_read, on_coordinate, on_watch; decoded messages of streams
    for session_id, command in commands:
        core.on_control(session_id, command)       # answered in Outgoing.controls, in order
    for stream_id, message in fetched:
        core.on_replicate(stream_id, message)      # of followers; answered in Outgoing.replication.responses
    for leader_id, message in answered:
        core.on_leader_response(leader_id, message)  # on the streams that Outgoing.replication.links asks for
    for call_id, request in calls:
        core.on_administration(call_id, request)   # answered in Outgoing.administration, in any order; False: refused
    core.step(now_ms, wall_ms)                     # bounded pieces: control first, then groups and data
    for effect in core.take_effects():             # reads, writes, flushes: carried out now or on an IO worker, ...
        core.on_io_done(effect, outcome)           # ... reported as its result or a DiskError, now or later
    outgoing = core.take_outgoing()                # one message per stream; then the streams to close
    if core.has_work: take another turn at once

The cleaner, a process of its own (`storage.compaction.cleaner`), gets the commands in Outgoing.cleaner; what it answers
comes back by `on_cleaner_report`, its end by `on_cleaner_gone`. A request to the controller
(`Outgoing.replication.alter_partition`) is answered by `on_alter_partition`; there is one at a time.

Further inputs: `on_registered(broker_epoch)` after each registration, `on_stream_closed(stream_id)` when a stream of
any kind is gone, `tick(now_ms)` every TICK_MS. What the host promises:

- Streams have ids of their own, never used twice. A stream exists from its first message on.
- Effects may be carried out in any order and at any time, but each is reported exactly once, and never after the log
  directory that it belongs to was handed to anybody else. The buffers of a write stay as they are until then.
- `on_io_done` is called between steps, never from inside the core. It may lead to further effects.
- `now_ms` is monotonic, `wall_ms` the wall clock; both only ever come in as arguments.
- Nothing said (`take_outgoing`) needs anything but the effects reported before it: a message may be sent at once.

To stop cleanly: `stopping.begin()`, turns until `is_idle`, the effects of `stopping.take_closing_flushes()` reported,
`stopping.shut_down()`.
When `all_directories_offline`, stop uncleanly: nothing can be served any more.
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
from barnabas_logstore.core.administration.dispatch import Administration
from barnabas_logstore.core.config import LogstoreConfig as LogstoreConfig
from barnabas_logstore.core.control.control import Control
from barnabas_logstore.core.coordinator.coordination import Coordination
from barnabas_logstore.core.coordinator.groups.joining import MakeMemberId
from barnabas_logstore.core.data.appends import Appends
from barnabas_logstore.core.data.data_inbox import DataInbox, StepLimits
from barnabas_logstore.core.data.queries import Queries
from barnabas_logstore.core.data.reads import Reads
from barnabas_logstore.core.effect_completions import EffectCompletions
from barnabas_logstore.core.maintenance.alter_replica_log_dirs import AlterReplicaLogDirs
from barnabas_logstore.core.maintenance.checkpoints import Checkpoints
from barnabas_logstore.core.maintenance.cleaning import Cleaning
from barnabas_logstore.core.maintenance.directories import Directories
from barnabas_logstore.core.maintenance.full_disks import FullDisks
from barnabas_logstore.core.maintenance.housekeeping import FLUSH_CHECK_MS, Housekeeping
from barnabas_logstore.core.maintenance.log_flusher import LogFlusher
from barnabas_logstore.core.maintenance.producer_expiry import ProducerExpiry
from barnabas_logstore.core.maintenance.retention import Retention
from barnabas_logstore.core.observability.measures import Measures
from barnabas_logstore.core.replica.broker_settings import BrokerSettings
from barnabas_logstore.core.replica.partition import Partition, PartitionKey
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.replication.replication import Replication
from barnabas_logstore.core.stopping import Stopping
from barnabas_logstore.core.storage.compaction.orders import CleanerReport
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory, OpenedPartition
from barnabas_logstore.core.storage.effect_execution import EffectResult
from barnabas_logstore.core.storage.effects import StorageEffect
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.streams.outbox import Outbox, Outgoing
from barnabas_logstore.core.streams.request_times import RequestTimes
from barnabas_logstore.core.streams.stream_handshake import StreamHandshake
from barnabas_logstore.core.streams.watches import Watches

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
    ) -> None:
        """`loaded` is what `LogDirectory.load` found in all of `directories`, less what was set aside;
        `make_member_id` gives ids to members of groups, never given before, that begin with what it is given.
        `read_us` is monotonic, and decides nothing: requests are timed by it.
        """
        self._config = config
        self._credits = CreditPool(config.queued_requests_max, config.queued_request_bytes_max)
        self._outbox = Outbox(self._credits, RequestTimes(read_us))
        self._replicas = Replicas(config.node_id, config.cluster_id, config.metered_topics_max)
        self.image = self._replicas.image  # to be read only: the cluster as the controller has told it
        self._settings = BrokerSettings(config.settings, config.topic_defaults, self._replicas)
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
        self._retention = Retention(
            self._replicas,
            self._checkpoints,
            self._full_disks,
            self._flusher,
            self._watches,
            self._outbox,
            config.retention_check_interval_ms,
            self._log_start_moved,
        )
        self._replication = Replication(
            self._replicas,
            self._settings,
            self._directories,
            self._checkpoints,
            self._full_disks,
            self._retention,
            self._watches,
            self._outbox,
            config.replication,
            before_cut=self._before_cut,
            has_writes=self._has_writes,
            log_start_told=self._follower_log_start_told,
        )
        self._cleaning = Cleaning(
            self._replicas,
            self._checkpoints,
            self._retention,
            self._outbox,
            is_enabled=config.cleaner_is_enabled,
            backoff_ms=config.cleaner_backoff_ms,
        )
        self._housekeeping = Housekeeping(
            self._replicas, self._directories, self._checkpoints, self._retention, self._flusher, self._outbox
        )
        self._appends = Appends(
            self._replicas,
            self._housekeeping,
            self._outbox,
            codecs,
            self._full_disks,
            self._watches,
            self._replication.wrote,
        )
        self._reads = Reads(self._replicas, self._outbox, config.replica_selector)
        self._queries = Queries(self._replicas, self._outbox, codecs.decompress)
        conversations = StreamHandshake(self._replicas, self._outbox)
        self._coordination = Coordination(
            self._replicas,
            conversations,
            CreditPool(config.queued_requests_max, config.queued_request_bytes_max),
            self._appends,
            self._watches,
            self._outbox,
            config.groups,
            codecs.decompress,
            make_member_id,
        )
        self._control = Control(
            self._replicas,
            self._settings,
            self._directories,
            self._checkpoints,
            self._watches,
            self._replication,
            self._outbox,
            self._fail_pending,
            self._coordination.topics_deleted,
        )
        self._data_inbox = DataInbox(
            StepLimits(config.step_requests_max, config.step_bytes_max),
            conversations,
            self._credits,
            self._outbox,
            self._appends,
            self._reads,
            self._queries,
            self._watches,
            self._coordination.group_watches,
        )
        self._producer_expiry = ProducerExpiry(
            self._replicas, config.producer_id_expiration_ms, config.producer_id_expiration_check_interval_ms
        )
        self._moves = AlterReplicaLogDirs(
            self._replicas,
            self._directories,
            self._checkpoints,
            self._has_writes,
            self._flusher,
            self._outbox,
            self._replication.throttles.log_dirs,
        )
        self._administration = Administration(
            self._replicas, self._directories, self._settings, self._retention, self._moves, self._outbox
        )
        self._completions = EffectCompletions(
            self._replicas,
            self._directories,
            self._full_disks,
            self._replication,
            self._watches,
            self._outbox,
            self._fail_pending,
        )
        rooms = (self._replication, self._coordination, self._cleaning, self._outbox.times)
        self.measures = Measures(self._replicas, self._directories, self._coordination, rooms)
        self.stopping = Stopping(
            self._control,
            self._data_inbox,
            self._coordination,
            self._replication,
            self._cleaning,
            self._moves,
            self._administration,
            self._directories,
            self._flusher,
            self._replicas,
        )
        self._wall_ms = 0
        self._found_at_start(loaded)

    def _found_at_start(self, loaded: Sequence[OpenedPartition]) -> None:
        for opened in loaded:
            assert opened.topic_id is not None, "a partition without its topic id belongs to nobody"
            topic, partition = opened.topic_partition
            replica = Partition(self._config.node_id, topic, opened.topic_id, partition, opened.opened.log)
            replica.high_watermark = max(opened.high_watermark, replica.high_watermark)
            self._replicas.add(replica)
            self._housekeeping.found_at_start(replica.log)
        self._moves.resume()

    # --- the turn ----------------------------------------------------------------------------------------------------

    def step(self, now_ms: int, wall_ms: int) -> None:
        """A bounded piece of the control commands that have come, then one of the data work that has."""
        self._wall_ms = wall_ms
        self._replication.begin_turn(now_ms, wall_ms)
        self._control.step(now_ms)
        self._completions.act_on_failures()
        self._administration.step(now_ms)
        self._coordination.step(now_ms, wall_ms)
        self._data_inbox.step(wall_ms)
        self._replication.step()
        self._completions.act_on_failures()

    @property
    def partitions(self) -> list[Partition]:
        """What is hosted here, led or not; to look at."""
        return list(self._replicas.by_key.values())

    @property
    def watched_partitions(self) -> int:
        return self._watches.watched_partitions

    @property
    def has_work(self) -> bool:
        """Requests wait that the last step did not get to."""
        has_data = len(self._data_inbox) > 0 or self._replication.has_work
        has_calls = self._coordination.has_work
        return has_data or has_calls or self._control.has_work or self._administration.has_work

    @property
    def next_deadline_ms(self) -> int | None:
        """When a step has something to do that must not wait for the next tick."""
        return self._coordination.next_deadline_ms

    def take_effects(self) -> list[StorageEffect]:
        """What the disks have to do. Call again after `on_io_done`: one effect may lead to another."""
        self._coordination.settle()
        self._moves.go_on()
        self._appends.take_writes()
        self._full_disks.take_back()
        effects = self._outbox.take_effects()
        self.stopping.effects_in_flight += len(effects)
        return effects

    def take_outgoing(self) -> Outgoing:
        """Everything to be said by now, one message per stream (bulk reads: one per MiB)."""
        self._watches.publish()
        self._coordination.publish()
        outgoing = self._outbox.take_outgoing()
        outgoing.replication = self._replication.take_outgoing()
        outgoing.coordinations = self._coordination.take_responses()
        outgoing.coordination_problems = self._coordination.take_problems()
        outgoing.traced = self._outbox.times.take_traced()
        return outgoing

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
        self._data_inbox.on_watch(stream_id, request)

    def on_replicate(self, stream_id: int, request: ReplicateRequest) -> None:
        """A message of a follower on its Replicate stream."""
        self._replication.on_request(stream_id, request)

    def on_leader_response(self, leader_id: int, response: ReplicateResponse) -> None:
        """A message of a leader on the stream that `Outgoing.replication.links` has asked for; its welcome first."""
        self._replication.on_response(leader_id, response)
        self._completions.act_on_failures()

    def on_leader_lost(self, leader_id: int) -> None:
        """That stream is gone. It is made anew without being asked for."""
        self._replication.following.disconnected(leader_id)

    def on_alter_partition(self, response: AlterPartitionResponse | None) -> None:
        """The controller's answer to `Outgoing.replication.alter_partition`; None: there will be none."""
        self._replication.on_alter_partition(response)

    def on_control(self, session_id: int, request: ControlRequest) -> None:
        """A command of the controller; it is carried out at the begin of the next step."""
        self._control.put(session_id, request)

    def on_registered(self, broker_epoch: int) -> None:
        """This logstore is known to the cluster under a new epoch: commands meant for an older one are refused."""
        self._replicas.broker_epoch = broker_epoch

    def on_stream_closed(self, stream_id: int) -> None:
        """A stream is gone. What it asked for and is not begun is dropped; what is appended stays appended."""
        self._data_inbox.on_stream_closed(stream_id)
        self._coordination.on_stream_closed(stream_id)
        self._replication.on_stream_closed(stream_id)

    def on_administration(self, call_id: int, request: AdministrationRequest) -> bool:
        """A gateway's call; answered in `Outgoing.administration`. False: it is refused, and nothing has been done."""
        return not self.stopping.is_begun and self._administration.on_call(call_id, request)

    def on_administration_cancelled(self, call_id: int) -> None:
        """The caller is gone, or was answered: no answer is sent any more."""
        self._administration.on_cancelled(call_id)

    def on_cleaner_report(self, report: CleanerReport) -> None:
        """What the cleaner says of the order that it has (`Outgoing.cleaner`)."""
        self._cleaning.on_report(report)
        self._completions.act_on_failures()

    def on_cleaner_gone(self) -> None:
        """The cleaner has ended, with its order if it had one. The next command is for another one."""
        self._cleaning.on_cleaner_gone()
        self._completions.act_on_failures()

    @property
    def uncleanable_partitions(self) -> dict[PartitionKey, str]:
        """Partitions that are not compacted any more until the next start, and why."""
        return dict(self._cleaning.uncleanable)

    def tick(self, now_ms: int) -> None:
        """Do what is due by the clock; the wall clock is the last step's."""
        self._replication.begin_turn(now_ms, self._wall_ms)
        self._replication.tick()
        self._housekeeping.tick(now_ms, self._wall_ms)
        self._producer_expiry.tick(now_ms, self._wall_ms)
        self._full_disks.tick(now_ms)
        self._moves.tick(now_ms)
        self._cleaning.tick(now_ms, self._wall_ms)
        self._administration.poke()
        self._completions.act_on_failures()

    # --- disks -------------------------------------------------------------------------------------------------------

    def on_io_done(self, effect: StorageEffect, outcome: EffectResult | DiskError) -> None:
        """An effect has been carried out, and that is its result; or why it failed."""
        self.stopping.effects_in_flight -= 1
        self._control.on_io_done()
        if isinstance(outcome, DiskError):
            self._completions.on_failed(effect, outcome)
        else:
            self._completions.on_done(effect, outcome)

    def _fail_pending(self, partition: Partition, error: ErrorCode) -> None:
        """Answer everything unanswered of a partition at once."""
        self._replication.leading.fail_pending(partition, error)
        self._appends.fail_pending(partition, error)
        self._cleaning.abort(partition)
        self._reads.fail_pending(partition, error)
        self._queries.fail_pending(partition, error)

    def _before_cut(self, partition: Partition) -> bool:
        self._fail_pending(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self._moves.interrupt(partition.log)

    def _has_writes(self, log: PartitionLog) -> None:
        self._appends.has_writes(log)

    def log_flushed(self, log: PartitionLog) -> None:
        """See `FlushOwner`."""
        self._retention.go_on(log)

    def flush_ended(self, log: PartitionLog) -> None:
        """See `FlushOwner`."""
        self._appends.has_writes(log)

    def _checkpoint_replaced(self) -> None:
        self._replication.following.go_on_cutting()

    def _follower_log_start_told(self) -> None:
        self._administration.poke()

    def _log_start_moved(self, partition: Partition) -> None:
        self._replication.log_start_moved(partition)

    @property
    def all_directories_offline(self) -> bool:
        return not self._directories.online

    @property
    def is_idle(self) -> bool:
        """Nothing waits to be done, and nothing is under way."""
        return self.stopping.is_idle
