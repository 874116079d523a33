"""Transactional ids whose epochs are nearly used up when their first producer comes.

A coordinator that knows nothing of such an id writes it into its log, with a producer id of its own, as if the id had
been in use for long. What follows is what its clients do: transactions whose ends, time-outs and fences lead past the
last epoch, to the next producer id.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from barnabas.cluster.internal_topics import partition_of_group
from barnabas_logstore.core.coordinator.transactions.transaction import EPOCH_MAX, Transaction
from tests.sim.transactions.shape import STATE_PARTITIONS, TransactionsShape

if TYPE_CHECKING:
    from barnabas_logstore.core.coordinator.transaction_coordination import TransactionCoordination
    from tests.sim.nodes.logstore import LogstoreNode

_LEFT = (0, 0, 1, 1, 2, 3, 5, 8, 16)
"""Epochs before the last one."""
SLOW_SHARE = 0.15
"""Of the transactions, those that time out."""
_TIMEOUT_MS = 2_000
_TIMEOUT_MS_QUIET = 10_000


def begin_at_last_epochs(random: Random, shape: TransactionsShape, *, is_quiet: bool) -> None:
    """Every id of the shape begins near the last epoch, and many of its transactions time out."""
    for habits in (*shape.producers, *shape.loop_habits):
        habits.slow_share = SLOW_SHARE
    for habits in shape.producers:
        habits.timeout_ms = _TIMEOUT_MS_QUIET if is_quiet else _TIMEOUT_MS
    members = len(shape.loop.members) if shape.loop is not None else 0
    ids = [f"transactional-{each}" for each in range(len(shape.producers))]
    ids += [f"loop-{each}" for each in range(members)]
    shape.first_epochs = {each: EPOCH_MAX - 1 - random.choice(_LEFT) for each in ids}


class LastEpochs:
    """`is_known`: whether something is committed of an id."""

    def __init__(self, first_epochs: dict[str, int], is_known: Callable[[str], bool]) -> None:
        self._first_epochs = dict(first_epochs)
        self._is_known = is_known

    def logstore_turned(self, node: LogstoreNode) -> None:
        if not self._first_epochs or node.core is None:
            return
        for transactional_id in list(self._first_epochs):
            if self._is_known(transactional_id):
                del self._first_epochs[transactional_id]
            else:
                self._write(node.core.transactions, transactional_id, node.wall_ms)

    def _write(self, coordination: TransactionCoordination, transactional_id: str, wall_ms: int) -> None:
        partition = partition_of_group(transactional_id, STATE_PARTITIONS)
        for led in coordination.partitions:
            shard = led.shard
            is_new = led.partition == partition and led.loader is None and transactional_id not in shard.transactions
            producer_id = coordination.kind.producer_ids.peek() if is_new and not shard.check() else None
            if producer_id is None:
                continue
            epoch = self._first_epochs[transactional_id]
            unused = Transaction(transactional_id, producer_id, _TIMEOUT_MS, wall_ms, producer_epoch=epoch)
            if not shard.put(unused):
                coordination.kind.producer_ids.use(producer_id)
