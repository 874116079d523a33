"""What a partition of a producer like librdkafka's can build again."""

from __future__ import annotations

import pytest

from tests.sim.clients.producers.calls import ProducerConfig
from tests.sim.clients.producers.librdkafka_partition import InconsistentError, Partition, Status


def test_a_batch_that_was_regrouped_can_not_be_built_again() -> None:
    """librdkafka ends by a fatal error there ("Unable to reconstruct MessageSet"): a producer of a quiet cluster did so
    as messages timed out, and the model took it for impossible (seed 162 with exceptions).
    """
    partition = Partition(("orders", 0), ProducerConfig())
    for number in range(3):
        partition.append(b"%d" % number, now_ms=0)
    first, *others = partition.queue
    partition.queue.clear()
    # All three were sent as one batch; later the first one and the others failed in two requests.
    first.last_message_id = 3
    partition.retry([first], 0, Status.NOT_PERSISTED, 1_000, 1.0)
    partition.retry(others, 0, Status.NOT_PERSISTED, 1_003, 1.0)
    with pytest.raises(InconsistentError):
        partition.build(0, first.backoff_until_ms)
    assert len(partition.queue) == 3
    request = partition.build(0, others[0].backoff_until_ms)
    assert request is not None
    assert len(request.messages) == 3
