"""Coordination as a whole: the groups of this logstore, connected with gateways, purgatory, the controller and the
logs.

It gets its own bounded piece of every turn, so that heartbeats do not starve behind appends, nor appends behind a
thousand joins. A turn without any of its work costs almost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from barnabas.channel.messages import (
    CoordinateRequest,
    CoordinateResponse,
    GroupAnswer,
    GroupCall,
    GroupCollect,
    WatchedGroup,
)
from barnabas.cluster.internal_topics import OFFSETS_TOPIC
from barnabas.containment import CONTAINING
from barnabas.metrics.family import Sample
from barnabas.metrics.group_families import (
    COORDINATED_PARTITIONS,
    GROUP_CALLS_WAITING,
    LOADING_PARTITIONS,
    OFFSET_COMMITS,
    OFFSET_EXPIRATIONS,
    REBALANCES,
)
from barnabas.ports.compression import Decompress
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.coordinator.groups.kind import GroupKind
from barnabas_logstore.core.coordinator.groups.shard import GroupShard
from barnabas_logstore.core.coordinator.markers import TransactionMarkers
from barnabas_logstore.core.coordinator.runtime.coordinator_log import Coordinator
from barnabas_logstore.core.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from barnabas_logstore.core.coordinator.runtime.inbox import OWN_STREAM_ID, CoordinateInbox
from barnabas_logstore.core.coordinator.runtime.leadership import Leadership
from barnabas_logstore.core.coordinator.runtime.led_shard import LedShard
from barnabas_logstore.core.coordinator.runtime.listings import Listings
from barnabas_logstore.core.coordinator.transaction_coordination import TransactionCoordination
from barnabas_logstore.core.coordinator.transactions.shard import TransactionShard
from barnabas_logstore.core.data.appends import Appends
from barnabas_logstore.core.replica.containment import COORDINATOR_CALL, COORDINATOR_QUERY
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.streams.group_watches import GroupWatches
from barnabas_logstore.core.streams.outbox import Outbox
from barnabas_logstore.core.streams.watches import Watches

TRANSACTION_KEYS: Final = frozenset(
    (
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
    )
)
"""For the coordinator of transactions."""
QUERY_KEYS: Final = frozenset(
    (
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS,
        ApiKey.OFFSET_FETCH,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
        ApiKey.WRITE_TXN_MARKERS,
    )
)
"""Calls that change nothing of a coordinator's state when they come."""
CALLS_PER_STEP_MAX: Final = 32
CALL_BYTES_PER_STEP_MAX: Final = 16 << 10
"""Bytes of calls per step: a call's duration grows with the elements of its body, of which an offset commit has one in
every 20 bytes, and the step ends with the call that exceeds this. Gateways bound the size of one call."""


class Coordination:
    def __init__(
        self,
        replicas: Replicas,
        inbox: CoordinateInbox,
        kind: GroupKind,
        transactions: TransactionCoordination,
        appends: Appends,
        watches: Watches,
        outbox: Outbox,
        decompress: Decompress,
    ) -> None:
        groups: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(kind, decompress)
        self.runtimes: Final[tuple[CoordinatorRuntime[Any], ...]] = (groups, transactions.runtime)
        """In the order of their steps; read only."""
        self._groups = groups
        self._group_kind = kind
        self._transactions = transactions.runtime
        self._transaction_coordination = transactions
        self._peers = transactions.peers
        self._marker_sender = transactions.sender
        coordinators: dict[str, Coordinator] = {each.kind.topic: each for each in self.runtimes}
        self._led = Leadership(replicas, appends, watches.coordinated, outbox, coordinators)
        self._markers = TransactionMarkers(replicas, appends, watches, groups)
        self._inbox = inbox
        self._contained = replicas.contained
        self.group_watches = GroupWatches(outbox, self._state_of)
        self._now_ms = 0
        self._wall_ms = 0
        self._may_write_markers = False
        """Whether markers of transactions that are decided in this turn may be appended in it, which they are once."""
        self._deadline_ms: int | None = None
        self._deleted_topics: dict[str, None] = {}

    # --- what arrives -------------------------------------------------------------------------------------------------

    def on_coordinate(self, stream_id: int, request: CoordinateRequest) -> None:
        """Process a message of a processor on its Coordinate stream."""
        self._inbox.on_coordinate(stream_id, request)

    def on_stream_closed(self, stream_id: int) -> None:
        """Drop its calls that have not begun; calls that have are completed without an answer."""
        self._inbox.on_stream_closed(stream_id)

    def topics_deleted(self, topics: Iterable[str]) -> None:
        """These topics are deleted from the cluster."""
        self._deleted_topics |= dict.fromkeys(topics)

    # --- the turn -----------------------------------------------------------------------------------------------------

    def step(self, now_ms: int, wall_ms: int) -> None:
        """Process changes of the partitions, a piece of a log, some calls, and deadlines."""
        self._now_ms, self._wall_ms = now_ms, wall_ms
        self._may_write_markers = True
        is_due = self._deadline_ms is not None and now_ms >= self._deadline_ms
        if not (is_due or self.has_work or self._led.has_changes or self._led.reads.wanted or self._deleted_topics):
            return
        groups, transactions = self._groups, self._transactions
        groups.begin_turn(now_ms, wall_ms)
        transactions.begin_turn(now_ms, wall_ms)
        self._peers.step(now_ms)
        self._led.resume(now_ms)
        self._led.follow(now_ms, wall_ms)
        if not self._have_coordinators_work:
            self._led.deliver(now_ms)
        if self._deleted_topics:
            self._delete_offsets_of(list(self._deleted_topics))
            self._deleted_topics = {}
        bytes_left = CALL_BYTES_PER_STEP_MAX
        for _ in range(CALLS_PER_STEP_MAX):
            taken = self._inbox.take_request() if bytes_left > 0 else None
            if taken is None:
                break
            if isinstance(taken[1], GroupCall):
                bytes_left -= len(taken[1].body)
            self._begin(*taken)
        self._markers.step(wall_ms)
        self._end_step()

    def _delete_offsets_of(self, topics: list[str]) -> None:
        """Also in shards that are being loaded, once that is done."""
        self._groups.begin_pieces(lambda shard: shard.expiry.delete_topics(topics), self._groups.shards)

    def _begin(self, stream_id: int, request: GroupCall | GroupCollect) -> None:
        try:
            if self._led.is_stopped:
                self._inbox.answer([(stream_id, GroupAnswer(request.request_id, ErrorCode.NOT_COORDINATOR))])
            elif not isinstance(request, GroupCall):
                self._groups.on_collect(stream_id, request)
            elif request.api_key in TRANSACTION_KEYS:
                self._transactions.on_call(stream_id, request)
            elif request.api_key == ApiKey.WRITE_TXN_MARKERS:
                self._markers.on_call(stream_id, request)
            else:
                self._groups.on_call(stream_id, request)
        except Exception as error:
            self._contain(stream_id, request, error)

    def _contain(self, stream_id: int, request: GroupCall | GroupCollect, error: Exception) -> None:
        """A call was ended by an unexpected exception. What it may have changed of its partition's state is read from
        the log again.
        """
        of_transactions = request.api_key in TRANSACTION_KEYS
        led = (self._transactions if of_transactions else self._groups).find(request.partition)
        is_query = isinstance(request, GroupCall) and request.api_key in QUERY_KEYS
        fields: dict[str, str | int] = {"stream_id": stream_id, "request_id": request.request_id}
        fields |= {"api_key": request.api_key, "api_version": request.api_version, "partition": request.partition}
        if led is None or is_query:
            self._contained.contain(COORDINATOR_QUERY, error, fields)
        else:
            with CONTAINING:
                led.state_in_doubt(COORDINATOR_CALL, error)
        self._inbox.end_call(stream_id, request.request_id)

    def _contain_listings(self, listings: Listings) -> None:
        for (stream_id, request_id), error in listings.take_faults():
            self._contained.contain(COORDINATOR_QUERY, error, {"stream_id": stream_id, "request_id": request_id})
            self._inbox.end_call(stream_id, request_id)

    def settle(self) -> None:
        """Disks have finished something in this turn: answer in the same turn what has been committed by that. Go on
        with transactions that it has decided: with their markers here, once in a turn, and with the records of their
        ends.
        """
        if self._markers.is_awaited:
            self._settle_markers()
        if not (self._led.has_changes or self._inbox.own_answers):
            return
        self._led.follow(self._now_ms, self._wall_ms)
        self._peers.step(self._now_ms)
        self._end_step()
        if self._may_write_markers:
            call = self._inbox.take_own_call()
            if call is not None:
                self._may_write_markers = False
                self._begin(OWN_STREAM_ID, call)
                self._markers.step(self._wall_ms)

    def _settle_markers(self) -> None:
        self._markers.settle()
        self._inbox.answer(self._markers.take_answers())

    def _end_step(self) -> None:
        self._groups.step(self._now_ms)
        self._marker_sender.step(self._now_ms)
        self._transactions.step(self._now_ms)
        for runtime in self.runtimes:
            if runtime.listings.faults:
                self._contain_listings(runtime.listings)
        if self._led.reads.wanted:
            self._led.reads.begin()
        next_pause_ms = self._led.next_pause_ms()
        deadlines_ms = (
            self._groups.next_deadline_ms(),
            self._transactions.next_deadline_ms(),
            self._marker_sender.retry_ms,
            self._peers.next_deadline_ms(),
            next_pause_ms,
        )
        self._deadline_ms = min([each for each in deadlines_ms if each is not None], default=None)

    @property
    def has_work(self) -> bool:
        """Whether anything is left that the last step did not process."""
        has_arrived = len(self._inbox) > 0 or len(self._led.reads.arrived) > 0 or self._markers.has_work
        return has_arrived or self._have_coordinators_work

    @property
    def _have_coordinators_work(self) -> bool:
        has_markers = self._marker_sender.has_work or self._peers.has_work
        return self._groups.has_work or has_markers or self._transactions.has_work

    @property
    def next_deadline_ms(self) -> int | None:
        """Return when `step` has something to do, unless an event comes first."""
        return self._deadline_ms

    def stop(self) -> None:
        """Other logstores are to coordinate: every call is answered NOT_COORDINATOR from now on."""
        self._led.stop(self._now_ms)

    @property
    def is_idle(self) -> bool:
        return not self.has_work

    # --- what is said -------------------------------------------------------------------------------------------------

    def publish(self) -> None:
        """Add the new states of groups to this turn's messages for purgatory."""
        self.group_watches.publish(self._group_kind.steps.take_moved())

    def take_responses(self) -> Sequence[tuple[int, CoordinateResponse]]:
        """Return the messages by stream id, one each."""
        if self._markers.is_awaited:
            self._settle_markers()
        groups, transactions = self._groups, self._transactions
        if groups.answers:
            self._inbox.answer(groups.take_answers())
        if transactions.answers:
            self._inbox.answer(transactions.take_answers())
        return self._inbox.take_responses()

    def take_problems(self) -> Sequence[str]:
        groups, transactions = self._groups, self._transaction_coordination
        if not (self._led.problems or groups.problems or transactions.has_problems):
            return ()
        problems = [*self._led.problems, *groups.problems, *transactions.take_problems()]
        self._led.problems, groups.problems = [], []
        return problems

    # --- what is measured ---------------------------------------------------------------------------------------------

    @property
    def partitions(self) -> list[LedShard[GroupShard]]:
        """The coordinated partitions; read only."""
        return self._groups.shards

    @property
    def transaction_partitions(self) -> list[LedShard[TransactionShard]]:
        """Those of the coordinator of transactions; read only."""
        return self._transactions.shards

    @property
    def unreadable_partitions(self) -> list[Partition]:
        """Those that are led here and can't be coordinated, because a part of their log can't be read."""
        return self._led.unreadable_partitions

    def samples(self) -> Iterator[Sample]:
        meter, partitions = self._group_kind.meter, self.partitions
        yield Sample(COORDINATED_PARTITIONS, (), len(partitions))
        yield Sample(LOADING_PARTITIONS, (), sum(each.loader is not None for each in partitions))
        yield Sample(OFFSET_COMMITS, (), meter.offset_commits)
        yield Sample(OFFSET_EXPIRATIONS, (), meter.offset_expirations)
        yield Sample(REBALANCES, (), meter.rebalances)
        yield Sample(GROUP_CALLS_WAITING, (), len(self._inbox))
        yield from self._transaction_coordination.samples()

    def _state_of(self, watched: WatchedGroup) -> tuple[int, int]:
        if self._led.epoch_of(OFFSETS_TOPIC, watched.topic_id, watched.partition) < 0:
            return -1, 0
        led = self._groups.find(watched.partition)
        return (-1, 0) if led is None else (led.leader_epoch, led.shard.groups.step_of(watched.group_id))
