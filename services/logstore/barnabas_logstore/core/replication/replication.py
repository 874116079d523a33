"""Replication as a whole: inputs from followers, leaders and the controller, and outputs to them.

Inputs come at any time; `step` begins what follows from them, once in a turn, and `Outputs` carries it away. `leading`,
`following` and `isr_changes` share the partitions and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from barnabas.channel.messages import ReplicaHello, ReplicateRequest, ReplicateResponse, Welcome
from barnabas.cluster.config_description import BrokerValues
from barnabas.cluster.messages import AlterPartitionResponse
from barnabas.metrics.family import Sample
from barnabas_logstore.core.maintenance.checkpoints import Checkpoints
from barnabas_logstore.core.replica.follower_progress import FetchSession
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.replica.throttles import QuotaWindows, Throttles
from barnabas_logstore.core.replication.fetcher import FetchLimits
from barnabas_logstore.core.replication.follower_cuts import FollowerCuts
from barnabas_logstore.core.replication.following import Following
from barnabas_logstore.core.replication.isr_changes import IsrChanges
from barnabas_logstore.core.replication.leading import Leading, ReplicaStream
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.streams.outbox import Outbox
from barnabas_logstore.core.streams.replication_outbox import LeaderLink, ReplicationOutbox, ReplicationOutputs
from barnabas_logstore.core.streams.watches import Watches


@dataclass(slots=True, frozen=True)
class ReplicationConfig:
    """`lag_ms_max` is `replica.lag.time.max.ms`. `tells_watermarks_at_once`: consumers may read from followers."""

    lag_ms_max: int = 30_000
    limits: FetchLimits = FetchLimits()  # noqa: RUF009 - it is frozen, as are the next
    quota_windows: QuotaWindows = QuotaWindows()  # noqa: RUF009
    log_dirs_quota_windows: QuotaWindows = QuotaWindows()  # noqa: RUF009
    tells_watermarks_at_once: bool = False


class ReplicationOwner(Protocol):
    """What is to know of what replication does to logs."""

    def has_writes(self, log: PartitionLog) -> None:
        """A log may have something to write."""
        ...

    def log_start_followed(self, partition: Partition) -> None:
        """The start of a log has moved by what the leader says."""
        ...

    def follower_log_start_moved(self) -> None:
        """The log of a follower begins further on, for which DeleteRecords may wait."""
        ...


class Replication:
    def __init__(
        self,
        replicas: Replicas,
        throttles: Throttles,
        checkpoints: Checkpoints,
        cuts: FollowerCuts,
        watches: Watches,
        outbox: Outbox,
        config: ReplicationConfig,
        owner: ReplicationOwner,
    ) -> None:
        self._replicas = replicas
        self._throttles = throttles
        self._checkpoints = checkpoints
        self._watches = watches
        self._says = ReplicationOutbox()
        self.config = config
        self._isr_changes = IsrChanges(replicas, config.lag_ms_max, self._moved)
        self.leading = Leading(
            replicas,
            outbox,
            self._says,
            throttles,
            tells_watermarks_at_once=config.tells_watermarks_at_once,
            follower_moved=self._follower_moved,
            follower_log_start_moved=owner.follower_log_start_moved,
        )
        self.following = Following(
            replicas,
            self._says,
            config.limits,
            throttles,
            cuts,
            watermark_moved=self._moved,
            log_start_moved=owner.log_start_followed,
            has_writes=owner.has_writes,
        )
        self._streams: dict[int, ReplicaStream] = {}
        self._links: list[LeaderLink] = []
        # What they were computed from: the image's revision, our epoch, the leaders.
        self._linked: tuple[int, int, list[int]] = (-1, -1, [])
        self.now_ms = 0

    # --- followers ---

    def on_request(self, stream_id: int, request: ReplicateRequest) -> None:
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
            problem = self.leading.on_fetch(stream, request.fetch, self.now_ms)
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
        self._says.welcome(stream_id, Welcome(self._replicas.node_id, self._replicas.broker_epoch))
        return stream

    def _is_registered(self, session: FetchSession) -> bool:
        broker = self._replicas.image.brokers.get(session.replica_id)
        return broker is not None and broker.broker_epoch == session.broker_epoch

    def on_stream_closed(self, stream_id: int) -> None:
        stream = self._streams.pop(stream_id, None)
        if stream is not None:
            stream.session.is_registered = False
            self.leading.close(stream)

    def _follower_moved(self, partition: Partition) -> None:
        self._isr_changes.follower_moved(partition, self.now_ms)

    # --- leaders ---

    def on_response(self, leader_id: int, response: ReplicateResponse) -> None:
        """A message of a leader that we follow."""
        if response.welcome is not None:
            self.following.connected(leader_id)
        if response.piece is not None:
            self.following.on_piece(leader_id, response.piece)

    # --- the controller ---

    def on_image(self, values: BrokerValues) -> None:
        """Rates have changed to those of `values`; brokers have come, gone or registered again.

        Only the registration that fetched may join an ISR.
        """
        self._throttles.follow(values)
        is_somebody_new = False
        for stream in self._streams.values():
            is_registered = self._is_registered(stream.session)
            is_somebody_new |= is_registered and not stream.session.is_registered
            stream.session.is_registered = is_registered
        if is_somebody_new:
            for partition in self._replicas.by_key.values():
                self._isr_changes.look_at(partition)

    def on_alter_partition(self, response: AlterPartitionResponse | None) -> None:
        self._isr_changes.on_answer(response, self.now_ms)

    def role_changed(self, partition: Partition) -> None:
        """Called after a LeaderAndIsr with a new state."""
        self.following.follow(partition)
        self.leading.leadership_changed(partition, self.now_ms)
        self._isr_changes.look_at(partition)

    def partition_gone(self, partition: Partition) -> None:
        """Stopped, deleted, or its directory is offline."""
        self.following.forget(partition)
        self.leading.leadership_changed(partition, self.now_ms)

    # --- our own writes ---

    def wrote(self, partition: Partition, old_log_end_offset: int) -> None:
        """A log has grown, or would have if there had been space."""
        if not partition.leading:
            self.following.on_written(partition)
            return
        partition.log_end_moved_from(old_log_end_offset)
        if partition.advance_high_watermark(self.config.lag_ms_max, self.now_ms):
            self._watches.changed(partition)
        if partition.followers:
            self.leading.changed(partition)
            if old_log_end_offset <= partition.epoch_start_offset:
                # Those who have all of earlier epochs may not move any more.
                self._isr_changes.look_at(partition)

    def log_start_moved(self, partition: Partition) -> None:
        """Watches are notified, followers are sent the new log start, and so is the leader."""
        self._watches.changed(partition)
        self.leading.changed(partition)
        self.following.log_start_moved(partition)

    def _moved(self, partition: Partition) -> None:
        """A watermark, or the ISR, has moved without a write of ours."""
        self._watches.changed(partition)
        self._checkpoints.high_watermark_moved(partition.log)
        self.leading.changed(partition)

    # --- the turn ---

    def begin_turn(self, now_ms: int, wall_ms: int) -> None:
        self.now_ms = self.following.now_ms = now_ms
        self.following.wall_ms = wall_ms

    def step(self) -> None:
        """Begin answers, fetches and a request to the controller, if they are due."""
        self._link()
        self.leading.answer(self.now_ms)
        for leader_id, fetch in self.following.take_fetches():
            self._says.fetch(leader_id, fetch)
        request = self._isr_changes.take_request(self.now_ms)
        if request is not None:
            self._says.alter_partition(request)

    def _link(self) -> None:
        """Report the leaders to which we want streams, if they have changed."""
        replicas = self._replicas
        wanted = (replicas.image.revision, replicas.broker_epoch, self.following.leaders)
        if wanted == self._linked:
            return
        self._linked = wanted
        hello = ReplicaHello(replicas.cluster_id, replicas.node_id, replicas.broker_epoch)
        brokers = [replicas.image.brokers.get(leader_id) for leader_id in self.following.leaders]
        links = [LeaderLink(broker, hello) for broker in brokers if broker is not None]
        if links != self._links:
            self._links = links
            self._says.link(links)

    @property
    def has_work(self) -> bool:
        """Whether there is something to send that the last step has not sent: a disk has finished since."""
        return self.leading.has_work or self.following.has_work or self._isr_changes.has_work(self.now_ms)

    def drain_outputs(self) -> ReplicationOutputs:
        return self._says.drain()

    def stop(self) -> None:
        """Follow no leader any more: the logs have to come to rest."""
        self.following.stop()

    @property
    def is_at_rest(self) -> bool:
        """Whether followers and leaders have nothing new for each other."""
        return self.leading.is_at_rest and self.following.is_at_rest and self._isr_changes.is_at_rest

    def samples(self) -> Iterator[Sample]:
        return self._isr_changes.samples()

    def tick(self) -> None:
        self.leading.tick()
        self._isr_changes.tick(self.now_ms)
