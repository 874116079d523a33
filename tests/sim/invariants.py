"""What must be true at every moment, seen by an observer of all processes.

The numbers are those of the list of invariants: I5 one leader per epoch, I6 monotone epochs and watermarks, I7 the
order of a log's offsets, I11 no process acts on a state that was never decided, I16 bounded memory. I1 to I4 and I8 are
in `promises`, I9, I10 and I14 are held by the clients and their history. The watcher looks at a logstore before the
messages of a turn leave it, also of the turn in which it dies, and at the others after their turns: it sees every state
that another node can hear of. It looks only at what has changed.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.channel.messages import GroupState, ParkFetch, ParkProduce, ParkRequest, PartitionState
from barnabas.cluster.messages import NO_EPOCH
from barnabas_logstore.core.replica.in_sync_replicas import PendingIsr
from barnabas_logstore.core.replica.partition import Partition
from barnabas_purgatory.core.outputs import Outputs
from barnabas_purgatory.core.purgatory import PurgatoryCore
from barnabas_purgatory.core.waiting import DelayedFetch, ParkedFetch, ProduceWait
from barnabas_purgatory.core.watches import Measure
from tests.sim.history import Partition as PartitionKey
from tests.sim.history import name
from tests.sim.nodes.gateway import GatewayNode
from tests.sim.nodes.logstore import LogstoreNode
from tests.sim.nodes.purgatory import PurgatoryNode
from tests.sim.promises import Promises
from tests.sim.replica_logs import ReplicaLog
from tests.sim.scheduler import InvariantViolation

# Leader epoch, partition epoch, log start, high watermark, log end, leading, what is asked for the ISR, the committed
# ISR, the leader, online, stopped, elected unclean, appends waiting.
_State = tuple[int, int, int, int, int, bool, PendingIsr | None, tuple[int, ...], int, bool, bool, bool, bool]

_OF_REPLICAS = (Measure.REPLICA_POSITION, Measure.REPLICA_STABLE_POSITION)


class Invariants:
    def __init__(self, promises: Promises) -> None:
        self.promises = promises
        # By partition and epoch: who led, and the highest watermark under it.
        self._leaders: dict[tuple[PartitionKey, int], int] = {}
        self._high_watermarks: dict[tuple[PartitionKey, int], int] = {}
        # By logstore and replica of its present life: what it was when it was looked at last.
        self._seen: dict[str, dict[Partition, _State]] = {}
        # By logstore: the partitions that it has replicas of.
        self._hosted: dict[str, set[PartitionKey]] = {}
        # By pod, its life, stream and entry: what waits for a completion.
        self.parked_produces: dict[tuple[str, int, int, int], ParkProduce] = {}
        self.parked_fetches: dict[tuple[str, int, int, int], ParkFetch] = {}
        # By gateway and life: the revision that it answers by.
        self._revisions: dict[tuple[str, int], int] = {}
        self.successes_by_purgatory = 0
        # Who follows transactions: hears of each replica that has changed, and when a turn was looked at.
        self.replica_changed: Callable[[LogstoreNode, Partition, ReplicaLog], None] = lambda node, partition, log: None
        self.turn_looked_at: Callable[[], None] = lambda: None

    # --- logstores ---------------------------------------------------------------------------------------------------

    def logstore_turned(self, node: LogstoreNode) -> list[Partition]:
        """Look at a logstore after its turn. Return the replicas that are not what they were at the last look."""
        core = node.core
        assert core is not None
        hosted = core._replicas.by_key
        known = self._hosted.get(node.name)
        if known is None or hosted.keys() != known:
            for key in sorted((known or set()) - hosted.keys()):
                self.promises.removed(node, key)
            self._hosted[node.name] = set(hosted)
        seen = self._seen[node.name]
        # Of those that wait for their replicas; an entry stays when the last has been answered.
        pending_of = core._appends._pending.get
        changed: list[Partition] = []
        for partition in hosted.values():
            log = partition.log.state
            isr = partition.isr
            # What follows, here and in `transitions`, is a matter of these alone: most turns change nothing of most
            # partitions.
            state = (
                partition.leader_epoch,
                partition.partition_epoch,
                log.log_start_offset,
                partition.high_watermark,
                log.log_end_offset,
                partition.leading,
                isr.pending,
                isr.committed,
                partition.leader_id,
                partition.online,
                partition.is_stopped,
                partition.leader_recovering,
                bool(pending_of(partition)),
            )
            before = seen.get(partition)
            if state != before:
                seen[partition] = state
                changed.append(partition)
                self._look_at(node, partition, before or state, state)
        self.turn_looked_at()
        waiting = len(core._data_inbox)
        if waiting > core._config.queued_requests_max:
            raise InvariantViolation(f"I16: {node.name} holds {waiting} requests")
        return changed

    def logstore_started(self, node: LogstoreNode) -> None:
        """What it hosts now it has found on its disk."""
        self._hosted.pop(node.name, None)
        self._seen[node.name] = {}

    def _look_at(self, node: LogstoreNode, partition: Partition, before: _State, state: _State) -> None:
        if not partition.online:
            assert node.core is not None
            if not node.core._directories.holds(partition.log):
                # The controller has had it give up its replica; what follows the removal of the log has failed.
                self.promises.removed(node, partition.key)
            return
        key, log = partition.key, partition.log
        offsets = (log.log_start_offset, partition.last_stable_offset, partition.high_watermark, log.log_end_offset)
        if list(offsets) != sorted(offsets) and not log.is_truncating:
            raise InvariantViolation(f"I7: {name(key)} at {node.name}: start, LSO, HW, LEO are {offsets}")
        replica = self.promises.replica(node, partition)
        written = replica.end
        if log.log_end_offset > written:
            raise InvariantViolation(
                f"I7: {name(key)} at {node.name}: log end {log.log_end_offset}, written up to {written}"
            )
        # A follower whose empty log is in the midst of the leader's first batch starts over where that begins.
        is_earlier = log.log_start_offset < before[2] and log.log_start_offset != replica.start
        if state[:2] < before[:2] or is_earlier:
            raise InvariantViolation(f"I6: {name(key)} at {node.name} went from {before} back to {state}")
        if state[:2] != before[:2] or before is state:
            self._check_that_it_was_decided(node, partition)
        assert node.core is not None
        for pending in node.core._appends.pending_of(partition):
            if not pending.answered and (
                not partition.leading or pending.result.leader_epoch < partition.led_since_epoch
            ):
                raise InvariantViolation(
                    f"{node.name}: an append to {name(key)} in epoch {pending.result.leader_epoch} waits still in "
                    f"{partition.leader_epoch}"
                )
        if partition.leading:
            self._look_at_leader(node, partition)
        self.replica_changed(node, partition, replica)

    def _check_that_it_was_decided(self, node: LogstoreNode, partition: Partition) -> None:
        """I11: what a logstore takes for the state of a partition is one that etcd has had, as it was then."""
        if partition.leader_epoch == NO_EPOCH:
            return
        epochs = (partition.leader_epoch, partition.partition_epoch)
        record = self.promises.elections.record_at(partition.key, *epochs)
        if (
            record is None
            or (not partition.is_stopped and record.leader != partition.leader_id)
            or set(record.in_sync_replicas) != set(partition.isr.committed)
        ):
            raise InvariantViolation(
                f"I11: {node.name} has {name(partition.key)} led by {partition.leader_id} in {epochs}, "
                f"in sync {partition.isr.committed}; etcd had {record}"
            )

    def _look_at_leader(self, node: LogstoreNode, partition: Partition) -> None:
        key, epoch = partition.key, partition.leader_epoch
        leader = self._leaders.setdefault((key, epoch), node.node_id)
        if leader != node.node_id:
            raise InvariantViolation(f"I5: {name(key)} is led by {leader} and by {node.node_id} in epoch {epoch}")
        highest = self._high_watermarks.get((key, epoch), -1)
        if partition.high_watermark < highest:
            raise InvariantViolation(
                f"I6: {name(key)}: high watermark {partition.high_watermark} after {highest} in epoch {epoch}"
            )
        # A leader that has led on commits what it appended under the earlier epochs as well. It may not know that
        # others led in between: then it counts for its own.
        for led in range(min(partition.led_since_epoch, epoch), epoch + 1):
            if self._leaders.get((key, led), node.node_id) == node.node_id:
                self._high_watermarks[key, led] = partition.high_watermark
        self.promises.look_at_leader(node, partition)

    # --- purgatory ---------------------------------------------------------------------------------------------------

    def parked(self, node: PurgatoryNode, stream_id: int, request: ParkRequest) -> None:
        for produce in request.produces:
            self.parked_produces[node.name, node.incarnation, stream_id, produce.entry_id] = produce
        for fetch in request.fetches:
            self.parked_fetches[node.name, node.incarnation, stream_id, fetch.entry_id] = fetch
        for entry_id in request.cancels:
            self.parked_fetches.pop((node.name, node.incarnation, stream_id, entry_id), None)

    def completed(self, node: PurgatoryNode, outputs: Outputs) -> None:
        """No success that the leader of the same topic id and epoch has not justified, and none twice; and no entry
        waits for what its pod already knows.
        """
        self._check_that_no_entry_waits_in_vain(node)
        for stream_id, completions in outputs.completions.items():
            for completion in completions:
                key = (node.name, node.incarnation, stream_id, completion.entry_id)
                self.parked_fetches.pop(key, None)
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

    def _check_that_no_entry_waits_in_vain(self, node: PurgatoryNode) -> None:
        assert node.core is not None
        for group_watch in node.core._groups:
            for member in group_watch.waits:
                if _has_come(group_watch.state, member.coordinator_epoch, member.step):
                    raise InvariantViolation(
                        f"{node.name}: step {member.step} of {group_watch.key[2]} under {member.coordinator_epoch} "
                        f"waits for {group_watch.state}"
                    )
        # An entry with many conditions is judged once.
        is_satisfied: dict[ParkedFetch, bool] = {}
        for watch in node.core._watches:
            state = watch.state
            for heap in watch.heaps.values():
                is_over = _is_over(state, heap.leader_epoch, reads_followers=heap.measure in _OF_REPLICAS)
                for wait in heap:
                    if isinstance(wait, ProduceWait):
                        is_in_vain = wait.judge() is not None or (is_over and not _leads_on(state, heap.leader_epoch))
                    else:
                        assert isinstance(wait, DelayedFetch)
                        entry = wait.entry
                        if entry not in is_satisfied:
                            key = (node.name, node.incarnation, entry.stream_id, entry.entry_id)
                            is_satisfied[entry] = has_enough(node.core, self.parked_fetches[key])
                        has_come = is_satisfied[entry] and entry not in node.met_a_fault
                        is_in_vain = is_over or has_come or _is_before_the_start(wait, state)
                    if is_in_vain:
                        raise InvariantViolation(
                            f"{node.name}: {_name_of(wait)} of {name(watch.key)} waits for {state}"
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


def has_enough(core: PurgatoryCore, park: ParkFetch) -> bool:
    """Whether what a pod knows now of all partitions of a fetch adds up to the bytes that it wants."""
    missing = park.bytes_wanted
    for condition in park.conditions:
        watch = core._watches.find(condition.leader_id, (condition.topic_id, condition.partition))
        state = None if watch is None else watch.state
        if watch is None or state is None or state.leader_epoch != condition.leader_epoch or not state.online:
            continue
        if state.leading or condition.from_follower:
            position = watch.stable_position if condition.isolation_level else state.high_watermark_position
            missing -= max(0, position - condition.fetch_position)
    return missing <= 0


def _has_come(state: GroupState | None, coordinator_epoch: int, step: int) -> bool:
    """A group has taken that step, or has another coordinator, or none there."""
    if state is None or -1 < state.coordinator_epoch < coordinator_epoch:
        return False
    return state.coordinator_epoch != coordinator_epoch or state.step >= step


def _is_before_the_start(wait: DelayedFetch, state: PartitionState | None) -> bool:
    """What it wants first is deleted."""
    is_led = state is not None and state.leading and state.leader_epoch == wait.heap.leader_epoch
    return is_led and state is not None and state.log_start_offset > wait.fetch_offset


def _name_of(wait: ProduceWait | DelayedFetch) -> str:
    return f"offset {wait.required_offset}" if isinstance(wait, ProduceWait) else f"a fetch from {wait.fetch_offset}"


def _leads_on(state: PartitionState | None, leader_epoch: int) -> bool:
    return state is not None and state.leads_since(leader_epoch)


def _is_over(state: PartitionState | None, leader_epoch: int, *, reads_followers: bool) -> bool:
    """Nothing will be committed there under that epoch any more, and the pod knows. What is read from a follower may
    come while it follows.
    """
    if state is None or state.leader_epoch < leader_epoch:
        return False
    return state.leader_epoch > leader_epoch or (state.online and not state.leading and not reads_followers)
