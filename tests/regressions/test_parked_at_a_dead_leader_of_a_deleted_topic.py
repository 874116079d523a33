"""A produce was parked at a leader that died, and its topic was deleted before another replica could lead it.

Nothing was left to end the epoch: the dead leader says nothing, and the topic had no newer epoch in the metadata, as it
was not there any more. The produce waited until its timeout, however long that was.
"""

from __future__ import annotations

from barnabas.channel.messages import Completion, Outcome, ParkProduce, ProduceCondition
from barnabas.cluster.image import ClusterImage
from barnabas.cluster.messages import PartitionMetadata, TopicMetadata, UpdateMetadata
from barnabas.wire.errors import ErrorCode
from barnabas_purgatory.core.purgatory import PurgatoryCore

GATEWAY, LEADER, EPOCH = 7, 1, 4
DELETED, UNKNOWN = b"d" * 16, b"u" * 16


def parked_at_dead_leader() -> tuple[PurgatoryCore, ClusterImage]:
    core, image = PurgatoryCore(now_ms=0), ClusterImage()
    partition = PartitionMetadata(0, LEADER, EPOCH, 9, (1, 2), (1, 2))
    image.apply(UpdateMetadata(1, True, "c", 1, [], [], [TopicMetadata("t", DELETED, {}, [partition])]))
    core.metadata_applied(image)
    core.logstore_up(LEADER)
    for entry_id, topic_id in enumerate((DELETED, UNKNOWN)):
        core.park_produce(
            GATEWAY, ParkProduce(entry_id, 600_000, [ProduceCondition(topic_id, 0, LEADER, EPOCH, 10)]), 0
        )
    core.logstore_down(LEADER)
    core.take_outputs()
    return core, image


def test_a_deletion_ends_what_waits_for_a_dead_leader() -> None:
    core, image = parked_at_dead_leader()
    image.apply(UpdateMetadata(2, False, "c", 1, [], [], [], [DELETED]))
    core.metadata_applied(image)
    failed = Completion(0, Outcome.FENCED, [ErrorCode.NOT_LEADER_OR_FOLLOWER])
    assert core.take_outputs().completions == {GATEWAY: [failed]}
    assert core.entries == 1, "a topic that the metadata does not know yet may well be led"


def test_a_deletion_counts_that_is_learnt_of_by_metadata_in_full() -> None:
    core, image = parked_at_dead_leader()
    image.apply(UpdateMetadata(3, True, "c", 1, [], [], []))
    core.metadata_applied(image)
    assert [each.entry_id for each in core.take_outputs().completions[GATEWAY]] == [0]
