"""`format("barnabas")` in a local Spark, against a cluster of real processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="no pyspark here (make pipeline-test)")

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import OffsetSpec
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from barnabas_pipeline.core.replay import murmur2
from tests.integration.etcd_process import needs_etcd
from tests.pipeline.spark_world import Topics, batches, spark_session, stream

pytestmark = [
    needs_etcd,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = spark_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


def values(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def test_a_batch_read_is_what_a_plain_consumer_reads(spark: SparkSession, topics: Topics) -> None:
    topics.create("batch", 2)
    topics.fill("batch", values(500), partition=0, headers=[("trace", b"1")])
    topics.fill("batch", [b"", *values(299)], partition=1, key=b"k", batch_records=10)
    frame = (
        spark.read.format("barnabas")
        .option("kafka.bootstrap.servers", topics.bootstrap)
        .option("subscribe", "batch")
        .option("includeHeaders", "true")
        .option("minPartitions", "5")
        .load()
    )
    assert frame.rdd.getNumPartitions() == 5
    rows = sorted((row.partition, row.offset, row.key, row.value, row.headers) for row in frame.collect())
    consumer = Consumer({"bootstrap.servers": topics.bootstrap, "group.id": "plain", "enable.auto.commit": False})
    consumer.assign([TopicPartition("batch", partition, 0) for partition in range(2)])
    messages = []
    while len(messages) < 800:
        messages += consumer.consume(800, 5)
    consumer.close()
    assert rows == sorted(
        (
            each.partition(),
            each.offset(),
            each.key(),
            each.value(),
            [tuple(h) for h in each.headers()] if each.headers() else None,
        )
        for each in messages
    )


def test_a_stream_goes_on_where_its_checkpoint_ends(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    topics.create("on", 2)
    topics.fill("on", values(20), partition=0)
    options = {"subscribe": "on", "startingOffsets": "earliest", "maxOffsetsPerTrigger": 8, "group.id": "on-group"}
    first = batches(spark, topics, tmp_path, **options)
    assert [len(batch) for batch in first] == [8, 8, 4]
    topics.fill("on", values(5, 20), partition=1)
    assert [row.value for row in stream(spark, topics, tmp_path, **options)] == values(5, 20)
    committed = topics.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("on-group")])[
        "on-group"
    ].result()
    assert {each.partition: each.offset for each in committed.topic_partitions} == {0: 20, 1: 5}
    ends = topics.admin.list_offsets({TopicPartition("on", 0): OffsetSpec.latest()})
    assert [each.result().offset for each in ends.values()] == [20]


def test_new_topics_and_partitions_are_read_from_their_beginning(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    from confluent_kafka.admin import NewPartitions

    topics.create("grown-a")
    topics.fill("grown-a", values(3))
    options = {"subscribePattern": "grown-.*", "startingOffsets": "earliest"}
    assert len(stream(spark, topics, tmp_path, **options)) == 3
    topics.create("grown-b")
    topics.fill("grown-b", values(4))
    topics.admin.create_partitions([NewPartitions("grown-a", 2)])["grown-a"].result(30)
    topics.fill("grown-a", values(2), partition=1)
    found = [(row.topic, row.partition, row.offset) for row in stream(spark, topics, tmp_path, **options)]
    assert found == [("grown-a", 1, 0), ("grown-a", 1, 1), *(("grown-b", 0, offset) for offset in range(4))]


def test_a_batch_has_about_as_many_bytes_as_it_may(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    topics.create("bytes")
    topics.fill("bytes", [bytes(100)] * 200, batch_records=20)
    topics.fill("bytes", [bytes(10_000)] * 100, batch_records=5)
    sizes = [
        sum(len(row.value) for row in batch)
        for batch in batches(
            spark, topics, tmp_path, subscribe="bytes", startingOffsets="earliest", maxBytesPerTrigger=200_000
        )
    ]
    assert sum(sizes) == 1_020_000
    assert len(sizes) >= 5
    assert max(sizes) <= 220_000


def test_offsets_that_retention_took_end_the_query_or_are_written_down(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topics.create("short")
    topics.create("losses")
    topics.fill("short", values(10))
    options = {"subscribe": "short", "startingOffsets": "earliest"}
    assert len(stream(spark, topics, tmp_path, **options)) == 10
    topics.fill("short", values(10, 10))
    topics.delete_records("short", 0, 15)
    with pytest.raises(PySparkException, match=r"short-0: offsets 10 to 14 are gone"):
        stream(spark, topics, tmp_path, **options)
    recording = options | {"onDataLoss": "record", "dataLossTopic": "losses"}
    assert [row.offset for row in stream(spark, topics, tmp_path, **recording)] == [15, 16, 17, 18, 19]
    written = stream(spark, topics, tmp_path / "losses", subscribe="losses", startingOffsets="earliest")
    # Spark read the range twice, to sort it: the same loss, under the same key.
    assert len({row.key for row in written}) == 1
    loss = json.loads(written[0].value)
    assert (loss["topic"], loss["start_offset"], loss["end_offset"], loss["reason"]) == ("short", 10, 15, "retention")


def test_a_topic_made_again_is_not_taken_for_the_old_one(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    topics.create("again")
    topics.fill("again", values(3))
    options = {"subscribe": "again", "startingOffsets": "earliest"}
    assert len(stream(spark, topics, tmp_path, **options)) == 3
    topics.delete("again")
    with pytest.raises(PySparkException, match="topic again is gone"):
        stream(spark, topics, tmp_path, **options)
    topics.create("again")
    topics.fill("again", values(7, 100))
    with pytest.raises(PySparkException, match="topic again was deleted and made again"):
        stream(spark, topics, tmp_path, **options)
    rows = stream(spark, topics, tmp_path, failOnDataLoss="false", **options)
    assert [(row.offset, row.value) for row in rows] == list(enumerate(values(7, 100)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "nowhere"}, "no topic nowhere in the cluster"),
        ({"subscribe": "nowhere", "startingOfsets": "earliest"}, "did you mean 'startingOffsets'"),
        ({}, "one of the options subscribe, subscribePattern, assign"),
        (
            {"subscribe": "x", "kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "300"},
            "no answer to metadata from the cluster at 127.0.0.1:1 within 300 ms",
        ),
    ],
)
def test_what_is_wrong_is_said(spark: SparkSession, topics: Topics, options: dict[str, str], message: str) -> None:
    reader = spark.read.format("barnabas").options(**{"kafka.bootstrap.servers": topics.bootstrap, **options})
    with pytest.raises(PySparkException, match=message):
        reader.load().count()


def test_rows_are_written_to_topics(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    topics.create("out", 2)
    frame = spark.createDataFrame(
        [("a", "1", 0), ("b", "2", 1), (None, "3", 1)], "key string, value string, partition int"
    )
    frame.write.format("barnabas").option("kafka.bootstrap.servers", topics.bootstrap).option("topic", "out").mode(
        "append"
    ).save()
    query = (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", topics.bootstrap)
        .option("subscribe", "out")
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("key", "concat(value, '!') as value", "partition", "'out' as topic")
        .writeStream.format("barnabas")
        .option("kafka.bootstrap.servers", topics.bootstrap)
        .option("checkpointLocation", str(tmp_path / "write"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(180)
    rows = stream(spark, topics, tmp_path / "read", subscribe="out", startingOffsets="earliest")
    assert [(row.partition, row.key, bytes(row.value)) for row in rows] == [
        (0, b"a", b"1"),
        (0, b"a", b"1!"),
        (1, b"b", b"2"),
        (1, None, b"3"),
        (1, b"b", b"2!"),
        (1, None, b"3!"),
    ]


def test_keys_go_where_producers_in_java_put_them(spark: SparkSession, topics: Topics) -> None:
    topics.create("keyed", 5)
    frame = spark.range(40).selectExpr("concat('key-', id) as key", "string(id) as value")
    written = frame.write.format("barnabas").option("kafka.bootstrap.servers", topics.bootstrap)
    written.option("topic", "keyed").mode("append").save()
    read = (
        spark.read.format("barnabas").option("kafka.bootstrap.servers", topics.bootstrap).option("subscribe", "keyed")
    )
    found = {bytes(row.key): row.partition for row in read.load().collect()}
    assert found == {key: (murmur2(key) & 0x7FFFFFFF) % 5 for key in (b"key-%d" % number for number in range(40))}


def test_headers_are_written_where_rows_have_them(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    """As Spark's own writer does, without `includeHeaders`: a copied topic would lose them in silence."""
    topics.create("headed")
    topics.create("copied")
    headers = [("trace", b"1"), ("trace", b"2"), ("empty", b""), ("none", None)]
    frame = spark.createDataFrame(
        [(0, "a", headers), (1, "b", None), (2, "c", [])],
        "number int, value string, headers array<struct<key: string, value: binary>>",
    )
    written = frame.coalesce(1).orderBy("number").write.format("barnabas").option("topic", "headed").mode("append")
    written.option("kafka.bootstrap.servers", topics.bootstrap).save()
    query = (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", topics.bootstrap)
        .option("subscribe", "headed")
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load()
        .select("value", "headers")
        .writeStream.format("barnabas")
        .option("kafka.bootstrap.servers", topics.bootstrap)
        .option("topic", "copied")
        .option("checkpointLocation", str(tmp_path / "copy"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(180)
    for topic in ("headed", "copied"):
        rows = stream(
            spark, topics, tmp_path / topic, subscribe=topic, startingOffsets="earliest", includeHeaders="true"
        )
        found = [(bytes(row.value), row.headers and [tuple(each) for each in row.headers]) for row in rows]
        assert found == [(b"a", headers), (b"b", None), (b"c", None)]


def test_overwriting_a_topic_is_refused(spark: SparkSession, topics: Topics) -> None:
    topics.create("kept")
    frame = spark.createDataFrame([("1",)], "value string")
    written = frame.write.format("barnabas").option("kafka.bootstrap.servers", topics.bootstrap)
    with pytest.raises(PySparkException, match="rows can only be appended to a topic, not overwrite it"):
        written.option("topic", "kept").mode("overwrite").save()
    read = spark.read.format("barnabas").option("kafka.bootstrap.servers", topics.bootstrap).option("subscribe", "kept")
    assert read.load().count() == 0
