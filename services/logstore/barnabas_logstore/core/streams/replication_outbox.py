"""The messages of replication in a turn: to followers, to leaders, to the controller, and to the log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

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
    """A wanted stream: to one incarnation of a leader, from one incarnation of this logstore."""

    leader: Broker
    hello: ReplicaHello

    @property
    def peer(self) -> Broker:
        return self.leader


@dataclass(slots=True)
class ReplicationOutputs:
    """`responses` by stream id, `requests` by the leader's node id; the next request to the controller; partitions that
    can't go on. `links`: from now on the streams are these (None: as before).
    """

    responses: list[tuple[int, ReplicateResponse]] = field(default_factory=list)
    requests: list[tuple[int, ReplicateRequest]] = field(default_factory=list)
    links: list[LeaderLink] | None = None
    alter_partition: AlterPartitionRequest | None = None
    problems: list[str] = field(default_factory=list)
    closes: list[tuple[int, str]] = field(default_factory=list)


NO_REPLICATION: Final = ReplicationOutputs()
"""Of all turns in which replication sends nothing; nothing may be added to it."""


class ReplicationOutbox:
    """Gathers a turn's `ReplicationOutputs`."""

    __slots__ = ("_gathered",)

    def __init__(self) -> None:
        self._gathered: ReplicationOutputs | None = None

    @property
    def _outputs(self) -> ReplicationOutputs:
        if self._gathered is None:
            self._gathered = ReplicationOutputs()
        return self._gathered

    def welcome(self, stream_id: int, welcome: Welcome) -> None:
        self._outputs.responses.append((stream_id, ReplicateResponse(welcome=welcome)))

    def answer(self, stream_id: int, pieces: list[ReplicaPiece]) -> None:
        self._outputs.responses += [(stream_id, ReplicateResponse(piece=piece)) for piece in pieces]

    def fetch(self, leader_id: int, fetch: ReplicaFetch) -> None:
        self._outputs.requests.append((leader_id, ReplicateRequest(fetch=fetch)))

    def link(self, links: list[LeaderLink]) -> None:
        self._outputs.links = links

    def alter_partition(self, request: AlterPartitionRequest) -> None:
        self._outputs.alter_partition = request

    def close(self, stream_id: int, reason: str) -> None:
        self._outputs.closes.append((stream_id, reason))

    def report(self, partition: Partition, problem: str) -> None:
        self._outputs.problems.append(f"{partition.topic}-{partition.partition}: {problem}")

    def drain(self) -> ReplicationOutputs:
        outputs = self._gathered
        if outputs is None:
            return NO_REPLICATION
        self._gathered = None
        return outputs
