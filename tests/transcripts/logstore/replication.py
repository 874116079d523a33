"""Commands between leaders, followers and the controller: what it orders, and how followers fetch."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from barnabas.channel.messages import (
    ReplicaData,
    ReplicaFetch,
    ReplicaHello,
    ReplicaPosition,
    ReplicateRequest,
    ReplicateResponse,
)
from barnabas.cluster.messages import AlterPartitionResponse, IsrChangeResult, PartitionMetadata
from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import BatchHeader, iterate_headers
from tests.transcripts.logstore.cluster import Cluster
from tests.transcripts.logstore.data import fetched_values
from tests.transcripts.logstore.node import CLUSTER_ID, Node
from tests.transcripts.script import Command, ScriptError, partition_of

_BYTES_MAX = 1 << 20
_WAIT_MS_MAX = 500
_ROUNDS_MAX = 50


class ReplicationCommands:
    """`replica-fetch` speaks for a follower that was not started; `replicate` carries the messages of one that was."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._streams: dict[tuple[int, int, int], int] = {}
        """By leader, follower and the follower's broker epoch."""
        self._waiting: dict[tuple[int, int], tuple[int, str]] = {}
        """Fetches of followers that are not there, by leader and stream: the follower, and of which partition."""
        self._slots: dict[tuple[int, int, int], str] = {}
        """Partitions by follower, leader and the number that the follower gave them."""
        self._ids = count(1)
        self.verbs: dict[str, Callable[[Command], None]] = {
            "lead": self._lead,
            "start": self._start,
            "restart": self._restart,
            "replica-fetch": self._replica_fetch,
            "replicate": self._replicate,
            "answer-alter-partition": self._answer_alter_partition,
        }

    # --- the controller -----------------------------------------------------------------------------------------------

    def _lead(self, command: Command) -> None:
        topic, number = partition_of(command.argument())
        leader = command.number("leader", 1)
        replicas = command.numbers("replicas", [leader])
        state = PartitionMetadata(
            number,
            leader,
            command.number("epoch", 0),
            0,
            tuple(replicas),
            tuple(command.numbers("isr", replicas)),
        )
        self._cluster.lead(topic, state, command.configs(), command.numbers("to"))

    def _start(self, command: Command) -> None:
        for each in command.arguments:
            self._cluster.node(int(each))

    def _restart(self, command: Command) -> None:
        self._cluster.restart(int(command.argument()))

    def _answer_alter_partition(self, command: Command) -> None:
        """Answer the AlterPartition of a leader: with an error, or by the partitions' next states."""
        node = self._cluster.node(int(command.argument()))
        asked = self._cluster.asked.pop(node.node_id, None)
        if asked is None:
            raise ScriptError(f"{node.node_id} has asked for nothing")
        error = ErrorCode[command.text("error", "NONE")]
        results: list[IsrChangeResult] = []
        for change in asked.partitions:
            topic = self._cluster.topics[self._cluster.name_of(change.topic_id)]
            before = topic.partitions[change.partition]
            if not error:
                isr = tuple(each.broker_id for each in change.in_sync_replicas)
                before = PartitionMetadata(
                    before.partition,
                    before.leader,
                    before.leader_epoch,
                    before.partition_epoch + 1,
                    before.replicas,
                    isr,
                )
                topic.partitions[change.partition] = before
            results.append(
                IsrChangeResult(
                    int(error),
                    before.leader,
                    before.leader_epoch,
                    before.partition_epoch,
                    list(before.in_sync_replicas),
                )
            )
        node.core.on_alter_partition(AlterPartitionResponse(0, results))
        self._cluster.arrived()

    # --- a follower that is not there ---------------------------------------------------------------------------------

    def _replica_fetch(self, command: Command) -> None:
        follower = int(command.argument())
        topic, number = partition_of(command.argument(1))
        leader = self._cluster.leader(topic, number)
        broker_epoch = command.number("broker-epoch", self._cluster.broker_epoch(follower))
        stream = (leader.node_id, follower, broker_epoch)
        if stream not in self._streams:
            stream_id = self._streams[stream] = next(leader.peer_streams)
            hello = ReplicaHello(CLUSTER_ID, follower, broker_epoch)
            leader.core.on_replicate(stream_id, ReplicateRequest(hello=hello))
        offset = command.number("offset", 0)
        position = ReplicaPosition(
            1,
            self._cluster.topics[topic].topic_id,
            number,
            command.number("epoch", self._cluster.partition(topic, number).leader_epoch),
            offset,
            command.number("last-fetched-epoch", -1 if offset == 0 else 0),
            0,
        )
        fetch = ReplicaFetch(next(self._ids), _BYTES_MAX, _BYTES_MAX, _WAIT_MS_MAX, [position])
        self._waiting[leader.node_id, self._streams[stream]] = (follower, f"{topic}-{number}")
        leader.core.on_replicate(self._streams[stream], ReplicateRequest(fetch=fetch))

    def answered(self, leader: Node, responses: list[tuple[int, ReplicateResponse]]) -> None:
        """Say what followers that are not there were answered."""
        for stream_id, response in responses:
            waiting = self._waiting.get((leader.node_id, stream_id))
            if waiting is None or response.piece is None:
                continue
            for data in response.piece.partitions:
                self._cluster.say(f"{waiting[0]} Fetch {waiting[1]} -> {_described(waiting[1], data)}")

    # --- followers that are -------------------------------------------------------------------------------------------

    def _replicate(self, command: Command) -> None:
        """Carry what is between a follower and its leader, until both have nothing more to say."""
        follower = self._cluster.node(int(command.argument()))
        fetches_max = command.number("fetches", _ROUNDS_MAX)
        self._cluster.settle()
        for _ in range(_ROUNDS_MAX):
            carried = [self._carry(pair) for pair in list(self._cluster.links) if pair[0] == follower.node_id]
            if not any(carried):
                return
            self._cluster.settle()
            fetches_max -= 1
            if fetches_max == 0:
                return
        raise AssertionError("a follower and its leader do not come to rest")

    def _carry(self, pair: tuple[int, int]) -> bool:
        follower_id, leader_id = pair
        link = self._cluster.links[pair]
        has_carried = bool(link.requests or link.responses)
        follower, leader = self._cluster.nodes[follower_id], self._cluster.nodes[leader_id]
        while link.responses:
            response = link.responses.popleft()
            if response.piece is not None:
                for data in response.piece.partitions:
                    name = self._slots[follower_id, leader_id, data.slot]
                    self._cluster.say(f"{leader_id} to {follower_id}: {name} {_described(name, data)}")
            follower.core.on_leader_response(leader_id, response)
        while link.requests:
            request = link.requests.popleft()
            for position in request.fetch.positions if request.fetch is not None else ():
                name = f"{self._cluster.name_of(position.topic_id)}-{position.partition}"
                self._slots[follower_id, leader_id, position.slot] = name
                self._cluster.say(
                    f"{follower_id} to {leader_id}: Fetch {name} offset={position.fetch_offset} "
                    f"epoch={position.current_leader_epoch} last-fetched-epoch={position.last_fetched_epoch}"
                )
            leader.core.on_replicate(link.stream_id, request)
        return has_carried


def _described(partition: str, data: ReplicaData) -> str:
    if data.error_code:
        return ErrorCode(data.error_code).name
    if data.diverging_epoch != -1:
        return f"diverging-epoch={data.diverging_epoch} end-offset={data.diverging_end_offset}"
    records = bytes(data.records)
    if partition.startswith("__"):
        found = [f"@{offset}" for _, header in iterate_headers(records) for offset in offsets_in(header)]
    else:
        found = fetched_values(records)
    return f"[{','.join(found)}] high-watermark={data.high_watermark}"


def offsets_in(header: BatchHeader) -> range:
    return range(header.base_offset, header.next_offset)
