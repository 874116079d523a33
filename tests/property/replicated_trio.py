"""Three logstore cores that replicate one partition, and everything around them that chance can make worse.

The cores are those of production, over model disks that forget what was not flushed. Streams keep the order of their
messages and break at any moment; effects are carried out in any order; commands of the controller come late, and its
answers to leaders get lost. The controller here is the least one that keeps correctness's rules: it elects from the
live ISR, bumps epochs, answers AlterPartition, and takes a logstore that has crashed out of the ISR unless it is the
last one in it. Machines lose power only while another replica is in the ISR: the durability that is claimed.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from random import Random

from barnabas.channel.generated.packing import (
    pack_replicate_request,
    scan_replicate_request,
    scan_replicate_response,
)
from barnabas.channel.messages import Append, ExchangeRequest, ReplicateRequest
from barnabas.cluster.administration import DeleteRecordsPartition, DeleteRecordsRequest
from barnabas.cluster.messages import (
    AlterPartitionResponse,
    Broker,
    ControlRequest,
    IsrChange,
    IsrChangeResult,
    LeaderAndIsr,
    PartitionMetadata,
    TopicMetadata,
    UpdateMetadata,
)
from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import DiskErrorKind
from barnabas.wire.errors import ErrorCode
from tests.property.replicated_node import (
    CLUSTER_ID,
    EXCHANGE,
    LAG_MS_MAX,
    MIN_ISR,
    NODES,
    TOPIC,
    TOPIC_ID,
    Connection,
    Node,
    StoredBatch,
    ViolationError,
)
from tests.sim.disk_model import Fault
from tests.unit.logstore.service.support import batch


class Trio:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_ms = 0
        self.revisions = count(1)
        self.sequences = count(1)
        self.request_ids = count(1)
        self.trouble_rate = self.random.choice((0.005, 0.02, 0.05))
        self.fetch_bytes = self.random.choice(((1 << 20, 1 << 20), (500, 200), (3000, 1000)))
        # Smaller than the config allows: every run shall roll.
        self.topic_config = replace(
            TopicConfig(),
            min_insync_replicas=MIN_ISR,
            segment_bytes=self.random.choice((300, 1000, 100_000)),
            index_interval_bytes=self.random.choice((0, 200, 4096)),
            flush_messages=self.random.choice((1, 3, 1_000_000_000)),
        )
        self.leader, self.leader_epoch, self.partition_epoch = 1, 0, 0
        self.isr = list(NODES)
        self.nodes = {node_id: Node(node_id, self) for node_id in NODES}
        self.connections: list[Connection] = []
        self.half_open: list[Connection] = []
        self.committed: dict[int, StoredBatch] = {}
        """By base offset: what a leader has called committed."""
        self.committed_end = 0
        self.hits: dict[str, int] = {}
        for node in self.nodes.values():
            node.start()
        self.tell_all()

    def hit(self, what: str) -> None:
        self.hits[what] = self.hits.get(what, 0) + 1

    # --- the controller ---

    def live(self, node_id: int) -> bool:
        return self.nodes[node_id].core is not None

    def tell_all(self) -> None:
        for node in self.nodes.values():
            self.tell(node)

    def tell(self, node: Node) -> None:
        if node.core is None:
            return
        state = PartitionMetadata(
            0, self.leader, self.leader_epoch, self.partition_epoch, tuple(NODES), tuple(self.isr)
        )
        topic = TopicMetadata(TOPIC, TOPIC_ID, {}, [state])
        brokers = [Broker(each.node_id, "", each.broker_epoch) for each in self.nodes.values() if each.core is not None]
        update = UpdateMetadata(next(self.revisions), True, CLUSTER_ID, 1, brokers, [], [topic], [])
        for body in ({"leader_and_isr": LeaderAndIsr(True, [topic])}, {"update_metadata": update}):
            node.commands.append(ControlRequest(next(self.sequences), 1, node.broker_epoch, **body))

    def elect(self, node_id: int) -> None:
        self.leader = node_id
        self.leader_epoch += 1
        self.partition_epoch += 1
        self.tell_all()

    def crashed(self, node_id: int) -> None:
        """The controller has noticed: out of the ISR, unless it is the last one, and another leader if it led."""
        if node_id in self.isr and len(self.isr) > 1:
            self.isr.remove(node_id)
            self.partition_epoch += 1
        if self.leader == node_id:
            live = [each for each in self.isr if self.live(each)]
            self.elect(self.random.choice(live) if live else -1)
        self.tell_all()

    def decide(self, node: Node) -> None:
        """AlterPartition; the answer, the request or both may get lost."""
        request, node.alter_partition = node.alter_partition, None
        assert request is not None
        assert node.core is not None
        fate = self.random.random()
        response = None
        if fate > 0.15:
            response = AlterPartitionResponse(0, [self._alter(node, change) for change in request.partitions])
        node.answers.append(response if fate > 0.3 else None)

    def answer(self, node: Node) -> None:
        assert node.core is not None
        node.core.on_alter_partition(node.answers.popleft())

    def _alter(self, node: Node, change: IsrChange) -> IsrChangeResult:
        members = [member.broker_id for member in change.in_sync_replicas]
        if change.leader_epoch < self.leader_epoch or node.node_id != self.leader:
            return IsrChangeResult(ErrorCode.FENCED_LEADER_EPOCH)
        if set(members) != set(self.isr):
            if change.partition_epoch != self.partition_epoch:
                return IsrChangeResult(ErrorCode.INVALID_UPDATE_VERSION)
            for member in change.in_sync_replicas:
                known = self.nodes[member.broker_id]
                if known.core is None or member.broker_epoch not in (-1, known.broker_epoch):
                    self.hit("ineligible")
                    return IsrChangeResult(ErrorCode.INELIGIBLE_REPLICA)
            self.hit("expansion" if len(members) > len(self.isr) else "shrink")
            self.isr = members
            self.partition_epoch += 1
            if self.random.random() < 0.5:
                self.tell_all()
        return IsrChangeResult(0, self.leader, self.leader_epoch, self.partition_epoch, list(self.isr))

    # --- the network ---

    def connect(self, node: Node) -> None:
        assert node.core is not None
        connected = {each.leader.node_id for each in self.connections if each.follower is node}
        for link in node.wanted:
            leader = self.nodes[link.leader.node_id]
            is_it = leader.core is not None and leader.broker_epoch == link.leader.broker_epoch
            if leader.node_id not in connected and is_it:
                connection = Connection(node, leader, leader.life, next(leader.stream_ids))
                connection.to_leader.append(pack_replicate_request(ReplicateRequest(hello=link.hello)))
                self.connections.append(connection)

    def disconnect(self, connection: Connection) -> None:
        self.connections.remove(connection)
        if connection.follower.core is not None:
            connection.follower.core.on_leader_lost(connection.leader.node_id)
        if self.random.random() < 0.5:
            self.half_open.append(connection)
        else:
            self._end(connection)

    def _end(self, connection: Connection) -> None:
        leader = connection.leader
        if leader.core is not None and leader.life == connection.leader_life:
            leader.core.on_stream_closed(connection.stream_id)

    def end_half_open(self) -> None:
        while self.half_open:
            self._end(self.half_open.pop())

    def deliver(self, connection: Connection, *, to_leader: bool) -> None:
        if to_leader:
            assert connection.leader.core is not None
            message = scan_replicate_request(connection.to_leader.popleft())
            connection.leader.core.on_replicate(connection.stream_id, message)
        else:
            assert connection.follower.core is not None
            answer = scan_replicate_response(connection.to_follower.popleft())
            connection.follower.core.on_leader_response(connection.leader.node_id, answer)

    # --- what chance does ---

    def crash(self, node: Node, *, lose_power: bool) -> None:
        self.hit("power cut" if lose_power else "kill")
        for connection in list(self.connections):
            if node in (connection.follower, connection.leader):
                self.disconnect(connection)
        node.stop(lose_power=lose_power)
        self.crashed(node.node_id)

    def restart(self, node: Node) -> None:
        node.start()
        if self.leader == -1 and node.node_id in self.isr:
            self.elect(node.node_id)
        self.tell_all()

    def append(self, node: Node) -> None:
        partition = node.partition
        if node.core is None or partition is None:
            return
        records = batch(self.random.randint(1, 3), value_bytes=self.random.choice((0, 20, 150)))
        epoch = partition.leader_epoch
        request = Append(next(self.request_ids), TOPIC_ID, 0, epoch, self.random.choice((-1, 1)), records)
        node.core.on_exchange(EXCHANGE, ExchangeRequest(appends=[request]))

    def act(self) -> None:
        """One thing, of all that could happen now."""
        random = self.random
        running = [node for node in self.nodes.values() if node.core is not None]
        if random.random() < self.trouble_rate:
            self._make_trouble(running)
            return
        fate = random.random()
        if fate < 0.25 and running:
            random.choice(running).turn()
        elif fate < 0.45:
            ready = [node for node in running if node.held]
            if ready:
                node = random.choice(ready)
                node.run_effect(random.randrange(len(node.held)) if random.random() < 0.3 else 0)
        elif fate < 0.68:
            ends = [(each, True) for each in self.connections if each.to_leader]
            ends += [(each, False) for each in self.connections if each.to_follower]
            if ends:
                connection, to_leader = random.choice(ends)
                self.deliver(connection, to_leader=to_leader)
        elif fate < 0.76 and running:
            self.append(random.choice([*running, self.nodes.get(self.leader) or running[0]]))
        elif fate < 0.82:
            commanded = [node for node in running if node.commands]
            if commanded:
                node = random.choice(commanded)
                assert node.core is not None
                node.core.on_control(2, node.commands.popleft())
        elif fate < 0.88:
            self.pass_time(random.choice((1, 20, 100, 400)))
        elif fate < 0.92:
            asking = [node for node in running if node.alter_partition is not None or node.answers]
            if asking:
                node = random.choice(asking)
                self.decide(node) if node.alter_partition is not None else self.answer(node)
        elif running:
            self.connect(random.choice(running))

    def _make_trouble(self, running: list[Node]) -> None:
        random = self.random
        trouble = random.random()
        if trouble < 0.25 and self.connections:
            self.hit("disconnect")
            self.disconnect(random.choice(self.connections))
        elif trouble < 0.45:
            live = [node_id for node_id in self.isr if self.live(node_id)]
            if live:
                self.hit("election")
                self.elect(random.choice(live))
        elif trouble < 0.55 and running:
            node = random.choice(running)
            others = [each for each in self.isr if each != node.node_id and self.live(each)]
            if others or node.node_id not in self.isr:
                self.crash(node, lose_power=True)
        elif trouble < 0.65 and running:
            self.crash(random.choice(running), lose_power=False)
        elif trouble < 0.85:
            dead = [node for node in self.nodes.values() if node.core is None]
            if dead:
                self.restart(random.choice(dead))
        elif trouble < 0.88:
            self.end_half_open()
        elif trouble < 0.9:
            self.delete_records()
        elif trouble < 0.95 and running:
            self.hit("full disk")
            fault = Fault("write_at", "", DiskErrorKind.NO_SPACE, skip=random.randint(0, 5), written_bytes=30)
            random.choice(running).disk.faults.append(fault)
        else:
            self.pass_time(LAG_MS_MAX)

    def delete_records(self) -> None:
        """At the leader, up to anywhere: batches are not cut, and a log may begin in the midst of one."""
        node = self.nodes.get(self.leader)
        partition = node.partition if node is not None else None
        if node is None or node.core is None or partition is None or not partition.leading:
            return
        self.hit("records deleted")
        offset = self.random.randint(partition.log.log_start_offset, partition.high_watermark)
        request = DeleteRecordsRequest(1000, [DeleteRecordsPartition(TOPIC_ID, 0, offset)])
        node.core.on_administration(next(self.request_ids), request)

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        for node in self.nodes.values():
            if node.core is not None:
                node.core.tick(self.now_ms)

    # --- what has to hold ---

    def look_at(self, node: Node) -> None:
        """After a turn: watermarks only grow in a term, and what they call committed stays as it is."""
        partition = node.partition
        if partition is None or not partition.online:
            return
        log = partition.log
        is_ordered = log.log_start_offset <= partition.high_watermark <= log.log_end_offset
        if not is_ordered and not log.is_truncating:
            raise ViolationError(
                f"I7: {node.node_id} {log.log_start_offset} {partition.high_watermark} {log.log_end_offset}"
            )
        if not partition.leading:
            return
        epoch, high_watermark = partition.leader_epoch, partition.high_watermark
        known = node.terms.get(epoch, -1)
        if high_watermark < known:
            raise ViolationError(f"I6: {node.node_id} in epoch {epoch}: {known} goes back to {high_watermark}")
        node.terms[epoch] = high_watermark
        is_present = (epoch, partition.partition_epoch) == (self.leader_epoch, self.partition_epoch)
        if is_present and not set(self.isr) <= set(partition.isr.maximal):
            raise ViolationError(f"I4: {self.isr} {partition.isr.maximal}")
        if high_watermark > known:
            self._commit(node, high_watermark)

    def _commit(self, node: Node, high_watermark: int) -> None:
        for each in node.batches():
            if each[1] >= high_watermark:
                break
            before = self.committed.setdefault(each[0], each)
            if before != each:
                raise ViolationError(f"I9: offset {each[0]} was {before[2][12:16]!r} and is {each[2][12:16]!r}")
        self.committed_end = max(self.committed_end, high_watermark)
        partition = node.partition
        if partition is None or partition.leader_epoch != self.leader_epoch:
            return
        for node_id in self.isr:
            member = self.nodes[node_id].partition
            if member is not None and member.log.log_end_offset < high_watermark:
                raise ViolationError(
                    f"I2: {node_id} of {self.isr} ends at {member.log.log_end_offset}, committed up to {high_watermark}"
                )

    def check_members(self) -> None:
        """I1, I2: every replica that may lead has everything that is committed."""
        for node_id in self.isr:
            node = self.nodes[node_id]
            if node.core is not None:
                self._check_complete(node)

    def _check_complete(self, node: Node) -> None:
        held = {each[0]: each for each in node.batches()}
        log_start_offset = 0 if node.partition is None else node.partition.log.log_start_offset
        for base_offset, each in self.committed.items():
            if each[1] >= log_start_offset and held.get(base_offset) != each:
                raise ViolationError(f"I2: {node.node_id} of {self.isr} lacks offset {base_offset}, committed")

    # --- the end ---

    def heal(self) -> None:
        """All replicas are there, nothing breaks any more: all logs become one, and everything in it is committed."""
        for node in self.nodes.values():
            node.disk.faults.clear()
            if node.core is None:
                self.restart(node)
        self.end_half_open()
        if self.leader == -1:
            self.elect(next(node_id for node_id in self.isr if self.live(node_id)))
        self.tell_all()
        for _ in range(400):
            self._settle()
            if self._is_healed():
                break
            self.pass_time(100)
        else:
            raise ViolationError(f"no end: {self.describe()}")
        partitions = [node.partition for node in self.nodes.values()]
        log_start_offset = max(each.log.log_start_offset for each in partitions if each is not None)
        logs = [[each for each in node.batches() if each[1] >= log_start_offset] for node in self.nodes.values()]
        if not logs[0] == logs[1] == logs[2]:
            raise ViolationError(f"the logs differ: {[[each[:2] for each in log] for log in logs]}")
        self.check_members()

    def _settle(self) -> None:
        for node in self.nodes.values():
            if node.core is None:
                self.restart(node)
            assert node.core is not None
            self.connect(node)
            while node.commands:
                node.core.on_control(2, node.commands.popleft())
            for _ in range(3):
                node.turn()
                while node.core is not None and node.held:
                    node.run_effect(0)
            if node.core is not None and node.alter_partition is not None:
                self.decide(node)
            if node.core is not None and node.answers:
                self.answer(node)
        for connection in list(self.connections):
            while connection in self.connections and connection.to_leader:
                self.deliver(connection, to_leader=True)
            while connection in self.connections and connection.to_follower:
                self.deliver(connection, to_leader=False)

    def _is_healed(self) -> bool:
        partitions = [node.partition for node in self.nodes.values()]
        ends = {(each.log.log_end_offset, each.high_watermark) for each in partitions if each is not None}
        is_whole = len(ends) == 1 and all(end == high_watermark for end, high_watermark in ends)
        return None not in partitions and is_whole and set(self.isr) == set(NODES)

    def describe(self) -> str:
        lines = [f"leader {self.leader} epoch {self.leader_epoch}/{self.partition_epoch} isr {self.isr}"]
        for node in self.nodes.values():
            partition = node.partition
            if partition is not None:
                log = partition.log
                lines.append(
                    f"{node.node_id}: epoch {partition.leader_epoch} leading {partition.leading} end "
                    f"{log.log_end_offset} hw {partition.high_watermark} epochs {log.leader_epochs.entries()} "
                    f"isr {partition.isr.committed} {partition.isr.pending} online {partition.online} "
                    f"room {log.no_room}"
                )
        return "\n".join(lines)


def run(seed: int, steps: int = 1000) -> Trio:
    trio = Trio(seed)
    for step in range(steps):
        trio.act()
        if step % 20 == 0:
            trio.check_members()
    trio.heal()
    return trio
