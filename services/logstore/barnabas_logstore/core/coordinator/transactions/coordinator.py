"""The transaction coordinator of one logstore: its partitions of `__transaction_state`, and their events.

One turn of the host is that of `GroupCoordinator`:

    coordinator.begin_turn(now_ms, wall_ms)
    coordinator.on_call(stream_id, call)            # answered in `take_answers`, in this turn or a later one
    coordinator.step(now_ms)                        # a piece of loading, of what is due, one batch per partition
    coordinator.take_answers()

The methods `on_leadership`, `on_read`, `on_committed`, `on_lost` of `coordinator.coordinator_log` may be called at any
time. Without transactional ids there is no deadline, and nothing to do in a turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from barnabas.channel.messages import GroupAnswer, GroupCall
from barnabas.cluster.image import ClusterImage
from barnabas.containment import CONTAINING
from barnabas.ports.compression import Decompress
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import UnsupportedVersion, decode_request, encode_body_in_steps
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from barnabas.wire.primitives import MalformedFrame
from barnabas_logstore.core.coordinator.runtime.coordinator_log import CoordinatedLog
from barnabas_logstore.core.coordinator.runtime.coordinator_log_writer import (
    CoordinatorLogWriter,
    StreamAnswer,
)
from barnabas_logstore.core.coordinator.runtime.listings import Listings
from barnabas_logstore.core.coordinator.runtime.timers import Clock
from barnabas_logstore.core.coordinator.transactions.calls import TransactionCalls
from barnabas_logstore.core.coordinator.transactions.config import TransactionConfig
from barnabas_logstore.core.coordinator.transactions.listing import list_matching
from barnabas_logstore.core.coordinator.transactions.meter import TransactionMeter
from barnabas_logstore.core.coordinator.transactions.producer_ids import ProducerIds
from barnabas_logstore.core.coordinator.transactions.transaction import Transaction
from barnabas_logstore.core.coordinator.transactions.transaction_partition import (
    CoordinatorParts,
    MarkerSender,
    TransactionLoader,
    TransactionPartition,
)
from barnabas_logstore.core.replica.containment import COORDINATOR_LOAD, COORDINATOR_STATE


class TransactionCoordinator:
    def __init__(
        self, config: TransactionConfig, decompress: Decompress, image: ClusterImage, markers: MarkerSender
    ) -> None:
        self._config = config
        self._decompress = decompress
        self._clock = Clock()
        self.producer_ids = ProducerIds()
        self.meter = TransactionMeter()
        self._refused: dict[TransactionPartition, None] = {}
        self._parts = CoordinatorParts(
            markers, config, self._clock, self.meter, image, self.producer_ids, self._refused
        )
        self._calls = TransactionCalls(config, self._clock, image, self.producer_ids)
        self._partitions: dict[int, TransactionPartition] = {}
        self._loading: dict[int, TransactionPartition] = {}
        self.answers: list[StreamAnswer] = []
        """What need not wait any more; the host empties it by `take_answers`."""
        self._written: dict[CoordinatorLogWriter, None] = {}
        """Partitions with something to append at the end of the turn."""
        self._look_for_timeouts_ms: int | None = None
        """When partitions look for timeouts next; None while no transaction is under way."""
        self._expire_ms: int | None = None
        """When partitions look for ids to forget; None while there are no ids."""
        self._has_news = False
        """Whether transactions were loaded."""
        self._checking: list[TransactionPartition] = []
        """Partitions that look through their transactions, some in each step."""
        self.listings = Listings()
        self.problems: list[str] = []
        """What could not be read of a log; the host takes it for its log file."""

    # --- the turn -----------------------------------------------------------------------------------------------------

    def begin_turn(self, now_ms: int, wall_ms: int) -> None:
        self._clock.now_ms = now_ms
        self._clock.wall_ms = wall_ms

    def step(self, now_ms: int) -> None:
        """Process a piece of loading, what is due, and the batches of this turn."""
        if self.listings.has_work:
            self.listings.step()
        if not self._partitions:
            return
        self._clock.now_ms = now_ms
        for led in list(self._loading.values()):
            try:
                self._load(led)
            except Exception as error:
                with CONTAINING:
                    led.log_writer.log.state_in_doubt(COORDINATOR_LOAD, error)
        if self._has_news or self._written:
            self._has_news = False
            self._plan_checks(now_ms)
        self._act_on_time(now_ms)
        if self._checking:
            for led in self._checking:
                try:
                    led.step_checks()
                except Exception as error:
                    with CONTAINING:
                        led.log_writer.log.state_in_doubt(COORDINATOR_STATE, error)
            self._checking = [led for led in self._checking if led.is_checking]
        if self._written:
            self._append()

    def _plan_checks(self, now_ms: int) -> None:
        """Transactions have changed: set when to look for those that take too long, and for ids to forget."""
        if self._look_for_timeouts_ms is None and any(led.ongoing for led in self._partitions.values()):
            self._look_for_timeouts_ms = now_ms + self._config.abort_timed_out_interval_ms
        if self._expire_ms is None and any(led.transactions for led in self._partitions.values()):
            self._expire_ms = now_ms + self._config.remove_expired_interval_ms

    def _act_on_time(self, now_ms: int) -> None:
        looks_for_timeouts = self._look_for_timeouts_ms is not None and now_ms >= self._look_for_timeouts_ms
        expires = self._expire_ms is not None and now_ms >= self._expire_ms
        if looks_for_timeouts or expires:
            for led in list(self._partitions.values()):
                try:
                    if looks_for_timeouts:
                        led.begin_timeouts()
                    if expires:
                        led.begin_expiry()
                except Exception as error:
                    with CONTAINING:
                        led.log_writer.log.state_in_doubt(COORDINATOR_STATE, error)
            self._checking = [led for led in self._partitions.values() if led.is_checking]
            self._look_for_timeouts_ms = None if looks_for_timeouts else self._look_for_timeouts_ms
            self._expire_ms = None if expires else self._expire_ms
            self._plan_checks(now_ms)
        for led in [each for each in self._refused if now_ms >= each.complete_at_ms]:
            if self._partitions.get(led.partition) is not led:
                # Its epoch is over: the next coordinator completes them.
                del self._refused[led]
                continue
            try:
                led.complete_again()
            except Exception as error:
                with CONTAINING:
                    led.log_writer.log.state_in_doubt(COORDINATOR_STATE, error)

    def _append(self) -> None:
        written = dict(self._written)
        self._written.clear()
        for led in [each for each in self._partitions.values() if each.log_writer in written]:
            try:
                if not led.log_writer.append():
                    # The write failed under an epoch that is still ours: the log decides what holds.
                    self.on_leadership(led.partition, led.leader_epoch, led.log_writer.log, self._clock.now_ms)
            except Exception as error:
                with CONTAINING:
                    led.log_writer.log.state_in_doubt(COORDINATOR_STATE, error)

    def next_deadline_ms(self) -> int | None:
        """Return when `step` has something to do, unless an event comes first."""
        if not self._partitions:
            # `step` does nothing, not even for a lost partition with a completion that the log has refused.
            return None
        deadlines_ms = [led.complete_at_ms for led in self._refused]
        deadlines_ms += [each for each in (self._look_for_timeouts_ms, self._expire_ms) if each is not None]
        return min(deadlines_ms, default=None)

    @property
    def has_work(self) -> bool:
        """Whether a `step` would make progress now."""
        if self.listings.has_work:
            return True
        if not self._partitions:
            return False
        # Written: the last marker of a transaction was answered between two turns.
        return bool(self._written or self._checking) or any(
            each.loader is not None and each.loader.has_data for each in self._loading.values()
        )

    def take_answers(self) -> list[StreamAnswer]:
        """Return the answers by stream, in order."""
        answers = self.answers[:]
        self.answers.clear()
        return answers

    @property
    def partitions(self) -> list[TransactionPartition]:
        """The coordinated partitions; read only."""
        return list(self._partitions.values())

    # --- the coordinator's logs ---------------------------------------------------------------------------------------

    def on_leadership(self, partition: int, leader_epoch: int, log: CoordinatedLog, now_ms: int) -> None:
        self._clock.now_ms = now_ms
        before = self._partitions.get(partition)
        if before is not None:
            before.lose()
        self.producer_ids.peek()  # a client's first request finds a block
        transactions: dict[str, Transaction] = {}
        log_writer = CoordinatorLogWriter(log, leader_epoch, self.answers, self._written)
        loader = TransactionLoader(transactions, self._decompress, log.end_offset())
        led = TransactionPartition(partition, log_writer, transactions, loader, self._parts)
        self._partitions[partition] = self._loading[partition] = led
        self._load(led)

    def on_read(self, partition: int, leader_epoch: int, data: memoryview, next_offset: int, now_ms: int) -> None:
        self._clock.now_ms = now_ms
        led = self._loading.get(partition)
        if led is not None and led.leader_epoch == leader_epoch and led.loader is not None:
            led.loader.feed(data, next_offset)
            self._load(led)

    def _load(self, led: TransactionPartition) -> None:
        try:
            is_loaded = led.load()
        except Exception:
            # What it has read is in doubt: it is read from the beginning, by another one.
            del self._loading[led.partition]
            raise
        if is_loaded:
            del self._loading[led.partition]
            self._has_news = True
            if led.unreadable_records:
                self.problems.append(
                    f"records of __transaction_state-{led.partition} that can't be read: {led.unreadable_records}; "
                    "the transactions in them are not known"
                )

    def on_committed(self, partition: int, leader_epoch: int, high_watermark: int, now_ms: int) -> None:
        self._clock.now_ms = now_ms
        led = self._partitions.get(partition)
        if led is not None and led.leader_epoch == leader_epoch:
            led.log_writer.committed(high_watermark)

    def on_lost(self, partition: int, leader_epoch: int, now_ms: int) -> None:
        self._clock.now_ms = now_ms
        led = self._partitions.get(partition)
        if led is not None and led.leader_epoch == leader_epoch:
            del self._partitions[partition]
            self._loading.pop(partition, None)
            if not self._partitions:
                # They may be over long before there is anything to look at.
                self._look_for_timeouts_ms = self._expire_ms = None
            led.lose()

    def log_of(self, partition: int) -> CoordinatedLog | None:
        """Return the log of a coordinated partition."""
        led = self._partitions.get(partition)
        return None if led is None else led.log_writer.log

    # --- calls --------------------------------------------------------------------------------------------------------

    def on_call(self, stream_id: int, call: GroupCall) -> None:
        """Process a call to one partition, or ListTransactions, which is about all of them."""
        if call.api_key == ApiKey.LIST_TRANSACTIONS:
            self._list(stream_id, call)
            return
        led = self._partitions.get(call.partition)
        if led is None:
            self.answers.append((stream_id, GroupAnswer(call.request_id, ErrorCode.NOT_COORDINATOR)))
        elif led.loader is not None:
            self.answers.append((stream_id, GroupAnswer(call.request_id, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)))
        else:
            self._calls.serve(led, stream_id, call)

    def _list(self, stream_id: int, call: GroupCall) -> None:
        """List the transactions of all partitions, as Kafka does with what is not committed yet; while one is being
        loaded, no incomplete list is returned.
        """
        try:
            request = decode_request(call.api_key, call.api_version, memoryview(call.body), 0)
        except (MalformedFrame, UnsupportedVersion):
            self.answers.append((stream_id, GroupAnswer(call.request_id, ErrorCode.INVALID_REQUEST)))
            return
        assert isinstance(request, ListTransactionsRequest)
        self.listings.add((stream_id, call.request_id), partial(self._list_in_steps, stream_id, call, request))

    def _leads_still(self, partitions: list[TransactionPartition]) -> bool:
        """Whether all of these are coordinated under the same epochs."""
        return all(self._partitions.get(led.partition) is led for led in partitions)

    def _list_in_steps(self, stream_id: int, call: GroupCall, request: ListTransactionsRequest) -> Iterator[int]:
        partitions = list(self._partitions.values())
        response = ListTransactionsResponse()
        is_loading = len(self._loading) > 0
        if not is_loading:
            transactions = [transaction for led in partitions for transaction in led.transactions.values()]
            for listed in list_matching(request, transactions, self._clock.wall_ms):
                if listed is not None:
                    response.transaction_states.append(listed)
                yield 1
            del transactions
        body = yield from encode_body_in_steps(response, call.api_version)
        if is_loading or not self._leads_still(partitions):
            answer = GroupAnswer(call.request_id, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        else:
            answer = GroupAnswer(call.request_id, body=body)
        self.answers.append((stream_id, answer))
