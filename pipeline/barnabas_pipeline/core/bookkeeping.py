"""What a table has and what it lacks: the table's own word on its progress against what a batch brings.

A table says per partition the next offset it lacks, written in the same commit as its rows: it alone is the truth.
Spark's checkpoint and the committed group may stand elsewhere (a crash between two commits, a table put back from a
back-up, a checkpoint that was deleted), and are held to it here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from barnabas_pipeline.core.errors import PipelineError
from barnabas_pipeline.core.positions import Positions, TopicPartition, TopicPositions, each_offset


class GapError(PipelineError):
    """A batch that begins behind what the table lacks: to write it would lose what lies between."""


@dataclass(frozen=True, slots=True)
class Remainder:
    """What of a batch the table lacks. `skip_below`: offsets under these are in the table, where there are any."""

    skip_below: Mapping[TopicPartition, int] = field(default_factory=dict)
    is_empty: bool = False


def remainder(start: Positions, end: Positions, table: Positions) -> Remainder:
    """Hold a batch's positions to the table's. Raises GapError.

    A topic's id other than the table's is another topic: nothing of it is in the table yet. Of a partition that the
    table has no word of it lacks that word, if no record: without it a run that began at the latest offsets would
    begin elsewhere the next time.
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
    """The next offset there; None where the topic is not known, or is known under another id."""
    known = positions.get(topic_partition.topic)
    if known is None or known.topic_id != topic_id:
        return None
    return known.offsets.get(topic_partition.partition)


def advanced(table: Positions, end: Positions) -> dict[str, TopicPositions]:
    """The table's progress once a batch up to `end` is in it; never back, other topics kept."""
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
    """A checkpoint's two newest words: the end of the last finished batch, and that of one begun and not finished."""

    finished: Positions
    begun: Positions | None


@dataclass(frozen=True, slots=True)
class Start:
    """How a run begins. `resume`: by Spark's checkpoint; else from `positions` with a checkpoint of its own.

    `reason` is said to the user where something did not agree, else empty.
    """

    resume: bool
    positions: Positions
    reason: str = ""


def decide_start(checkpoint: CheckpointState | None, table: Positions) -> Start:
    """Compare a checkpoint with the table. The table wins: a checkpoint that disagrees is set aside, with a reason.

    They agree if the table stands at the end of the checkpoint's finished batch, or of the one that was begun (a crash
    between the table's commit and Spark's). A checkpoint behind that costs only reading; one ahead would lose rows.
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
            return Start(False, table, f"the checkpoint is {reason}; begun from the table")
        if planned is None or planned < offset:
            reason = f"behind the table: {topic_partition} at {planned}, the table has offsets up to {offset}"
            return Start(False, table, f"the checkpoint is {reason}; begun from the table")
    for topic_partition, offset in each_offset(checkpoint.finished):
        topic_id = checkpoint.finished[topic_partition.topic].topic_id
        if offset > 0 and offset_of(table, topic_partition, topic_id) is None:
            reason = f"ahead of the table: {topic_partition} at {offset}, of which the table has nothing"
            return Start(False, table, f"the checkpoint is {reason}; begun from the table")
    return Start(True, table)


def group_disagreement(group: Mapping[TopicPartition, int], table: Positions) -> str:
    """What to say where the committed group stands elsewhere than the table; empty if it doesn't. The table wins."""
    offsets = dict(each_offset(table))
    ahead = {at: offset for at, offset in group.items() if offset > offsets.get(at, 0)}
    if not ahead:
        return ""
    first = min(ahead)
    return (
        f"the group's committed offsets are ahead of the table in {len(ahead)} partitions, the first {first} "
        f"({ahead[first]}, the table {offsets.get(first, 0)}); they are set back to the table's"
    )
