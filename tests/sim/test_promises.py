"""What the book of promises asks of whom."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from msgspec import structs

from barnabas.cluster.keys import PartitionRecord, TopicRecord
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from tests.sim.history import History
from tests.sim.nodes.logstore import LogstoreNode
from tests.sim.promises import Promises
from tests.sim.replica_logs import Batch, ReplicaLog
from tests.sim.scheduler import InvariantViolation

KEY = (b"t" * 16, 0)
MOVING = PartitionRecord(
    leader=2,
    leader_epoch=0,
    partition_epoch=1,
    replicas=(2, 3, 1),
    in_sync_replicas=(2, 1),
    leader_broker_epoch=9,
    adding_replicas=(3,),
    removing_replicas=(1,),
)
MOVED = structs.replace(
    MOVING,
    leader_epoch=1,
    partition_epoch=2,
    replicas=(2, 3),
    in_sync_replicas=(),
    adding_replicas=(),
    removing_replicas=(),
)


def test_a_member_without_what_is_committed_is_noticed_until_it_is_a_replica_no_longer() -> None:
    """The leader hears late that the move has ended: what it commits till then another one need not have, who has given
    up its replica, and whose last fetch is on its way.
    """
    promises = Promises(History())
    promise = promises.of(KEY)
    promise.book.add([], 20, 0)
    one = structs.replace(MOVING, in_sync_replicas=(1,))
    promises.elections.current[KEY] = MOVING
    with pytest.raises(InvariantViolation, match="I2: 1 is in sync"):
        promises._check_complete(KEY, promise, one)
    promises.elections.current[KEY] = MOVED
    promises._check_complete(KEY, promise, one)


class _Node:
    node_id = 2


@pytest.mark.parametrize(("is_unclean", "loss_floor"), [(True, 12), (False, None)])
def test_the_leader_of_an_unclean_election_may_have_the_only_copy(is_unclean: bool, loss_floor: int | None) -> None:
    """Seed 704 of checkpoint_lost, kill_logstore and power_cut: it started alone, as it has to, and its host lost power
    before another one had joined it.
    """
    promises = Promises(History())
    promises.elections._min_isr[KEY[0]] = 2
    promises.elections.current[KEY] = structs.replace(MOVED, in_sync_replicas=(2,))
    promise = promises.of(KEY)
    promise.book.add([], 20, 0)
    promise.unclean_epoch = 1 if is_unclean else -1
    promise.replicas[2] = ReplicaLog(cast("PartitionLog", None), end=20, agreed_end=20, flushed=12)
    promises.power_lost(cast("LogstoreNode", _Node()))
    assert promise.loss_floor == loss_floor


class _Opened:
    """A process that has found no log of the partition."""

    name = "logstore-2"
    node_id = 2
    partitions: tuple[()] = ()


@pytest.mark.parametrize("starts_over", [False, True])
def test_only_a_process_that_dies_as_its_log_starts_over_may_leave_nothing(starts_over: bool) -> None:
    """Seed 58 with exceptions: retention had removed from the leader all that a follower had, which was ended by an
    exception between the removal of its segments and the creation of the first new one.
    """
    promises = Promises(History())
    promises.elections.current[KEY] = structs.replace(MOVED, in_sync_replicas=(3,))
    promise = promises.of(KEY)
    promise.book.add([], 20, 0)
    replica = promise.replicas[2] = ReplicaLog(cast("PartitionLog", None), end=20, agreed_end=20)
    replica.starts_over = starts_over
    node = cast("LogstoreNode", _Opened())
    if starts_over:
        promises.opened(node)
        return
    with pytest.raises(InvariantViolation, match=r"I8: .* up to 0 after a restart, it was up to 20"):
        promises.opened(node)


@pytest.mark.parametrize(("start", "is_kept"), [(12, False), (11, True)])
def test_a_log_that_has_started_over_keeps_nothing_that_was_flushed_before(start: int, is_kept: bool) -> None:
    """Seed 519 with exceptions: a follower had started over at its leader's start, beyond all that it had flushed, and
    stayed without a record. Then its host lost power, and with it the first segment's name.
    """
    promises = Promises(History())
    promises.elections.current[KEY] = structs.replace(MOVED, in_sync_replicas=(3,))
    promise = promises.of(KEY)
    promise.book.add([], 20, 0)
    promise.replicas[2] = ReplicaLog(cast("PartitionLog", None), start=start, end=20, agreed_end=20, flushed=12)
    node = cast("LogstoreNode", _Opened())
    promises.power_lost(node)
    if not is_kept:
        promises.opened(node)
        return
    with pytest.raises(InvariantViolation, match=r"I8: .* up to 0 after a restart, it was up to 12"):
        promises.opened(node)


@pytest.mark.parametrize("is_removed", [False, True])
def test_a_follower_may_cut_what_is_committed_and_cleaned(is_removed: bool) -> None:
    """Seeds 462 and 480 with exceptions: a replica was away while the others cleaned, and led by one that had got its
    log after that, without a batch of some epochs.
    """
    promises = Promises(History())
    promise = promises.of(KEY)
    promise.book.add([], 20, 0)
    log = cast("PartitionLog", SimpleNamespace())
    replica = promise.replicas[2] = ReplicaLog(log, end=20, agreed_end=20)
    of_epoch = SimpleNamespace(base_offset=12, next_offset=20, whole=SimpleNamespace(is_removed=is_removed))
    replica.batches, replica.bases = [cast("Batch", of_epoch)], [12]
    node, partition = cast("LogstoreNode", _Opened()), cast("Partition", SimpleNamespace(key=KEY, log=log))
    if is_removed:
        promises.cut(node, partition, 12, truncate_fully=False)
        assert replica.end == 12
        return
    with pytest.raises(InvariantViolation, match=r"I8: .* cuts .* at 12, of which up to 20 is committed"):
        promises.cut(node, partition, 12, truncate_fully=False)


def _replica(log_start_offset: int) -> ReplicaLog:
    log = cast("PartitionLog", SimpleNamespace(log_start_offset=log_start_offset))
    return ReplicaLog(log, end=20, agreed_end=log_start_offset)


@pytest.mark.parametrize("is_shortened", [False, True])
def test_a_member_need_not_have_what_its_leader_has_deleted(is_shortened: bool) -> None:
    """Seed 139 with exceptions: it hears of its leader's start with the first answer, as Kafka's followers do."""
    history = History()
    promises = Promises(history)
    promises.elections.topics[KEY[0]] = TopicRecord("orders", KEY[0], 1, 2, {})
    promises.elections.current[KEY] = member = structs.replace(MOVED, in_sync_replicas=(2, 3))
    if is_shortened:
        history.shortened["orders", KEY[1]] = None
    promise = promises.of(KEY)
    of_leader = SimpleNamespace(base_offset=12, next_offset=20, whole=SimpleNamespace(is_removed=False))
    promise.book.add([cast("Batch", of_leader)], 20, 0)
    promise.replicas = {2: _replica(20), 3: _replica(12)}
    if is_shortened:
        promises._check_complete(KEY, promise, member)
        return
    with pytest.raises(InvariantViolation, match="I2: 3 is in sync"):
        promises._check_complete(KEY, promise, member)


def test_shortages_of_replicas_in_sync_are_counted_as_they_begin_and_end() -> None:
    elections = Promises(History()).elections
    topic = TopicRecord("t", KEY[0], 1, 2, {"min.insync.replicas": "2"})
    elections.topics[KEY[0]] = topic
    seen = []
    for members in ((2, 1), (2,), (2,), (2, 1), (1,)):
        elections._count_shortages(KEY, structs.replace(MOVING, in_sync_replicas=members))
        seen.append(elections.shortages_of(KEY))
    assert seen == [(0, 0), (1, 0), (1, 0), (1, 1), (2, 1)]
