"""The coordination of transactions as a whole: their coordinator, its markers, and the streams that these leave by."""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.channel.messages import CoordinateResponse, GroupCall
from barnabas.metrics.family import Sample
from barnabas.metrics.transaction_families import LOADING_PARTITIONS, REFUSED_COMPLETIONS, UNWRITTEN_ENDS
from barnabas.ports.compression import Decompress
from barnabas_logstore.core.coordinator.peer_calls import PeerCalls
from barnabas_logstore.core.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from barnabas_logstore.core.coordinator.runtime.inbox import CoordinateInbox
from barnabas_logstore.core.coordinator.runtime.led_shard import LedShard
from barnabas_logstore.core.coordinator.transactions.config import TransactionConfig
from barnabas_logstore.core.coordinator.transactions.kind import TransactionKind
from barnabas_logstore.core.coordinator.transactions.marker_sender import TransactionMarkerSender
from barnabas_logstore.core.coordinator.transactions.shard import TransactionShard
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.streams.outbox import TransactionOutputs


class TransactionCoordination:
    def __init__(
        self, config: TransactionConfig, decompress: Decompress, replicas: Replicas, inbox: CoordinateInbox
    ) -> None:
        self._peers = PeerCalls(replicas, inbox)
        self._sender = TransactionMarkerSender(replicas, self._peers)
        self.kind = TransactionKind(config, replicas.image, self._sender)
        self.runtime: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(self.kind, decompress)

    # --- what arrives -------------------------------------------------------------------------------------------------

    def on_call(self, stream_id: int, call: GroupCall) -> None:
        self.runtime.on_call(stream_id, call)

    def on_peer_response(self, node_id: int, response: CoordinateResponse) -> None:
        """A message of another logstore on the stream that `TransactionOutputs.links` has asked for."""
        self._peers.on_response(node_id, response)

    def on_peer_lost(self, node_id: int) -> None:
        """That stream is lost."""
        self._peers.on_lost(node_id)

    def on_producer_ids(self, first_id: int, length: int) -> None:
        """The controller's answer to `TransactionOutputs.wants_producer_ids`; no length: there was no block."""
        self.kind.producer_ids.block_received(first_id, length)

    # --- the turn -----------------------------------------------------------------------------------------------------

    def begin_turn(self, now_ms: int, wall_ms: int) -> None:
        self.runtime.begin_turn(now_ms, wall_ms)
        self._peers.step(now_ms)

    def take_own_answers(self, now_ms: int) -> None:
        """Process what this logstore has answered to its own markers, before the next turn."""
        self._peers.step(now_ms)

    def step(self, now_ms: int) -> None:
        """Send markers, then process what is due, and write."""
        self._sender.step(now_ms)
        self.runtime.step(now_ms)

    @property
    def has_work(self) -> bool:
        return self._sender.has_work or self._peers.has_work or self.runtime.has_work

    def next_deadline_ms(self) -> int | None:
        """Return when there is something to do, unless an event comes first."""
        deadlines_ms = (self.runtime.next_deadline_ms(), self._sender.retry_ms, self._peers.next_deadline_ms())
        return min((each for each in deadlines_ms if each is not None), default=None)

    @property
    def partitions(self) -> list[LedShard[TransactionShard]]:
        """The coordinated partitions; read only."""
        return self.runtime.shards

    def samples(self) -> Iterator[Sample]:
        yield from self.kind.meter.samples()
        yield Sample(UNWRITTEN_ENDS, (), self._sender.unwritten)
        yield Sample(REFUSED_COMPLETIONS, (), sum(each.shard.refused_completions for each in self.partitions))
        yield Sample(LOADING_PARTITIONS, (), sum(each.loader is not None for each in self.partitions))

    @property
    def has_problems(self) -> bool:
        return bool(self.runtime.problems or self._sender.problems)

    def take_problems(self) -> list[str]:
        problems = self.runtime.problems + self._sender.problems
        self.runtime.problems, self._sender.problems = [], []
        return problems

    def take_outputs(self) -> TransactionOutputs | None:
        """Return what the host has to send and to ask; None if there is nothing."""
        wants_ids = self.kind.producer_ids.take_request()
        if not (wants_ids or self._peers.has_outputs):
            return None
        return TransactionOutputs(self._peers.take_links(), self._peers.take_requests(), wants_ids)
