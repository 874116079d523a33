"""Where a reader stands: per topic its id, per partition the next offset to read.

The topic's id is what tells a topic from another one that was made later under its name (KIP-516): offsets of the one
say nothing of the other. As a dict, which Spark writes into its checkpoint as JSON:
`{"orders": {"id": "JmEXb4Q3S0yLrxLOBtXlYw", "offsets": {"0": 42, "1": 7}}}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class TopicPositions:
    """`topic_id` as Kafka's tools print it, empty where the cluster has none; `offsets` are next ones, by partition."""

    topic_id: str
    offsets: Mapping[int, int]


Positions: TypeAlias = Mapping[str, TopicPositions]


class MalformedPositions(ValueError):  # noqa: N818 - it names what was read
    """A dict that is no positions: a checkpoint of another source, say."""


def to_dict(positions: Positions) -> dict[str, Any]:
    """As Spark keeps them; sorted, so that equal positions are equal JSON."""
    return {
        topic: {
            "id": positions[topic].topic_id,
            "offsets": {str(partition): offset for partition, offset in sorted(positions[topic].offsets.items())},
        }
        for topic in sorted(positions)
    }


def from_dict(document: Mapping[str, Any]) -> dict[str, TopicPositions]:
    """The opposite of `to_dict`. Raises MalformedPositions."""
    try:
        return {
            topic: TopicPositions(
                str(entry["id"]), {int(partition): int(offset) for partition, offset in entry["offsets"].items()}
            )
            for topic, entry in document.items()
        }
    except (AttributeError, KeyError, TypeError, ValueError):
        raise MalformedPositions(
            f"these offsets are not of format 'barnabas', is the checkpoint another source's? {str(document)[:200]}"
        ) from None


def each_offset(positions: Positions) -> Iterator[tuple[TopicPartition, int]]:
    """All partitions with their next offsets, sorted."""
    for topic in sorted(positions):
        for partition, offset in sorted(positions[topic].offsets.items()):
            yield TopicPartition(topic, partition), offset
