"""What Spark's micro-batch engine asks of the stream reader, in its order, without Spark and without a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="no pyspark here (make pipeline-test)")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from barnabas_pipeline.core.cluster import OffsetAtTime, Topic, TopicExtent
from barnabas_pipeline.core.losses import Loss, LossReason
from barnabas_pipeline.core.options import Use, read_options
from barnabas_pipeline.core.positions import TopicPartition
from barnabas_pipeline.source import stream
from barnabas_pipeline.source.stream import StreamReader


class FakeClient:
    """One topic, `orders`, with one partition that ends at `latest`."""

    latest = 100

    def __init__(self, settings: object) -> None:
        del settings

    def topics(self, names: Iterable[str] | None = None) -> dict[str, Topic]:
        return {"orders": Topic("orders", "id", False, {0: 1})}

    def extents(self, topics: Mapping[str, Topic]) -> dict[str, TopicExtent]:
        return {name: TopicExtent("id", {0: 0}, {0: FakeClient.latest}) for name in topics}

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAtTime]:
        return {each: OffsetAtTime(FakeClient.latest, 0) for each in wanted}


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> type[FakeClient]:
    monkeypatch.setattr(stream, "ClusterClient", FakeClient)
    monkeypatch.setattr(FakeClient, "latest", 100)
    return FakeClient


def reader(starting: str) -> StreamReader:
    options = {"kafka.bootstrap.servers": "x:1", "subscribe": "orders", "startingOffsets": starting}
    return StreamReader(read_options(options, Use.STREAM))


def at(offset: int) -> dict[str, Any]:
    return {"orders": {"id": "id", "offsets": {"0": offset}}}


def test_the_first_micro_batch_writes_down_where_the_query_began(client: type[FakeClient]) -> None:
    """Spark keeps no initial offset, and asks for it again as long as no batch is done: after a crash in the first one
    `latest` would be elsewhere, and what came in between is passed over. So the first batch is empty."""
    first = reader("latest")
    began = first.initialOffset()
    client.latest = 150
    end = first.latestOffset(began, ReadAllAvailable())
    assert (first.initialOffset(), end) == (at(100), at(100))
    assert first.partitions(began, end) == []
    # The process dies; Spark plans the batch again by its log of offsets.
    client.latest = 200
    second = reader("latest")
    assert second.partitions(second.initialOffset(), end) == []
    following = second.latestOffset(end, ReadAllAvailable())
    assert [(each.value.start, each.value.end) for each in second.partitions(end, following)] == [(100, 200)]


def test_the_second_micro_batch_reads(client: type[FakeClient]) -> None:
    only = reader("earliest")
    began = only.initialOffset()
    end = only.latestOffset(began, ReadAllAvailable())
    assert end == began
    only.partitions(began, end)
    assert only.latestOffset(end, ReadAllAvailable()) == at(100)


def test_a_first_micro_batch_that_is_planned_again_is_followed_by_one_that_reads(client: type[FakeClient]) -> None:
    """`availableNow` ends where a batch brings nothing new."""
    again = reader("earliest")
    again.prepareForTriggerAvailableNow()
    assert again.partitions(again.initialOffset(), at(0)) == []
    assert again.latestOffset(at(0), ReadAllAvailable()) == at(100)


class PutOff:
    """A query with `minOffsetsPerTrigger` 50 and a delay of a minute, whose first records have been read."""

    def __init__(self, client: type[FakeClient]) -> None:
        self.client = client
        self.seconds = 1_000.0
        options = {"kafka.bootstrap.servers": "x:1", "subscribe": "orders", "startingOffsets": "earliest"}
        options |= {"minOffsetsPerTrigger": "50", "maxTriggerDelay": "1m"}
        self.reader = StreamReader(read_options(options, Use.STREAM), lambda: self.seconds)
        began = self.reader.initialOffset()
        self.reader.latestOffset(began, self.reader.getDefaultReadLimit())
        assert self.next(0) == at(100), "the first one of a process is never put off"

    def next(self, start: int) -> dict[str, Any]:
        return self.reader.latestOffset(at(start), self.reader.getDefaultReadLimit())


def test_a_batch_of_few_records_is_put_off_until_there_are_enough(client: type[FakeClient]) -> None:
    query = PutOff(client)
    client.latest = 149
    assert query.next(100) == at(100)
    client.latest = 150
    assert query.next(100) == at(150)


def test_a_batch_is_put_off_no_longer_than_it_may_be(client: type[FakeClient]) -> None:
    query = PutOff(client)
    client.latest = 101
    query.seconds += 59.9
    assert query.next(100) == at(100)
    query.seconds += 0.2
    assert query.next(100) == at(101)
    client.latest = 102
    assert query.next(101) == at(101), "the delay restarts with the batch"


def test_available_now_and_a_trigger_that_reads_all_put_nothing_off(client: type[FakeClient]) -> None:
    query = PutOff(client)
    client.latest = 101
    assert query.reader.latestOffset(at(100), ReadAllAvailable()) == at(101)
    client.latest = 102
    query.reader.prepareForTriggerAvailableNow()
    assert query.next(101) == at(102)


def test_a_loss_is_not_put_off(client: type[FakeClient], monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it would be reported, and recorded, again at every attempt."""
    lost = Loss("orders", "id", 0, 100, 120, LossReason.RETENTION)
    monkeypatch.setattr(stream, "judge_losses", lambda options, losses: None)
    query = PutOff(client)
    monkeypatch.setattr(
        FakeClient, "extents", lambda self, topics: {"orders": TopicExtent("id", {0: lost.end}, {0: lost.end})}
    )
    assert query.next(100) == at(120)
