"""What was, held against what is: where a reader stands when topics have come, gone, grown or lost records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from barnabas_pipeline.core.cluster import Extents, TopicExtent
from barnabas_pipeline.core.losses import Loss, LossReason
from barnabas_pipeline.core.positions import Positions, TopicPartition, TopicPositions


@dataclass(slots=True)
class Comparison:
    """`standing` is where to go on from: all that is still there, with new partitions and topics at their beginning.

    `moved_back` are partitions whose readable end lies before the position, as it does for a moment at a failover:
    no loss, only nothing to read. `losses` are for who decides whether to go on.
    """

    standing: dict[str, TopicPositions] = field(default_factory=dict)
    losses: list[Loss] = field(default_factory=list)
    moved_back: list[TopicPartition] = field(default_factory=list)
    new: list[TopicPartition] = field(default_factory=list)

    @property
    def has_to_be_kept(self) -> bool:
        """Whether the next batch has to come even without a record: only its end tells the checkpoint what is new, and
        what was jumped over."""
        return bool(self.new) or any(loss.reason is not LossReason.DELETED for loss in self.losses)


def compare(was: Positions, extents: Extents) -> Comparison:
    """Topics that are gone keep their positions: if one comes again, its id tells whether it is the same."""
    comparison = Comparison()
    for topic in sorted({*was, *extents}):
        before, extent = was.get(topic), extents.get(topic)
        if before is None:
            assert extent is not None
            comparison.standing[topic] = TopicPositions(extent.topic_id, dict(extent.earliest))
            comparison.new += [TopicPartition(topic, partition) for partition in sorted(extent.earliest)]
        elif extent is None:
            comparison.standing[topic] = before
            comparison.losses += _all_lost(topic, before, LossReason.DELETED)
        elif before.topic_id and extent.topic_id and before.topic_id != extent.topic_id:
            comparison.standing[topic] = TopicPositions(extent.topic_id, dict(extent.earliest))
            comparison.losses += _all_lost(topic, before, LossReason.RECREATED)
        else:
            comparison.standing[topic] = _compare_topic(topic, before, extent, comparison)
    return comparison


def _compare_topic(topic: str, before: TopicPositions, extent: TopicExtent, comparison: Comparison) -> TopicPositions:
    offsets = dict(before.offsets)
    for partition, earliest in sorted(extent.earliest.items()):
        position = before.offsets.get(partition)
        if position is None:
            offsets[partition] = earliest
            comparison.new.append(TopicPartition(topic, partition))
        elif position < earliest:
            loss = Loss(topic, extent.topic_id, partition, position, earliest, LossReason.RETENTION)
            comparison.losses.append(loss)
        elif extent.latest[partition] < position:
            comparison.moved_back.append(TopicPartition(topic, partition))
    return TopicPositions(extent.topic_id or before.topic_id, offsets)


def _all_lost(topic: str, before: TopicPositions, reason: LossReason) -> list[Loss]:
    return [
        Loss(topic, before.topic_id, partition, offset, offset, reason)
        for partition, offset in sorted(before.offsets.items())
    ]


def backlog(standing: Positions, extents: Extents) -> dict[TopicPartition, int]:
    """Offsets between where a reader stands and what may be read, where there are any."""
    behind = {}
    for topic, positions in standing.items():
        extent = extents.get(topic)
        for partition, offset in positions.offsets.items():
            latest = extent.latest.get(partition, offset) if extent else offset
            if latest > offset:
                behind[TopicPartition(topic, partition)] = latest - offset
    return behind


def readable_backlog(comparison: Comparison, extents: Extents) -> dict[TopicPartition, int]:
    """The backlog of the partitions that a batch may read from now.

    Not of those that are new, which begin with the next batch (`ranges_between`), nor of those that have lost records,
    which first jump over what is lost.
    """
    behind = backlog(comparison.standing, extents)
    for new in comparison.new:
        behind.pop(new, None)
    for loss in comparison.losses:
        behind.pop(TopicPartition(loss.topic, loss.partition), None)
        if loss.reason is LossReason.RECREATED:
            for index in comparison.standing[loss.topic].offsets:
                behind.pop(TopicPartition(loss.topic, index), None)
    return behind


def advanced(comparison: Comparison, admitted: Mapping[TopicPartition, int]) -> dict[str, TopicPositions]:
    """Where a batch ends that takes so many offsets of each partition, and jumps over what retention has taken."""
    steps = dict(admitted)
    for loss in comparison.losses:
        if loss.reason is LossReason.RETENTION:
            steps[TopicPartition(loss.topic, loss.partition)] = loss.end - loss.start
    return {
        topic: TopicPositions(
            positions.topic_id,
            {
                partition: offset + steps.get(TopicPartition(topic, partition), 0)
                for partition, offset in positions.offsets.items()
            },
        )
        for topic, positions in comparison.standing.items()
    }


def latest_positions(extents: Extents) -> dict[str, TopicPositions]:
    """The end of all that there is."""
    return {topic: TopicPositions(extent.topic_id, dict(extent.latest)) for topic, extent in extents.items()}


def clipped(extents: Extents, target: Positions) -> dict[str, TopicExtent]:
    """`extents` as they would be if nothing had come after `target`; what it does not name is empty."""
    before: dict[str, TopicExtent] = {}
    for topic, extent in extents.items():
        known = target.get(topic)
        offsets = known.offsets if known is not None and known.topic_id == extent.topic_id else {}
        latest = {
            partition: min(latest, max(offsets.get(partition, 0), extent.earliest[partition]))
            for partition, latest in extent.latest.items()
        }
        before[topic] = TopicExtent(extent.topic_id, extent.earliest, latest)
    return before
