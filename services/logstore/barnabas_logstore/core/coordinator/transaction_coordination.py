"""What transactions have beside their shards: markers on their way, the streams that these leave by, and producer ids.

Their part of a turn is taken by `coordination`.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.channel.messages import CoordinateResponse
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
        self.peers = PeerCalls(replicas, inbox)
        self.sender = TransactionMarkerSender(replicas, self.peers)
        self.kind = TransactionKind(config, replicas.image, self.sender)
        self.runtime: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(self.kind, decompress)

    # --- what arrives -------------------------------------------------------------------------------------------------

    def on_peer_response(self, node_id: int, response: CoordinateResponse) -> None:
        """A message of another logstore on the stream that `TransactionOutputs.links` has asked for."""
        self.peers.on_response(node_id, response)

    def on_peer_lost(self, node_id: int) -> None:
        """That stream is lost."""
        self.peers.on_lost(node_id)

    def on_producer_ids(self, first_id: int, length: int) -> None:
        """The controller's answer to `TransactionOutputs.wants_producer_ids`; no length: there was no block."""
        self.kind.producer_ids.block_received(first_id, length)

    # --- what is measured, and said -----------------------------------------------------------------------------------

    @property
    def partitions(self) -> list[LedShard[TransactionShard]]:
        """The coordinated partitions; read only."""
        return self.runtime.shards

    def samples(self) -> Iterator[Sample]:
        yield from self.kind.meter.samples()
        yield Sample(UNWRITTEN_ENDS, (), self.sender.unwritten)
        yield Sample(REFUSED_COMPLETIONS, (), sum(each.shard.refused_completions for each in self.partitions))
        yield Sample(LOADING_PARTITIONS, (), sum(each.loader is not None for each in self.partitions))

    @property
    def has_problems(self) -> bool:
        return bool(self.runtime.problems or self.sender.problems)

    def take_problems(self) -> list[str]:
        problems = self.runtime.problems + self.sender.problems
        self.runtime.problems, self.sender.problems = [], []
        return problems

    def take_outputs(self) -> TransactionOutputs | None:
        """Return what the host has to send and to ask; None if there is nothing."""
        wants_ids = self.kind.producer_ids.take_request()
        if not (wants_ids or self.peers.has_outputs):
            return None
        return TransactionOutputs(self.peers.take_links(), self.peers.take_requests(), wants_ids)
