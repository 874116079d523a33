"""A leader's followers, and a follower's leader, by hand: what the other side of each stream would say."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from barnabas.channel.messages import (
    ReplicaData,
    ReplicaFetch,
    ReplicaHello,
    ReplicaPiece,
    ReplicaPosition,
    ReplicateRequest,
    ReplicateResponse,
    Welcome,
)
from barnabas.cluster.messages import Broker, UpdateMetadata
from barnabas.wire.record_batch import patch_offsets
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.replication.fetcher import FetchLimits
from barnabas_logstore.core.replication.replication import ReplicationConfig
from barnabas_logstore.core.streams.outbox import Outputs
from tests.unit.logstore.service.support import CLUSTER_ID, NODE_ID, TOPIC_ID, Host, batch, topic

LAG_MS_MAX = 10_000
BACKOFF_MS = 1_000
REPLICAS = [NODE_ID, 2, 3]
CONFIG = ReplicationConfig(LAG_MS_MAX, FetchLimits(backoff_ms=BACKOFF_MS))


def broker_epoch_of(node_id: int) -> int:
    return 100 + node_id


def tell_brokers(host: Host, *node_ids: int, broker_epochs: Mapping[int, int] | None = None) -> None:
    """These are registered, each under its first epoch, or under that of `broker_epochs`."""
    epochs = {node_id: broker_epoch_of(node_id) for node_id in node_ids} | dict(broker_epochs or {})
    brokers = [Broker(node_id, f"host-{node_id}:9300", epochs[node_id]) for node_id in node_ids]
    update = UpdateMetadata(host.core._replicas.image.revision + 1, True, CLUSTER_ID, 5, brokers, [], [], [])
    host.control(update)


def leading_host(
    in_sync_replicas: list[int] | None = None, replication: ReplicationConfig = CONFIG, *, commit_hold_ms: int = 0
) -> Host:
    """A logstore that leads one partition of three replicas."""
    host = Host(replication=replication, commit_hold_ms=commit_hold_ms)
    host.greet(1, 2, 3)
    host.lead(
        topic(replicas=REPLICAS, in_sync_replicas=in_sync_replicas or REPLICAS, configs={"min.insync.replicas": "2"})
    )
    tell_brokers(host, *REPLICAS)
    return host


def partition_of(host: Host) -> Partition:
    (partition,) = host.core.partitions
    return partition


class FollowerByHand:
    """Of a leading host; `said` are the answers that have come for it."""

    _stream_ids = count(50)

    def __init__(self, host: Host, node_id: int, *, broker_epoch: int | None = None) -> None:
        self.host = host
        self.stream_id = next(self._stream_ids)
        self._request_ids = count(1)
        epoch = broker_epoch_of(node_id) if broker_epoch is None else broker_epoch
        self.say(ReplicateRequest(hello=ReplicaHello(CLUSTER_ID, node_id, epoch)))
        assert host.turn().replication.responses[0][1].welcome == Welcome(NODE_ID, 40)

    def say(self, request: ReplicateRequest) -> None:
        self.host.core.on_replicate(self.stream_id, request)

    def ask(self, *positions: ReplicaPosition, bytes_max: int = 1 << 20, wait_ms: int = 500) -> None:
        fetch = ReplicaFetch(next(self._request_ids), bytes_max, 1 << 20, wait_ms, list(positions))
        self.say(ReplicateRequest(fetch=fetch))

    def fetch(self, *positions: ReplicaPosition, bytes_max: int = 1 << 20) -> list[ReplicaData] | None:
        """One fetch; what it is answered with at once, None when it waits."""
        self.ask(*positions, bytes_max=bytes_max)
        return self.answer()

    def answer(self) -> list[ReplicaData] | None:
        return self.answer_in(*self.host.settle())

    def answer_in(self, *said: Outputs) -> list[ReplicaData] | None:
        pieces = [
            response.piece
            for out in said
            for stream_id, response in out.replication.responses
            if stream_id == self.stream_id and response.piece is not None
        ]
        return [data for piece in pieces for data in piece.partitions] if pieces else None


def at(offset: int, last_epoch: int = 0, *, epoch: int = 0, log_start: int = 0, slot: int = 1) -> ReplicaPosition:
    """Where a follower is."""
    last_fetched_epoch = -1 if offset == log_start else last_epoch
    return ReplicaPosition(slot, TOPIC_ID, 0, epoch, offset, last_fetched_epoch, log_start)


LEADER = 2


class FollowingHost(Host):
    """It keeps the last fetch that is outstanding."""

    fetch: ReplicaFetch | None = None

    def collect(self) -> Outputs:
        out = super().collect()
        for _, request in out.replication.requests:
            assert request.fetch is not None
            self.fetch = request.fetch
        return out


def following_host(leader_epoch: int = 0) -> FollowingHost:
    """A logstore that follows node 2, whose welcome has come."""
    host = FollowingHost(replication=CONFIG)
    host.lead(topic(leader_epoch, leader=LEADER, replicas=REPLICAS, in_sync_replicas=REPLICAS))
    tell_brokers(host, *REPLICAS)
    host.core.on_leader_response(LEADER, ReplicateResponse(welcome=Welcome(LEADER, broker_epoch_of(LEADER))))
    return host


def fetch_of(host: FollowingHost) -> ReplicaFetch:
    """What the host has asked its leader."""
    host.settle()
    assert host.fetch is not None
    return host.fetch


def answer(host: FollowingHost, fetch: ReplicaFetch, *data: ReplicaData, last: bool = True) -> None:
    if last and host.fetch is fetch:
        host.fetch = None
    piece = ReplicaPiece(fetch.request_id, last, list(data))
    host.core.on_leader_response(LEADER, ReplicateResponse(piece=piece))


def stored(base_offset: int, leader_epoch: int = 0, records_count: int = 1) -> bytes:
    """A batch as it is in a leader's log."""
    made = bytearray(batch(records_count))
    patch_offsets(made, 0, base_offset, leader_epoch)
    return bytes(made)
