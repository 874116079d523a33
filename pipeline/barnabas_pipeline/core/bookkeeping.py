"""Compare a table's own progress with a batch, to find what the table lacks.

A table stores per partition the next offset it lacks, in the same commit as its rows, and only this counts. Spark's
checkpoint and the committed group may differ (a crash between two commits, a table restored from a backup, a deleted
checkpoint), and are compared with it here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from barnabas_pipeline.core.errors import PipelineError
from barnabas_pipeline.core.positions import Positions, TopicPartition, TopicPositions, each_offset


class GapError(PipelineError):
    """A batch begins after the offset that the table lacks: writing it would lose the records in between."""


@dataclass(frozen=True, slots=True)
class Remainder:
    """The part of a batch that the table lacks. `skip_below`: offsets below these are already in the table."""

    skip_below: Mapping[TopicPartition, int] = field(default_factory=dict)
    is_empty: bool = False


def remainder(start: Positions, end: Positions, table: Positions) -> Remainder:
    """Compare a batch's positions with the table's. Raises GapError.

    A topic with another id than the table's is another topic: the table has nothing of it yet. A partition without
    progress in the table lacks that progress, even if it has no records: otherwise a run that began at the latest
    offsets would begin elsewhere the next time.
    """
    skip_below: dict[TopicPartition, int] = {}
    lacking = 0
    for topic_partition, until in each_offset(end):
        since = offset_of(start, topic_partition, end[topic_partition.topic].topic_id)
        has = offset_of(table, topic_partition, end[topic_partition.topic].topic_id)
        if since is not None and has is not None and since > has:
            raise GapError(
                f"{topic_partition}: the table lacks offsets from {has}, the batch begins at {since}; "
                f"{since - has} would be lost"
            )
        begins = since or 0
        if has is not None and has > begins:
            skip_below[topic_partition] = has
            begins = has
        lacking += until > begins or has is None
    return Remainder(skip_below, lacking == 0)


def offset_of(positions: Positions, topic_partition: TopicPartition, topic_id: str) -> int | None:
    """Return the next offset there; None if the topic is unknown, or known under another id."""
    known = positions.get(topic_partition.topic)
    if known is None or known.topic_id != topic_id:
        return None
    return known.offsets.get(topic_partition.partition)


def advanced(table: Positions, end: Positions) -> dict[str, TopicPositions]:
    """Return the table's progress after a batch up to `end`; it never goes back, and other topics are kept."""
    progress = dict(table)
    for topic, reached in end.items():
        known = progress.get(topic)
        before = known.offsets if known is not None and known.topic_id == reached.topic_id else {}
        offsets = dict(before)
        for partition, offset in reached.offsets.items():
            offsets[partition] = max(offset, before.get(partition, 0))
        progress[topic] = TopicPositions(reached.topic_id, offsets)
    return progress


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """The two newest entries of a checkpoint: the end of the last finished batch, and that of one that was begun and
    not finished.
    """

    finished: Positions
    begun: Positions | None


@dataclass(frozen=True, slots=True)
class Start:
    """How a run begins. `resume`: from Spark's checkpoint; else from `positions` with a new checkpoint.

    `reason` is shown to the user if something did not agree, else it is empty.
    """

    resume: bool
    positions: Positions
    reason: str = ""


def decide_start(checkpoint: CheckpointState | None, table: Positions) -> Start:
    """Compare a checkpoint with the table, which takes precedence: a checkpoint that disagrees is discarded, with a
    reason.

    They agree if the table is at the end of the checkpoint's finished batch, or of the one that was begun (a crash
    between the table's commit and Spark's). A checkpoint that is behind only costs reading; one that is ahead would
    lose rows.
    """
    if checkpoint is None:
        return Start(False, table)
    begun = checkpoint.begun if checkpoint.begun is not None else checkpoint.finished
    for topic_partition, offset in each_offset(table):
        topic_id = table[topic_partition.topic].topic_id
        finished = offset_of(checkpoint.finished, topic_partition, topic_id)
        planned = offset_of(begun, topic_partition, topic_id)
        if finished is not None and finished > offset:
            reason = f"ahead of the table: {topic_partition} at {finished}, the table lacks offsets from {offset}"
            return Start(False, table, f"the checkpoint is {reason}; starting from the table")
        if planned is None or planned < offset:
            reason = f"behind the table: {topic_partition} at {planned}, the table has offsets up to {offset}"
            return Start(False, table, f"the checkpoint is {reason}; starting from the table")
    for topic_partition, offset in each_offset(checkpoint.finished):
        topic_id = checkpoint.finished[topic_partition.topic].topic_id
        if offset > 0 and offset_of(table, topic_partition, topic_id) is None:
            reason = f"ahead of the table: {topic_partition} at {offset}, of which the table has nothing"
            return Start(False, table, f"the checkpoint is {reason}; starting from the table")
    return Start(True, table)


def group_disagreement(group: Mapping[TopicPartition, int], table: Positions) -> str:
    """Return a message if the committed group differs from the table, which takes precedence; empty if it doesn't."""
    offsets = dict(each_offset(table))
    ahead = {at: offset for at, offset in group.items() if offset > offsets.get(at, 0)}
    if not ahead:
        return ""
    first = min(ahead)
    return (
        f"the group's committed offsets are ahead of the table in {len(ahead)} partitions, the first {first} "
        f"({ahead[first]}, the table {offsets.get(first, 0)}); they are set back to the table's"
    )
