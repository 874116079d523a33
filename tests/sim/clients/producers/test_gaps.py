"""Which reports of a gap are the client's own doing."""

from __future__ import annotations

from barnabas.wire.errors import ErrorCode
from tests.sim.clients.producers.calls import Answer, ProduceCall, ProducerIdAndEpoch, SentBatch
from tests.sim.clients.producers.gaps import Gaps

OLD, NEW = 3, 1
NOT_LEADER = Answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
WRITTEN = Answer(ErrorCode.NONE, 7)


def batch(sequence: int) -> SentBatch:
    return SentBatch(("orders", 6), ProducerIdAndEpoch(9, 0), sequence, (b"value",))


def send(gaps: Gaps, node_id: int, sequence: int) -> None:
    gaps.sent(ProduceCall(node_id, [batch(sequence)]))


def test_what_follows_on_the_same_connection_is_no_gap_of_the_client() -> None:
    gaps = Gaps()
    send(gaps, OLD, 0)
    send(gaps, OLD, 1)
    assert not gaps.is_own(batch(1))


def test_a_batch_that_is_sent_to_the_next_leader_ahead_of_the_one_before_is() -> None:
    gaps = Gaps()
    send(gaps, OLD, 0)
    send(gaps, NEW, 1)
    assert gaps.is_own(batch(1))


def test_so_is_the_one_before_if_a_leader_that_does_not_know_the_producer_has_taken_the_later() -> None:
    """As Kafka's leaders do. Seed 5 of the profile `moving`, with three seconds."""
    gaps = Gaps()
    send(gaps, OLD, 0)
    send(gaps, NEW, 1)
    gaps.answered(batch(1), WRITTEN)
    gaps.answered(batch(0), NOT_LEADER)
    send(gaps, NEW, 0)
    assert gaps.is_own(batch(0))


def test_a_batch_that_is_sent_again_alone_is_none() -> None:
    gaps = Gaps()
    send(gaps, OLD, 0)
    gaps.answered(batch(0), NOT_LEADER)
    send(gaps, NEW, 0)
    assert not gaps.is_own(batch(0))
    gaps.answered(batch(0), WRITTEN)
    send(gaps, NEW, 1)
    assert not gaps.is_own(batch(1))
