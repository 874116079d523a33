"""Obligations of a cluster when all processes are alive and nothing is cut: every request resolves, every partition
accepts a write, every replica exists and equals its leader, everything acknowledged is read, and nothing is held for
any client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.cluster.keys import Keys, PartitionRecord, decode_record
from barnabas.cluster.operation_records import DrainRecord
from barnabas.ports.etcd import Get
from barnabas_logstore.core.replica.partition import Partition
from tests.sim.clients.consumer import Consumer, Taste
from tests.sim.clients.producer import Behaviour, Producer
from tests.sim.clients.producers.process import ProducerProcess
from tests.sim.groups.last_act import LastActOfGroups
from tests.sim.history import Partition as PartitionKey
from tests.sim.history import name
from tests.sim.nodes.logstore import LogstoreNode
from tests.sim.scheduler import MS, SECOND, InvariantViolation
from tests.sim.transactions.last_act import LastActOfTransactions

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster

# The longest that a logstore waits before it looks again at who may come into an ISR, a controller before it repeats.
QUIET_US = 15 * SECOND
# Topics are deleted, partitions moved, replicas caught up.
WHOLE_US_MAX = 60 * SECOND
LOOK_US = 100 * MS


def _has_open(producer: Producer | ProducerProcess) -> bool:
    """Java's client sends a batch that is out of order until its own timeout. A broker of Kafka answers so too, where
    it took what follows without the first batch, or knows only the last one after a restart.
    """
    if isinstance(producer, ProducerProcess) and producer.gaps.sends_in_vain:
        return False
    return producer.has_open_batches or producer.unanswered > 0


class LastAct:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._elections = cluster.promises.elections
        self._keys = Keys()
        self._groups = LastActOfGroups(cluster)
        self._transactions = LastActOfTransactions(cluster)

    def play(self) -> None:
        cluster = self._cluster
        cluster.operator.is_stopping = cluster.mover.is_stopping = True
        self._settle_drains()
        cluster.wait_until(lambda: cluster.operator.is_idle, "the administrator's request is answered")
        cluster.wait_until(lambda: cluster.mover.is_idle, "leaders move no more")
        producers: list[Producer | ProducerProcess] = [*cluster.producers, *cluster.real_producers]
        for producer in producers:
            producer.is_stopping = True
        cluster.wait_until(lambda: not any(_has_open(each) for each in producers), "every produce resolves")
        timeouts_ms = [each.habits.config.delivery_timeout_ms for each in cluster.real_producers]
        cluster.wait_until(
            lambda: not any(each.has_open_batches or each.unanswered for each in producers),
            "what is out of order ends by its client's timeout",
            max(timeouts_ms, default=0) * MS + QUIET_US,
        )
        self._transactions.end_producers()
        self._have_everybody_take_a_write()
        self._groups.play()
        self._transactions.play()
        self._wait_until_it_is_whole()
        self._read_everything()
        self._transactions.read_committed()
        self._check_that_nothing_is_left()

    def _settle_drains(self) -> None:
        """Who is drained stays so in half of the runs, where nothing has to be placed any more; else all are returned,
        which is asked again and again: a controller that is replaced does not answer.
        """
        cluster = self._cluster
        keeps = cluster.operator.has_nothing_to_create and cluster.scheduler.random.random() < 0.5
        for _ in range(0 if keeps else WHOLE_US_MAX // SECOND):
            if not self._drains():
                return
            cluster.operator.return_all()
            cluster.run_for(SECOND)
        if not keeps:
            raise InvariantViolation(f"liveness: logstores can't be returned: {self._drains()}")

    def _drains(self) -> dict[int, DrainRecord]:
        keys, model = self._keys, self._cluster.etcd.model
        found = model.get(Get(keys.operations.drains, keys.operations.drains + "\x7f"))
        records = [decode_record(keys, each.key, each.value) for each in found]
        return {record.node_id: record for record in records if isinstance(record, DrainRecord)}

    # --- writes and replicas -----------------------------------------------------------------------------------------

    def _have_everybody_take_a_write(self) -> None:
        cluster = self._cluster
        behaviour = Behaviour(idempotent=True, acks=-1, version=9, interval_us=SECOND, records_max=1)
        probe = Producer("probe", cluster.client_environment, cluster.shape.partition_counts, behaviour)
        probe.is_stopping = True
        probe.start()
        cluster.wait_until(lambda: probe.is_ready, "a new producer is served")
        for topic, count in cluster.shape.partition_counts.items():
            for partition in range(count):
                probe.produce(topic, partition, [f"probe {topic} {partition}".encode()])
        cluster.wait_until(lambda: not probe.has_open_batches, "every partition takes a write")
        probe.kill()

    def _wait_until_it_is_whole(self) -> None:
        for _ in range(WHOLE_US_MAX // LOOK_US):
            if not self._what_is_not_whole():
                return
            self._cluster.run_for(LOOK_US)
        raise InvariantViolation(f"liveness: not within {WHOLE_US_MAX // SECOND} s: {self._what_is_not_whole()}")

    def _what_is_not_whole(self) -> str:
        """Everything that is there is where it should be, as it should be; or what is not."""
        if self._elections.being_deleted:
            return f"topics are deleted: {[topic_id.hex()[:8] for topic_id in self._elections.being_deleted]}"
        existing = self._elections.existing
        drains = self._drains()
        for key, record in existing.items():
            problem = self._what_is_wrong_with(key, record) or self._what_a_drain_owes(record, drains)
            if problem:
                return f"{name(key)} is whole: {problem}; {record}"
        for node in self._cluster.logstores:
            for partition in node.partitions:
                assigned = existing.get(partition.key)
                if assigned is None or node.node_id not in assigned.replicas:
                    return f"{node.name} gives up {name(partition.key)}"
        return self._unknown_to_services(existing)

    def _what_is_wrong_with(self, key: PartitionKey, record: PartitionRecord) -> str:
        if record.adding_replicas or record.removing_replicas:
            return "it is being moved"
        if set(record.in_sync_replicas) != set(record.replicas) or record.leader not in record.replicas:
            return "not every replica is in sync"
        if record.eligible_leader_replicas or record.leader_recovering:
            return "its leader is not sure of its records"
        leader = self._replica(record.leader, key)
        if leader is None or leader.leader_epoch != record.leader_epoch or not leader.leading:
            return "its leader does not lead"
        book = self._cluster.promises.of(key).book
        for node_id in record.replicas:
            replica = self._replica(node_id, key)
            if replica is None or replica.leader_epoch != record.leader_epoch:
                return f"{node_id} knows nothing of it"
            log = self._cluster.promises.replica(self._cluster.logstores[node_id - 1], replica)
            ends = (replica.high_watermark, replica.log.log_end_offset, log.end, book.agree(log))
            if set(ends) != {leader.high_watermark}:
                return f"{node_id} has watermark, log end, written and agreed {ends} of {leader.high_watermark}"
            # What records were deleted a crash may have the leader forget, never its followers.
            is_later = self._is_shortened(key) and replica.log.log_start_offset > leader.log.log_start_offset
            if replica.log.log_start_offset != leader.log.log_start_offset and not is_later:
                return f"{node_id} begins at {replica.log.log_start_offset}, not {leader.log.log_start_offset}"
        core = self._cluster.logstores[record.leader - 1].core
        if leader.isr.pending is not None or core is None or core._appends.pending_of(leader):
            return "its leader waits for something"
        return ""

    def _what_a_drain_owes(self, record: PartitionRecord, drains: dict[int, DrainRecord]) -> str:
        """All are alive: a drained logstore leads only what no other can lead, and has what has no other place."""
        if record.leader in drains and not set(record.in_sync_replicas) <= set(drains):
            return f"{record.leader} leads it, and is drained"
        node_ids = {node.node_id for node in self._cluster.logstores}
        for node_id in record.replicas:
            drain = drains.get(node_id)
            if drain is not None and drain.move_replicas and node_ids.difference(record.replicas, drains):
                return f"{node_id} has a replica of it, and is drained"
        return ""

    def _is_shortened(self, key: PartitionKey) -> bool:
        return (self._elections.topics[key[0]].topic, key[1]) in self._cluster.history.shortened

    def _replica(self, node_id: int, key: PartitionKey) -> Partition | None:
        partitions = self._cluster.logstores[node_id - 1].partitions
        return next((partition for partition in partitions if partition.key == key), None)

    def _unknown_to_services(self, existing: dict[PartitionKey, PartitionRecord]) -> str:
        """Gateways and logstores know the cluster as etcd does."""
        images = {each.name: each.running.image for each in self._cluster.gateways}
        images |= {each.name: each.core._replicas.image for each in self._cluster.logstores if each.core is not None}
        for holder, image in images.items():
            for key, record in existing.items():
                known = image.partition(*key)
                if known is None or (known.leader, known.leader_epoch) != (record.leader, record.leader_epoch):
                    return f"{holder} knows who leads {name(key)}: {known}, {record}"
            if any(topic_id in self._elections.deleted for topic_id in image.topics_by_id):
                return f"{holder} forgets topics that are deleted"
        return ""

    # --- what was promised -------------------------------------------------------------------------------------------

    def _read_everything(self) -> None:
        cluster = self._cluster
        taste = Taste(12, 100, 1, 0, uses_sessions=cluster.scheduler.random.random() < 0.5)
        reader = Consumer("reader", cluster.client_environment, cluster.shape.partition_counts, taste)
        reader.start()
        cluster.wait_until(reader.has_caught_up, "a new consumer reads everything")
        reader.is_stopping = True
        reader.kill()
        for key, record in self._elections.existing.items():
            leader = self._replica(record.leader, key)
            assert leader is not None
            self._check_that_it_is_kept(key, leader.log.log_start_offset)
            self._check_order(key)

    def _check_that_it_is_kept(self, key: PartitionKey, log_start_offset: int) -> None:
        history = self._cluster.history.of(key)
        lost = [
            offset
            for offset, value in history.acked.items()
            if offset >= log_start_offset
            and history.consumed.get(offset) != value
            and not self._cluster.history.is_cleaned(key, offset, offset + 1)
        ]
        lost_values = [value for value in history.acked_without_offset if value not in history.offset_of]
        if lost or (lost_values and not log_start_offset):
            raise InvariantViolation(f"I8: {name(key)} has lost offsets {lost[:5]} and values {lost_values[:5]}")

    def _check_order(self, key: PartitionKey) -> None:
        """The values of one life of an idempotent producer are in the order in which it sent them."""
        idempotent = {each.name for each in self._cluster.producers if each.behaviour.idempotent}
        if not self._cluster.deliveries.has_forgotten:
            idempotent.update(each.name for each in self._cluster.real_producers)
        newest: dict[bytes, int] = {}
        consumed = self._cluster.history.of(key).consumed
        for offset in sorted(consumed):
            life, number, *_ = consumed[offset].split(b" ")
            if life.split(b".")[0].decode() in idempotent:
                if int(number) <= newest.get(life, -1):
                    raise InvariantViolation(f"{name(key)} offset {offset}: {number!r} of {life!r} comes too late")
                newest[life] = int(number)

    # --- what is left ------------------------------------------------------------------------------------------------

    def _check_that_nothing_is_left(self) -> None:
        """No waiter, no watch, no request and no byte is held when no client wants anything."""
        cluster = self._cluster
        others = (cluster.admin, cluster.operator, cluster.mover, cluster.groups.administrator)
        for client in (*cluster.clients, *cluster.transactions.twins, *others):
            client.kill()
        cluster.run_for(QUIET_US)
        self._groups.check_that_nothing_is_left()
        for purgatory in cluster.purgatories:
            core = purgatory.core
            assert core is not None
            if core.entries or core.watched_partitions:
                raise InvariantViolation(
                    f"{purgatory.name} still holds {core.entries} entries, {core.watched_partitions} watches"
                )
        for gateway in cluster.gateways:
            held = gateway.running.request_memory.held_bytes
            if held:
                raise InvariantViolation(f"{gateway.name} still holds {held} bytes of requests")
        for logstore in cluster.logstores:
            self._check_that_it_holds_nothing(logstore)

    def _check_that_it_holds_nothing(self, node: LogstoreNode) -> None:
        core = node.core
        assert core is not None
        if core._watches._streams:
            raise InvariantViolation(f"{node.name} is still watched")
        slots = sum(len(stream.slots) for stream in core._replication._streams.values())
        followers = sum(len(partition.followers) for partition in node.partitions)
        if slots != followers:
            raise InvariantViolation(f"{node.name} has {slots} slots of sessions for {followers} followers")
        self._check_credits(node)
        # What a pass over one log takes, at most.
        self._cluster.wait_until(lambda: core.is_idle, f"{node.name} is idle")

    def _check_credits(self, node: LogstoreNode) -> None:
        """Whatever became of a request, what it occupied is given back."""
        assert node.core is not None
        for pool in (node.core._credits, node.core._coordination._inbox._credits):
            for stream_id, shares in pool._streams.items():
                outstanding = [share.outstanding for share in shares]
                if any(outstanding):
                    raise InvariantViolation(f"{node.name} never gave back {outstanding} of stream {stream_id}")
