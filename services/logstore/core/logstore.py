"""LogstoreCore: everything that a logstore decides, as one actor without I/O, clock or threads.

The host (the shell's loop, or the simulation) brings what has arrived, lets the core take a step, carries out the
effects, and sends what the core says. One turn of the host:

    for stream_id, message in arrived:
        core.on_exchange(stream_id, message)       # or on_read, on_watch; decoded messages of the data channel
    for session_id, command in commands:
        core.on_control(session_id, command)       # answered in Outgoing.controls, in order
    core.step(now_ms, wall_ms)                     # control first and whole, then a bounded piece of data work
    for effect in core.take_effects():             # reads, writes, flushes: carried out now or on an IO worker, ...
        core.on_io_done(effect, outcome)           # ... reported as bytes or DiskError, now or in any later turn
    outgoing = core.take_outgoing()                # one message per stream; then the streams to close
    if core.has_work: take another turn at once

Further inputs: `on_registered(broker_epoch)` after each registration, `on_stream_closed(stream_id)` when a stream of
any kind is gone, `tick(now_ms)` every TICK_MS. What the host promises:

- Streams have ids of their own, never used twice. A stream exists from its first message on.
- Effects may be carried out in any order and at any time, but each is reported exactly once, and never after the log
  directory that it belongs to was handed to anybody else. The buffers of a write stay as they are until then.
- `on_io_done` is called between steps, never from inside the core. It may lead to further effects.
- `now_ms` is monotonic, `wall_ms` the wall clock; both only ever come in as arguments.
- Nothing said (`take_outgoing`) needs anything but the effects reported before it: a message may be sent at once.

To stop cleanly: `begin_stopping`, turns until `is_idle`, the effects of `take_closing_flushes` reported, `shut_down`.
When `all_directories_offline`, stop uncleanly: nothing can be served any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from barnabas.channel.credits import CreditPool
from barnabas.channel.messages import (
    Append,
    ExchangeRequest,
    Hello,
    OffsetQuery,
    ReadRequest,
    StateQuery,
    WatchRequest,
    Welcome,
)
from barnabas.cluster.messages import ControlRequest
from barnabas.ports.disk import DiskError, DiskErrorKind
from barnabas.wire.errors import ErrorCode
from services.logstore.core.appends import Appends
from services.logstore.core.checkpoints import Checkpoints
from services.logstore.core.control import Control
from services.logstore.core.directories import Directories
from services.logstore.core.housekeeping import FLUSH_CHECK_MS, Housekeeping
from services.logstore.core.outbox import Outbox, Outgoing
from services.logstore.core.partition import Partition
from services.logstore.core.queries import Queries
from services.logstore.core.reads import Reads
from services.logstore.core.replicas import Replicas
from services.logstore.core.storage.batch_search import Decompress
from services.logstore.core.storage.effects import (
    DeleteDirectoryEffect,
    FindRecordEffect,
    FlushEffect,
    ReadEffect,
    ReplaceEffect,
    StorageEffect,
    WriteEffect,
)
from services.logstore.core.storage.log_directory import LogDirectory, OpenedPartition
from services.logstore.core.streams import ExchangeStream, PendingRead, ReadStream, Stream, WatchStream
from services.logstore.core.watches import Watches

TICK_MS = FLUSH_CHECK_MS


@dataclass(slots=True, frozen=True)
class LogstoreConfig:
    """`topic_defaults` are settings in topics' own names for topics that don't override them.

    A data step ends after `step_requests_max` requests (each partition of a read counts) or `step_bytes_max` bytes of
    records, whichever comes first: about 1 ms of work, which is what a control command waits at most.
    """

    node_id: int
    cluster_id: str
    queued_requests_max: int = 500
    queued_request_bytes_max: int = 64 * 1024 * 1024
    step_requests_max: int = 64
    step_bytes_max: int = 4 * 1024 * 1024
    topic_defaults: Mapping[str, str] = field(default_factory=dict)


class LogstoreCore:
    def __init__(
        self,
        config: LogstoreConfig,
        directories: Sequence[LogDirectory],
        loaded: Sequence[OpenedPartition],
        decompress: Decompress,
    ) -> None:
        """`loaded` is what `LogDirectory.load` found in all of `directories`, less what was set aside."""
        self._config = config
        self._credits = CreditPool(config.queued_requests_max, config.queued_request_bytes_max)
        self._outbox = Outbox(self._credits)
        self._replicas = Replicas(config.node_id, config.cluster_id)
        self._directories = Directories(directories, config.topic_defaults, self._replicas)
        self._watches = Watches(self._replicas, self._outbox)
        self._checkpoints = Checkpoints(self._directories, self._outbox)
        self._housekeeping = Housekeeping(self._replicas, self._directories, self._checkpoints, self._outbox)
        self._appends = Appends(self._replicas, self._watches, self._housekeeping, self._outbox)
        self._reads = Reads(self._replicas, self._outbox)
        self._queries = Queries(self._replicas, self._outbox, decompress)
        self._control = Control(
            self._replicas, self._directories, self._checkpoints, self._watches, self._outbox, self._fail_pending
        )
        self._data_inbox: deque[tuple[ExchangeStream, Append | OffsetQuery | StateQuery] | PendingRead] = deque()
        self._streams: dict[int, Stream] = {}
        self._effects_in_flight = 0
        self._is_stopping = False
        for opened in loaded:
            assert opened.topic_id is not None, "a partition without its topic id belongs to nobody"
            topic, partition = opened.topic_partition
            replica = Partition(config.node_id, topic, opened.topic_id, partition, opened.opened.log)
            replica.high_watermark = max(opened.high_watermark, replica.high_watermark)
            self._replicas.add(replica)

    # --- the turn ----------------------------------------------------------------------------------------------------

    def step(self, now_ms: int, wall_ms: int) -> None:
        """All control commands that have come, then a bounded piece of the data work that has."""
        self._control.step(now_ms)
        self._act_on_disk_failures()
        self._data_step(wall_ms)
        self._act_on_disk_failures()

    def _data_step(self, wall_ms: int) -> None:
        requests_left, bytes_left = self._config.step_requests_max, self._config.step_bytes_max
        inbox = self._data_inbox
        while inbox and requests_left > 0 and bytes_left > 0:
            waiting = inbox.popleft()
            if isinstance(waiting, PendingRead):
                requests_left -= max(1, self._reads.plan(waiting, requests_left))
                if not waiting.is_planned:
                    inbox.appendleft(waiting)
                continue
            stream, request = waiting
            requests_left -= 1
            if stream.closed:
                continue
            match request:
                case Append():
                    bytes_left -= len(request.records)
                    self._appends.append(stream, request, wall_ms)
                case OffsetQuery():
                    self._queries.query_offset(stream, request)
                case StateQuery():
                    self._queries.query_state(stream, request)
                case _:
                    assert_never(request)

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
        return bool(self._data_inbox) or self._control.has_work

    def take_effects(self) -> list[StorageEffect]:
        """What the disks have to do. Call again after `on_io_done`: one effect may lead to another."""
        self._appends.take_writes()
        effects = self._outbox.take_effects()
        self._effects_in_flight += len(effects)
        return effects

    def take_outgoing(self) -> Outgoing:
        """Everything to be said by now, one message per stream (bulk reads: one per MiB)."""
        self._watches.publish()
        return self._outbox.take_outgoing()

    # --- what arrives ------------------------------------------------------------------------------------------------

    def on_exchange(self, stream_id: int, request: ExchangeRequest) -> None:
        """A message of a processor on the Exchange stream."""
        stream = self._streams.get(stream_id)
        if stream is None:
            stream = self._streams[stream_id] = ExchangeStream(stream_id)
        assert isinstance(stream, ExchangeStream)
        if stream.closed:
            return
        if request.hello is not None:
            welcome = self._greet(stream, request.hello)
            if welcome is None:
                return
            response = self._outbox.exchange_response(stream)
            response.welcome, response.credit = welcome, self._credits.open_stream(stream_id)
        appends = request.appends
        request_count = len(appends) + len(request.offset_queries) + len(request.state_queries)
        if not request_count:
            return
        byte_count = sum([len(append.records) for append in appends])
        if not self._admit(stream, request_count, byte_count):
            return
        if self._is_stopping:
            self._appends.refuse_all(stream, appends)
        else:
            self._data_inbox.extend([(stream, append) for append in appends])
        self._data_inbox.extend([(stream, query) for query in request.offset_queries])
        self._data_inbox.extend([(stream, query) for query in request.state_queries])

    def on_read(self, stream_id: int, request: ReadRequest) -> None:
        """A message of a processor on the Read stream."""
        stream = self._streams.get(stream_id)
        if stream is None:
            stream = self._streams[stream_id] = ReadStream(stream_id)
        assert isinstance(stream, ReadStream)
        if stream.closed:
            return
        if request.hello is not None:
            welcome = self._greet(stream, request.hello)
            if welcome is None:
                return
            response = self._outbox.read_response(stream)
            response.welcome, response.credit = welcome, self._credits.open_stream(stream_id)
        for request_id in request.cancels:
            self._reads.cancel(stream, request_id)
        if request.reads and self._admit(stream, len(request.reads), 0):
            self._data_inbox.extend([self._reads.accept(stream, read) for read in request.reads])

    def on_watch(self, stream_id: int, request: WatchRequest) -> None:
        """A message of a purgatory pod on the Watch stream."""
        stream = self._streams.get(stream_id)
        if stream is None:
            stream = self._streams[stream_id] = WatchStream(stream_id)
        assert isinstance(stream, WatchStream)
        if stream.closed:
            return
        if request.hello is not None:
            welcome = self._greet(stream, request.hello)
            if welcome is None:
                return
            self._outbox.watch_response(stream).welcome = welcome
        if not stream.greeted:
            self._close(stream, "the first message is no hello")
            return
        for watched in request.unwatches:
            self._watches.unwatch(stream, watched)
        for watched in request.watches:
            self._watches.watch(stream, watched)

    def on_control(self, session_id: int, request: ControlRequest) -> None:
        """A command of the controller; it is carried out at the begin of the next step."""
        self._control.put(session_id, request)

    def on_registered(self, broker_epoch: int) -> None:
        """This logstore is known to the cluster under a new epoch: commands meant for an older one are refused."""
        self._replicas.broker_epoch = broker_epoch

    def on_stream_closed(self, stream_id: int) -> None:
        """A stream is gone. What it asked for and is not begun is dropped; what is appended stays appended."""
        stream = self._streams.pop(stream_id, None)
        if stream is None:
            return
        stream.closed = True
        self._credits.close_stream(stream_id)
        match stream:
            case ReadStream():
                self._reads.close(stream)
            case WatchStream():
                self._watches.close(stream)
            case ExchangeStream():
                pass
            case _:
                assert_never(stream)

    def tick(self, now_ms: int) -> None:
        """Do what is due by the clock."""
        self._housekeeping.tick(now_ms)
        self._act_on_disk_failures()

    # --- the conversation of a stream --------------------------------------------------------------------------------

    def _greet(self, stream: Stream, hello: Hello) -> Welcome | None:
        if stream.greeted:
            self._close(stream, "a second hello")
            return None
        if hello.cluster_id not in ("", self._config.cluster_id):
            self._close(stream, f"cluster {hello.cluster_id} is not this one, {self._config.cluster_id}")
            return None
        stream.greeted = True
        return Welcome(self._config.node_id, self._replicas.broker_epoch)

    def _admit(self, stream: Stream, request_count: int, byte_count: int) -> bool:
        """Requests need a hello before and credit for them; who breaks that is broken, and loses the stream."""
        if not stream.greeted:
            self._close(stream, "the first message is no hello")
            return False
        if not self._credits.received(stream.stream_id, request_count, byte_count):
            self._close(stream, "more requests than there was credit for")
            return False
        return True

    def _close(self, stream: Stream, reason: str) -> None:
        """Have the host end a stream; it reports the end by `on_stream_closed` like any other."""
        stream.closed = True
        self._outbox.close(stream.stream_id, reason)

    # --- disks -------------------------------------------------------------------------------------------------------

    def on_io_done(self, effect: StorageEffect, outcome: bytes | DiskError) -> None:
        """An effect has been carried out: the bytes of a read (nothing of the others), or why it failed."""
        self._effects_in_flight -= 1
        self._control.on_io_done()
        if isinstance(outcome, DiskError):
            self._on_io_failed(effect, outcome)
            self._act_on_disk_failures()
            return
        match effect:
            case WriteEffect():
                self._appends.on_written(effect)
            case ReadEffect():
                if not self._reads.on_bytes(effect, outcome):
                    self._queries.on_done(effect, outcome)
                self._act_on_disk_failures()
            case FindRecordEffect():
                self._queries.on_done(effect, outcome)
                self._act_on_disk_failures()
            case FlushEffect():
                self._housekeeping.on_flushed(effect)
            case ReplaceEffect():
                self._checkpoints.on_replaced(effect)
            case DeleteDirectoryEffect():
                pass
            case _:
                assert_never(effect)

    def _on_io_failed(self, effect: StorageEffect, error: DiskError) -> None:
        match effect:
            case WriteEffect() | ReadEffect() | FlushEffect():
                is_hosted = effect.log in self._replicas.by_log
                if not is_hosted:
                    effect.log.fail(error)
                # Files of a log that was taken away meanwhile are no longer where the effect looked for them.
                if is_hosted or error.kind is not DiskErrorKind.NOT_FOUND:
                    self._replicas.disk_failed(effect.log, error)
            case FindRecordEffect():
                raise AssertionError("a batch that has been read is opened without the disk")
            case ReplaceEffect():
                self._checkpoints.on_replaced(effect)
                self._replicas.disk_failures.append((effect.replacement.path.rpartition("/")[0], error))
            case DeleteDirectoryEffect():
                self._replicas.disk_failures.append((effect.path.rpartition("/")[0], error))
            case _:
                assert_never(effect)

    def _act_on_disk_failures(self) -> None:
        """Take directories offline in which something failed, and with them every partition that they hold."""
        failures = self._replicas.disk_failures
        while failures:
            path, error = failures.pop(0)
            logs = self._directories.go_offline(path, error)
            if logs is None:
                continue
            self._outbox.report_offline(path, error)
            for log in logs:
                partition = self._replicas.by_log.get(log)
                if partition is not None:
                    partition.fail()
                    self._fail_pending(partition, ErrorCode.KAFKA_STORAGE_ERROR)
                    self._watches.changed(partition)

    def _fail_pending(self, partition: Partition, error: ErrorCode) -> None:
        """Answer everything unanswered of a partition at once."""
        self._appends.fail_pending(partition, error)
        self._reads.fail_pending(partition, error)
        self._queries.fail_pending(partition, error)

    @property
    def all_directories_offline(self) -> bool:
        return not self._directories.online

    # --- stopping ----------------------------------------------------------------------------------------------------

    def begin_stopping(self) -> None:
        """Refuse appends that come from now on (they are certainly not written); finish everything else."""
        self._is_stopping = True

    @property
    def is_idle(self) -> bool:
        """Nothing waits to be done, and nothing is under way."""
        return not self._data_inbox and self._control.is_idle and not self._effects_in_flight

    def take_closing_flushes(self) -> list[StorageEffect]:
        """The last effects of a clean stop, while idle: everything that is not durable yet."""
        assert self._is_stopping
        assert self.is_idle
        effects = self._directories.closing_flushes()
        self._effects_in_flight += len(effects)
        return effects

    def shut_down(self) -> list[str]:
        """The last checkpoints and the clean-shutdown markers, by direct calls of the disks.

        Returns the directories that had to stay without a marker: they are recovered at the next start.
        """
        assert self._is_stopping
        assert self.is_idle
        return self._directories.shut_down(self._replicas.broker_epoch)
