"""What must be true at every moment, seen with the eyes of somebody who sees everything.

The numbers are those of the list of invariants: I5 one leader per epoch, I6 monotone epochs and watermarks, I7 the
order of a log's offsets, I8 nothing acknowledged is lost, I16 bounded memory. I9, I10 and I14 are held by the clients
and their history. The watcher looks at nodes after their turns, so it sees every state that another node can hear of.
"""

from __future__ import annotations

from barnabas.channel.messages import ParkProduce, ParkRequest
from services.logstore.core.partition import Partition
from services.logstore.core.storage.log import PartitionLog
from services.purgatory.core.purgatory import Outputs
from services.purgatory.core.waiting import ProduceWait
from tests.sim.history import History, name
from tests.sim.history import Partition as PartitionKey
from tests.sim.nodes.gateway import GatewayNode
from tests.sim.nodes.logstore import LogstoreNode
from tests.sim.nodes.purgatory import PurgatoryNode
from tests.sim.scheduler import InvariantViolation


class Invariants:
    def __init__(self, history: History) -> None:
        self._history = history
        history.on_acknowledged = self.acknowledged
        # By partition and epoch: who led, and the highest watermark under it.
        self._leaders: dict[tuple[PartitionKey, int], int] = {}
        self._high_watermarks: dict[tuple[PartitionKey, int], int] = {}
        # By partition: the highest watermark that any leader ever had.
        self._committed: dict[PartitionKey, int] = {}
        # By replica of this life: the last (leader epoch, partition epoch, log start).
        self._seen: dict[Partition, tuple[int, int, int]] = {}
        # By partition: what is in the page cache of its only replica, and what is flushed.
        self.written: dict[PartitionKey, int] = {}
        self.flushed: dict[PartitionKey, int] = {}
        # By logstore and partition it has ever hosted: whether its topic promises nothing before a flush.
        self._hosted: dict[str, dict[PartitionKey, bool]] = {}
        # By pod, its life, stream and entry: what waits for a completion.
        self.parked_produces: dict[tuple[str, int, int, int], ParkProduce] = {}
        # By gateway and life: the revision that it answers by.
        self._revisions: dict[tuple[str, int], int] = {}
        self.successes_by_purgatory = 0

    # --- logstores ---------------------------------------------------------------------------------------------------

    def logstore_turned(self, node: LogstoreNode) -> None:
        for partition in node.partitions:
            self._look_at(node, partition)
        core = node.core
        assert core is not None
        waiting = len(core._data_inbox)
        if waiting > core._config.queued_requests_max:
            raise InvariantViolation(f"I16: {node.name} holds {waiting} requests")

    def _look_at(self, node: LogstoreNode, partition: Partition) -> None:
        key, log = partition.key, partition.log
        written = node.written.get(log, log.segments.first.base_offset)
        self.written[key] = written
        self._hosted.setdefault(node.name, {})[key] = log.config.flush_messages == 1
        if not partition.online:
            return
        offsets = (log.log_start_offset, partition.last_stable_offset, partition.high_watermark, log.log_end_offset)
        if list(offsets) != sorted(offsets):
            raise InvariantViolation(f"I7: {name(key)} at {node.name}: start, LSO, HW, LEO are {offsets}")
        if partition.high_watermark > written:
            raise InvariantViolation(
                f"I7: {name(key)} at {node.name}: high watermark {partition.high_watermark}, written up to {written}"
            )
        self._look_at_epochs(node, partition)

    def _look_at_epochs(self, node: LogstoreNode, partition: Partition) -> None:
        key = partition.key
        state = (partition.leader_epoch, partition.partition_epoch, partition.log.log_start_offset)
        before = self._seen.get(partition, state)
        self._seen[partition] = state
        if state[:2] < before[:2] or state[2] < before[2]:
            raise InvariantViolation(f"I6: {name(key)} at {node.name} went from {before} back to {state}")
        if not partition.leading:
            return
        epoch = partition.leader_epoch
        leader = self._leaders.setdefault((key, epoch), node.node_id)
        if leader != node.node_id:
            raise InvariantViolation(f"I5: {name(key)} is led by {leader} and by {node.node_id} in epoch {epoch}")
        highest = self._high_watermarks.get((key, epoch), -1)
        if partition.high_watermark < highest:
            raise InvariantViolation(
                f"I6: {name(key)}: high watermark {partition.high_watermark} after {highest} in epoch {epoch}"
            )
        self._high_watermarks[key, epoch] = partition.high_watermark
        self._committed[key] = max(partition.high_watermark, self._committed.get(key, 0))

    def flushed_upto(self, partition: Partition, offset: int) -> None:
        self.flushed[partition.key] = max(offset, self.flushed.get(partition.key, 0))

    def restarted(self, node: LogstoreNode) -> None:
        """A logstore has opened its logs: what was promised has to be there."""
        for partition in node.partitions:
            end = partition.log.log_end_offset
            self._check_kept(partition.key, partition.log, end)

    def _check_kept(self, key: PartitionKey, log: PartitionLog, end: int) -> None:
        history = self._history.of(key)
        promised = max([*history.acked, *history.consumed], default=-1)
        if promised >= end:
            raise InvariantViolation(f"I8: {name(key)} ends at {end} after a restart, offset {promised} was promised")

    def power_lost(self, node: LogstoreNode) -> None:
        """Before the disk forgets: what is not flushed is a promise no longer, in this life and those before."""
        for key, is_flushed_before_promised in self._hosted.get(node.name, {}).items():
            flushed = self.flushed.get(key, 0)
            history = self._history.of(key)
            beyond = [offset for offset in (*history.acked, *history.consumed) if offset >= flushed]
            if beyond and is_flushed_before_promised:
                raise InvariantViolation(f"I8: {name(key)}: {beyond[0]} is promised, flushed up to {flushed}")
            self._history.power_lost(key, flushed)

    def acknowledged(self, key: PartitionKey, offset: int, acks: int) -> None:
        """Nothing is acknowledged before it is written, nor with acks=all before it is committed."""
        if acks == -1 and offset >= self._committed.get(key, 0):
            raise InvariantViolation(
                f"I8: {name(key)} offset {offset} is acknowledged, committed up to {self._committed.get(key, 0)}"
            )
        if offset >= self.written.get(key, 0):
            raise InvariantViolation(
                f"I8: {name(key)} offset {offset} is acknowledged, written up to {self.written.get(key, 0)}"
            )

    # --- purgatory ---------------------------------------------------------------------------------------------------

    def parked(self, node: PurgatoryNode, stream_id: int, request: ParkRequest) -> None:
        for produce in request.produces:
            self.parked_produces[node.name, node.incarnation, stream_id, produce.entry_id] = produce

    def completed(self, node: PurgatoryNode, outputs: Outputs) -> None:
        """No success that the leader of the same topic id and epoch has not justified, and none twice; and nobody waits
        for what his pod knows already.
        """
        self._check_that_nobody_waits_in_vain(node)
        for stream_id, completions in outputs.completions.items():
            for completion in completions:
                key = (node.name, node.incarnation, stream_id, completion.entry_id)
                produce = self.parked_produces.pop(key, None)
                if produce is None:
                    if completion.error_codes:
                        raise InvariantViolation(f"{node.name} has answered entry {completion.entry_id} twice")
                    continue
                for condition, code in zip(produce.conditions, completion.error_codes, strict=True):
                    if code != 0:
                        continue
                    self.successes_by_purgatory += 1
                    partition = (condition.topic_id, condition.partition)
                    reached = self._high_watermarks.get((partition, condition.leader_epoch), -1)
                    if reached < condition.required_offset:
                        raise InvariantViolation(
                            f"{node.name}: {name(partition)} up to {condition.required_offset} in epoch "
                            f"{condition.leader_epoch} is called committed, where the watermark came to {reached}"
                        )

    def _check_that_nobody_waits_in_vain(self, node: PurgatoryNode) -> None:
        assert node.core is not None
        for watch in node.core._watches:
            for heap in watch.heaps.values():
                for wait in heap:
                    if isinstance(wait, ProduceWait) and wait.judge() is not None:
                        key = (watch.topic_id, watch.partition)
                        raise InvariantViolation(
                            f"{node.name}: offset {wait.required_offset} of {name(key)} waits for {watch.state}"
                        )

    # --- gateways ----------------------------------------------------------------------------------------------------

    def gateway_turned(self, node: GatewayNode) -> None:
        core = node.running
        held, limit = core.request_memory.held_bytes, core.config.queued_request_bytes_max
        if not 0 <= held <= limit + core.config.socket_request_bytes_max:
            raise InvariantViolation(f"I16: {node.name} holds {held} bytes of requests, at most {limit} are allowed")
        life = (node.name, node.incarnation)
        revision, known = core.image.revision, self._revisions.get(life, -1)
        if revision < known:
            raise InvariantViolation(f"I6: {node.name} went back from revision {known} to {revision}")
        self._revisions[life] = revision
