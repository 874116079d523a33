"""Replication as a whole: what arrives from followers, leaders and the controller, and what goes out to them.

Inputs come at any time; `step` begins what follows from them, once in a turn, and `Outgoing` carries it away. All three
rooms (`leading`, `following`, `isr_changes`) share the partitions and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.channel.messages import ReplicaHello, ReplicateRequest, ReplicateResponse, Welcome
from barnabas.cluster.messages import AlterPartitionResponse
from barnabas.wire.errors import ErrorCode
from services.logstore.core.outbox import Outbox
from services.logstore.core.partition import Partition
from services.logstore.core.replicas import Replicas
from services.logstore.core.replication.follower_progress import FetchSession
from services.logstore.core.replication.following import FetchLimits, Following
from services.logstore.core.replication.isr_changes import IsrChanges
from services.logstore.core.replication.leading import Leading, ReplicaStream
from services.logstore.core.replication.outbox import ReplicationOutbox, ReplicationOutgoing
from services.logstore.core.storage.effects import ReadEffect
from services.logstore.core.watches import Watches


@dataclass(slots=True, frozen=True)
class ReplicationConfig:
    """`lag_ms_max` is `replica.lag.time.max.ms`."""

    lag_ms_max: int = 30_000
    limits: FetchLimits = FetchLimits()  # noqa: RUF009 - it is frozen


class Replication:
    def __init__(self, replicas: Replicas, watches: Watches, outbox: Outbox, config: ReplicationConfig) -> None:
        self._replicas = replicas
        self._watches = watches
        self._says = ReplicationOutbox()
        self._config = config
        self._isr_changes = IsrChanges(replicas, config.lag_ms_max, self._moved)
        self.leading = Leading(replicas, outbox, self._says, self._isr_changes.follower_moved)
        self.following = Following(replicas, outbox, self._says, config.limits)
        self._streams: dict[int, ReplicaStream] = {}

    # --- followers ---

    def on_request(self, stream_id: int, request: ReplicateRequest, now_ms: int) -> None:
        """A message of a follower on its stream."""
        stream = self._streams.get(stream_id)
        if stream is None:
            if request.hello is None:
                self._says.close(stream_id, "the first message is no hello")
                return
            stream = self._open(stream_id, request.hello)
            if stream is None:
                return
        elif request.hello is not None:
            self._says.close(stream_id, "a second hello")
            return
        if request.fetch is not None:
            problem = self.leading.on_fetch(stream, request.fetch, now_ms)
            if problem is not None:
                self._says.close(stream_id, problem)

    def _open(self, stream_id: int, hello: ReplicaHello) -> ReplicaStream | None:
        if hello.cluster_id != self._replicas.cluster_id:
            self._says.close(stream_id, f"cluster {hello.cluster_id} is not this one, {self._replicas.cluster_id}")
            return None
        session = FetchSession(hello.replica_id, hello.broker_epoch)
        session.is_registered = self._is_registered(session)
        stream = self._streams[stream_id] = ReplicaStream(stream_id, session)
        self.leading.open(stream)
        welcome = Welcome(self._replicas.node_id, self._replicas.broker_epoch)
        self._says.welcome(stream_id, welcome)
        return stream

    def _is_registered(self, session: FetchSession) -> bool:
        broker = self._replicas.image.brokers.get(session.replica_id)
        return broker is not None and broker.broker_epoch == session.broker_epoch

    def on_stream_closed(self, stream_id: int) -> None:
        stream = self._streams.pop(stream_id, None)
        if stream is not None:
            stream.closed = True
            stream.session.is_registered = False
            self.leading.close(stream)

    def on_bytes(self, effect: ReadEffect, data: bytes) -> bool:
        return self.leading.on_bytes(effect, data)

    # --- leaders ---

    def on_response(self, leader_id: int, response: ReplicateResponse, now_ms: int) -> None:
        """A message of a leader that we follow."""
        if response.welcome is not None:
            self.following.connected(leader_id)
        if response.piece is not None:
            self.following.on_piece(leader_id, response.piece, now_ms)

    # --- the controller ---

    def on_image(self) -> None:
        """Brokers have come, gone or registered anew: who is not the one that fetched may not join."""
        for stream in self._streams.values():
            stream.session.is_registered = self._is_registered(stream.session)

    def on_alter_partition(self, response: AlterPartitionResponse | None, now_ms: int) -> None:
        self._isr_changes.on_answer(response, now_ms)

    def role_changed(self, partition: Partition) -> None:
        """After a LeaderAndIsr of any outcome but refusal."""
        self.following.follow(partition)
        self.leading.led_anew(partition)

    def partition_gone(self, partition: Partition) -> None:
        """Stopped, deleted, or its directory is offline."""
        self.following.forget(partition.key)
        self.leading.led_anew(partition)

    def fail_pending(self, partition: Partition, error: ErrorCode) -> None:
        self.leading.fail_pending(partition, error)

    # --- our own writes ---

    def leader_wrote(self, partition: Partition, old_log_end_offset: int, now_ms: int) -> None:
        """A leader's log has grown: followers may read on, and the watermark may follow."""
        partition.log_end_moved_from(old_log_end_offset)
        if partition.advance_high_watermark(self._config.lag_ms_max, now_ms):
            self._watches.changed(partition)
        self.leading.changed(partition)

    def _moved(self, partition: Partition) -> None:
        self._watches.changed(partition)
        self.leading.changed(partition)

    # --- the turn ---

    def step(self, now_ms: int) -> None:
        """Begin answers, fetches and a request to the controller, where they are due."""
        self.leading.answer(now_ms)
        for leader_id, fetch in self.following.take_fetches(now_ms):
            self._says.fetch(leader_id, fetch)
        request = self._isr_changes.take_request(now_ms)
        if request is not None:
            self._says.alter_partition(request)

    def take_outgoing(self) -> ReplicationOutgoing:
        return self._says.take()

    def tick(self, now_ms: int) -> None:
        self._isr_changes.tick(now_ms)

    def hello(self) -> ReplicateRequest:
        """What opens a stream to a leader."""
        replicas = self._replicas
        return ReplicateRequest(hello=ReplicaHello(replicas.cluster_id, replicas.node_id, replicas.broker_epoch))
