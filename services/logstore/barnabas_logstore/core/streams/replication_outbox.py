"""What replication says in a turn: to followers, to leaders, to the controller, and to whoever reads the log."""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.channel.messages import (
    ReplicaFetch,
    ReplicaHello,
    ReplicaPiece,
    ReplicateRequest,
    ReplicateResponse,
    Welcome,
)
from barnabas.cluster.messages import AlterPartitionRequest, Broker
from barnabas_logstore.core.replica.partition import Partition


@dataclass(slots=True, frozen=True)
class LeaderLink:
    """A stream that is wanted: to one life of a leader, in one life of ours."""

    leader: Broker
    hello: ReplicaHello


@dataclass(slots=True)
class ReplicationOutgoing:
    """`responses` by stream id, `requests` by the leader's node id; the next request to the controller; partitions that
    can't go on. `links`: from now on the streams are these (None: as before).
    """

    responses: list[tuple[int, ReplicateResponse]] = field(default_factory=list)
    requests: list[tuple[int, ReplicateRequest]] = field(default_factory=list)
    links: list[LeaderLink] | None = None
    alter_partition: AlterPartitionRequest | None = None
    problems: list[str] = field(default_factory=list)
    closes: list[tuple[int, str]] = field(default_factory=list)


class ReplicationOutbox:
    """Gathers a turn's `ReplicationOutgoing`."""

    __slots__ = ("_outgoing",)

    def __init__(self) -> None:
        self._outgoing = ReplicationOutgoing()

    def welcome(self, stream_id: int, welcome: Welcome) -> None:
        self._outgoing.responses.append((stream_id, ReplicateResponse(welcome=welcome)))

    def answer(self, stream_id: int, pieces: list[ReplicaPiece]) -> None:
        self._outgoing.responses += [(stream_id, ReplicateResponse(piece=piece)) for piece in pieces]

    def fetch(self, leader_id: int, fetch: ReplicaFetch) -> None:
        self._outgoing.requests.append((leader_id, ReplicateRequest(fetch=fetch)))

    def link(self, links: list[LeaderLink]) -> None:
        self._outgoing.links = links

    def alter_partition(self, request: AlterPartitionRequest) -> None:
        self._outgoing.alter_partition = request

    def close(self, stream_id: int, reason: str) -> None:
        self._outgoing.closes.append((stream_id, reason))

    def report(self, partition: Partition, problem: str) -> None:
        self._outgoing.problems.append(f"{partition.topic}-{partition.partition}: {problem}")

    def take(self) -> ReplicationOutgoing:
        outgoing, self._outgoing = self._outgoing, ReplicationOutgoing()
        return outgoing
