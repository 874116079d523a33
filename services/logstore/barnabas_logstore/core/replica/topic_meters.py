"""TopicMeters: what has come and gone by topic, in plain numbers that appends and reads add to.

The first `topics_max` topics have a meter each; all further ones share one, for ever: a topic that came to have a label
later would take what it has counted away from where it was, and a counter that falls means nothing. What a topic has
counted that is gone stays in the broker's sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

OTHER: Final = "__other__"
"""The label of all topics without one of their own (and of one that somebody makes with this name)."""
_COUNTS: Final = (
    "bytes_in",
    "bytes_out",
    "failed_fetch_requests",
    "failed_produce_requests",
    "fetch_requests",
    "messages_in",
    "produce_requests",
    "replication_bytes_in",
    "replication_bytes_out",
)


class TopicMeter:
    """Requests are counted by partition, as in Kafka: one that names five counts five times; once they are answered."""

    __slots__ = (*_COUNTS, "label")

    def __init__(self, label: str = OTHER) -> None:
        self.label = label
        self.bytes_in = 0
        self.bytes_out = 0
        self.failed_fetch_requests = 0
        self.failed_produce_requests = 0
        self.fetch_requests = 0
        self.messages_in = 0
        self.produce_requests = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0

    def produce_failed(self) -> None:
        """An append was refused. Those that succeed are counted by the write."""
        self.produce_requests += 1
        self.failed_produce_requests += 1

    def add(self, other: TopicMeter) -> None:
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class TopicMeters:
    def __init__(self, topics_max: int) -> None:
        self._topics_max = topics_max
        self._by_topic: dict[str, TopicMeter] = {}
        self._partitions: dict[str, int] = {}
        self._gone = TopicMeter()
        self.other = TopicMeter()
        """Of topics without one of their own."""
        self.absent = TopicMeter()
        """Of partitions that are not here: their topics may be anything that a client makes up."""
        self.refused = 0
        """Topics that would have had a meter, and found `topics_max`."""

    def __iter__(self) -> Iterator[TopicMeter]:
        yield from self._by_topic.values()
        if self.refused:
            yield self.other

    def of(self, topic: str) -> TopicMeter:
        """For one more partition of the topic here."""
        count = self._partitions.get(topic, 0)
        self._partitions[topic] = count + 1
        meter = self._by_topic.get(topic)
        if meter is not None:
            return meter
        if count or len(self._by_topic) >= self._topics_max:
            self.refused += not count
            return self.other
        meter = self._by_topic[topic] = TopicMeter(topic)
        return meter

    def release(self, topic: str) -> None:
        """One partition less; with the last one the label is free for another topic."""
        self._partitions[topic] -= 1
        if not self._partitions[topic]:
            del self._partitions[topic]
            meter = self._by_topic.pop(topic, None)
            if meter is not None:
                self._gone.add(meter)

    def total(self) -> TopicMeter:
        """Of the broker: as much work as there are labels."""
        total = TopicMeter()
        for meter in (*self._by_topic.values(), self.other, self.absent, self._gone):
            total.add(meter)
        return total
