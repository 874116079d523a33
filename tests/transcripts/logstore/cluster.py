"""Logstores under one scripted controller and one gateway, in virtual time.

Calls and their answers, markers between coordinators and leaders, and blocks of producer ids arrive at once. What
followers and leaders send each other waits until a transcript says `replicate`, and so does the controller's answer to
an AlterPartition: the order of those is what transcripts of replication are about.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from barnabas.channel.messages import CoordinateRequest, CoordinateResponse, Hello, ReplicateRequest, ReplicateResponse
from barnabas.cluster.features import TRANSACTION_VERSION, finalized_features
from barnabas.cluster.messages import (
    AlterPartitionRequest,
    Broker,
    LeaderAndIsr,
    PartitionMetadata,
    TopicMetadata,
    UpdateMetadata,
)
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.config import LogstoreConfig
from barnabas_logstore.core.logstore import TICK_MS
from barnabas_logstore.core.streams.outbox import Outputs
from barnabas_logstore.core.streams.replication_outbox import ReplicationOutputs
from tests.transcripts.logstore.node import CLUSTER_ID, CONTROLLER_EPOCH, Node
from tests.transcripts.logstore.records import StoredBatch, batches_of, stored_log
from tests.transcripts.script import ScriptError

PRODUCER_IDS_PER_BLOCK = 1000
TURNS_MAX = 1000
TICKS_MAX = 1000
"""Of one `advance`: a longer one has longer ticks."""


@dataclass(slots=True)
class Topic:
    name: str
    configs: dict[str, str]
    partitions: dict[int, PartitionMetadata] = field(default_factory=dict)

    @property
    def topic_id(self) -> bytes:
        return self.name.encode().ljust(16, b".")[:16]

    def metadata(self, *numbers: int) -> TopicMetadata:
        """Describe these partitions, or all of them."""
        chosen = [self.partitions[number] for number in numbers or sorted(self.partitions)]
        return TopicMetadata(self.name, self.topic_id, dict(self.configs), chosen)


@dataclass(slots=True)
class Link:
    """A follower's stream to its leader. `requests` and `responses` are on their way."""

    stream_id: int
    requests: deque[ReplicateRequest] = field(default_factory=deque)
    responses: deque[ReplicateResponse] = field(default_factory=deque)


class Cluster:
    """`on_outputs` gets the messages of each turn that are for clients; `say` gets a line for the transcript."""

    def __init__(self, configure: Callable[[int], LogstoreConfig]) -> None:
        self.now_ms = 0
        self.topics: dict[str, Topic] = {}
        self.nodes: dict[int, Node] = {}
        self.transaction_version = 2
        self.on_outputs: Callable[[Node, Outputs], None] = lambda node, outputs: None
        self.lines: list[str] = []
        self.asked: dict[int, AlterPartitionRequest] = {}
        """The AlterPartition that each leader waits for."""
        self.links: dict[tuple[int, int], Link] = {}
        """By follower and leader."""
        self._configure = configure
        self._seen: dict[tuple[int, str, int], tuple[bytes, list[StoredBatch]]] = {}
        """Each log by node, topic and partition: its bytes, and what is in them."""
        self._peers: dict[tuple[int, int], int] = {}
        """Streams of transaction coordinators, by their node and the leader's: the id at the leader."""
        self._broker_epochs: dict[int, int] = {}
        self._revision = count(1)
        self._next_producer_id = PRODUCER_IDS_PER_BLOCK
        self._member_ids = count(1)
        self._said_at_ms = 0
        self._has_arrived = False
        """Whether a message has reached a logstore in the present round of turns."""

    # --- what is said -------------------------------------------------------------------------------------------------

    def say(self, line: str) -> None:
        """Add a line, after the time if that has passed since the last one."""
        if self.now_ms != self._said_at_ms:
            self._said_at_ms = self.now_ms
            self.lines.append(f"-- {self.now_ms / 1000:g}s")
        self.lines.append(line)

    def take_lines(self) -> list[str]:
        lines, self.lines = self.lines, []
        return lines

    def _observe_logs(self, node: Node) -> None:
        """Say which records the node's logs have got or lost."""
        for topic in self.topics.values():
            for number in topic.partitions:
                data = stored_log(node.disk, topic.name, number)
                before, known = self._seen.get((node.node_id, topic.name, number), (b"", []))
                if data == before:
                    continue
                found = batches_of(topic.name, data)
                same = len(_common(known, found))
                where = f"{topic.name}-{number}" + (f" on {node.node_id}" if len(self.nodes) > 1 else "")
                if same < len(known):
                    end = found[-1].next_offset if found else 0
                    self.say(f"  {where} truncated to {min(end, known[same].base_offset)}")
                for batch in found[same:]:
                    for line in batch.lines:
                        self.say(f"  {where} {line}")
                self._seen[node.node_id, topic.name, number] = data, found

    # --- nodes --------------------------------------------------------------------------------------------------------

    def node(self, node_id: int) -> Node:
        """Return a logstore, which is started when it is first named."""
        if node_id not in self.nodes:
            self.nodes[node_id] = Node(self._configure(node_id), self._make_member_id)
            self._broker_epochs[node_id] = self.nodes[node_id].broker_epoch
            self.send_metadata()
        return self.nodes[node_id]

    def _make_member_id(self, prefix: str) -> str:
        return f"{prefix}-{next(self._member_ids)}"

    def broker_epoch(self, node_id: int) -> int:
        """Return the epoch under which a broker is registered, one that a transcript speaks for too."""
        return self._broker_epochs.setdefault(node_id, 100 + node_id)

    def restart(self, node_id: int) -> None:
        """End a logstore's process and start it again, registered under another epoch."""
        node = self.nodes[node_id]
        node.restart()
        self._broker_epochs[node_id] = node.broker_epoch
        for pair in [each for each in self.links if node_id in each]:
            self._close(pair)
        for peers in [each for each in self._peers if node_id in each]:
            del self._peers[peers]
            if peers[0] != node_id:
                self.nodes[peers[0]].core.transactions.on_peer_lost(node_id)
        self.asked.pop(node_id, None)
        self.send_metadata()

    # --- the controller -----------------------------------------------------------------------------------------------

    def partition(self, topic: str, number: int) -> PartitionMetadata:
        """Return a partition as the controller has it."""
        if topic not in self.topics or number not in self.topics[topic].partitions:
            raise ScriptError(f"{topic}-{number} has no leader yet: lead {topic}-{number} leader=1 epoch=0")
        return self.topics[topic].partitions[number]

    def leader(self, topic: str, number: int) -> Node:
        return self.node(self.partition(topic, number).leader)

    def lead(self, topic: str, state: PartitionMetadata, configs: dict[str, str], to: list[int]) -> None:
        """Send a partition's next state to these logstores, or to all that have a replica."""
        described = self.topics.setdefault(topic, Topic(topic, configs))
        described.configs |= configs
        before = described.partitions.get(state.partition)
        partition_epoch = 0 if before is None else before.partition_epoch + 1
        described.partitions[state.partition] = _with_epoch(state, partition_epoch)
        for node_id in state.replicas:
            self.broker_epoch(node_id)
        receivers = to or [each for each in state.replicas if each in self.nodes or each == state.leader]
        for node_id in receivers:
            update = LeaderAndIsr(False, [described.metadata(state.partition)], revision=next(self._revision))
            self.node(node_id).command(update)
        self.send_metadata(*receivers)

    def send_metadata(self, *node_ids: int) -> None:
        """Tell these logstores, or all, about all brokers and topics."""
        brokers = [Broker(each, f"host-{each}:9300", epoch) for each, epoch in sorted(self._broker_epochs.items())]
        update = UpdateMetadata(
            next(self._revision),
            full=True,
            cluster_id=CLUSTER_ID,
            controller_epoch=CONTROLLER_EPOCH,
            brokers=brokers,
            purgatories=[],
            topics=[topic.metadata() for topic in self.topics.values() if topic.partitions],
            finalized_features=finalized_features(1, {TRANSACTION_VERSION: self.transaction_version}),
        )
        for node_id in node_ids or list(self.nodes):
            self.nodes[node_id].command(update)

    # --- time ---------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Take turns until no logstore has anything to do. Time stands still."""
        for _ in range(TURNS_MAX):
            self._has_arrived = False
            for node in list(self.nodes.values()):
                self._turn(node)
            if not any(node.core.has_work for node in self.nodes.values()) and not self._has_arrived:
                return
        raise AssertionError("the cluster does not come to rest")

    def arrived(self) -> None:
        """A message was delivered to a logstore: it is to take a turn."""
        self._has_arrived = True

    def _turn(self, node: Node) -> None:
        outputs = node.turn(self.now_ms, lambda: self._observe_logs(node))
        self._deliver(node, outputs)

    def advance(self, ms: int) -> None:
        """Let time pass, to every deadline on the way."""
        end_ms = self.now_ms + ms
        tick_ms = max(TICK_MS, ms // TICKS_MAX)
        next_tick_ms = self.now_ms + tick_ms
        while self.now_ms < end_ms:
            deadlines = [node.core.next_deadline_ms() for node in self.nodes.values()]
            due_ms = min([next_tick_ms, end_ms, *(each for each in deadlines if each is not None)])
            self.now_ms = max(due_ms, self.now_ms + 1)
            if self.now_ms >= next_tick_ms:
                next_tick_ms = self.now_ms + tick_ms
                for node in self.nodes.values():
                    node.tick(self.now_ms)
            self.settle()

    # --- between processes --------------------------------------------------------------------------------------------

    def _deliver(self, node: Node, outputs: Outputs) -> None:
        for _, response in outputs.controls:
            for each in response.partition_errors:
                self.say(f"  LeaderAndIsr to {node.node_id} -> {ErrorCode(each.error_code).name}")
        for problem in outputs.coordination_problems:
            self.say(f"  {node.node_id} reports: {problem}")
        self._replicate(node, outputs.replication)
        if outputs.transactions is not None:
            if outputs.transactions.wants_producer_ids:
                node.core.transactions.on_producer_ids(self._next_producer_id, PRODUCER_IDS_PER_BLOCK)
                self._next_producer_id += PRODUCER_IDS_PER_BLOCK
                self.arrived()
            for link in outputs.transactions.links or []:
                self._open_peer(node, link.peer.node_id, link.hello)
            for leader_id, request in outputs.transactions.requests:
                if leader_id in self.nodes:
                    stream_id = self._peers[node.node_id, leader_id]
                    self.nodes[leader_id].core.on_coordinate(stream_id, request)
                    self.arrived()
        for stream_id, answered in outputs.coordinations:
            self._answer_peer(node, stream_id, answered)
        self.on_outputs(node, outputs)

    def _open_peer(self, node: Node, leader_id: int, hello: Hello) -> None:
        if (node.node_id, leader_id) not in self._peers and leader_id in self.nodes:
            leader = self.nodes[leader_id]
            stream_id = self._peers[node.node_id, leader_id] = next(leader.peer_streams)
            leader.core.on_coordinate(stream_id, CoordinateRequest(hello))
            self.arrived()

    def _answer_peer(self, leader: Node, stream_id: int, answered: CoordinateResponse) -> None:
        for (node_id, leader_id), each in self._peers.items():
            if (leader_id, each) == (leader.node_id, stream_id):
                self.nodes[node_id].core.transactions.on_peer_response(leader_id, answered)
                self.arrived()

    def _replicate(self, node: Node, outputs: ReplicationOutputs) -> None:
        if outputs.links is not None:
            wanted = {link.leader.node_id for link in outputs.links}
            for pair in [each for each in self.links if each[0] == node.node_id and each[1] not in wanted]:
                self._close(pair)
        for link in outputs.links or []:
            pair = (node.node_id, link.leader.node_id)
            if pair not in self.links and pair[1] in self.nodes:
                self.links[pair] = Link(next(self.nodes[pair[1]].peer_streams))
                self.links[pair].requests.append(ReplicateRequest(hello=link.hello))
        for leader_id, request in outputs.requests:
            if (node.node_id, leader_id) in self.links:
                self.links[node.node_id, leader_id].requests.append(request)
        for stream_id, response in outputs.responses:
            for (_, leader_id), each in self.links.items():
                if (leader_id, each.stream_id) == (node.node_id, stream_id):
                    each.responses.append(response)
        if outputs.alter_partition is not None:
            self.asked[node.node_id] = outputs.alter_partition
            for change in outputs.alter_partition.partitions:
                members = ",".join(f"{each.broker_id}@{each.broker_epoch}" for each in change.in_sync_replicas)
                name = self.name_of(change.topic_id)
                self.say(
                    f"  AlterPartition from {node.node_id}: {name}-{change.partition} isr=[{members}] "
                    f"leader-epoch={change.leader_epoch} partition-epoch={change.partition_epoch}"
                )

    def _close(self, pair: tuple[int, int]) -> None:
        """End a follower's stream; its leader learns of it."""
        self.nodes[pair[1]].core.on_stream_closed(self.links.pop(pair).stream_id)
        self.arrived()

    def name_of(self, topic_id: bytes) -> str:
        return next(each.name for each in self.topics.values() if each.topic_id == topic_id)


def _common(before: list[StoredBatch], after: list[StoredBatch]) -> list[StoredBatch]:
    """Return the batches that both begin with."""
    same: list[StoredBatch] = []
    for old, new in zip(before, after, strict=False):
        if old.content != new.content:
            break
        same.append(new)
    return same


def _with_epoch(state: PartitionMetadata, partition_epoch: int) -> PartitionMetadata:
    return PartitionMetadata(
        state.partition, state.leader, state.leader_epoch, partition_epoch, state.replicas, state.in_sync_replicas
    )
