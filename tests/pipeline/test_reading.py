"""The client and the reading of ranges against a cluster of real processes, without Spark."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

pytest.importorskip("pyarrow", reason="no pyarrow here (make pipeline-test)")

from barnabas_pipeline.core.errors import ClusterUnreachable, DataLost, RequestRefused
from barnabas_pipeline.core.losses import Loss, LossReason
from barnabas_pipeline.core.options import parse_bootstrap
from barnabas_pipeline.core.positions import TopicPartition, TopicPositions
from barnabas_pipeline.core.ranges import OffsetRange
from barnabas_pipeline.core.settings import ClientSettings
from barnabas_pipeline.kafka.cluster_client import ClusterClient
from barnabas_pipeline.kafka.progress import commit_progress, committed_progress
from barnabas_pipeline.kafka.reading import OnLoss, read_range
from barnabas_pipeline.kafka.sampling import sample
from tests.integration.etcd_process import needs_etcd
from tests.integration.running_cluster import RunningCluster
from tests.integration.test_compaction import COMPACTED, CompactingCluster
from tests.pipeline.spark_world import Topics

pytestmark = [needs_etcd, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with CompactingCluster(tmp_path_factory.mktemp("cluster"), 1) as running:
        yield running


@pytest.fixture
def client(cluster: RunningCluster) -> Iterator[ClusterClient]:
    with ClusterClient(ClientSettings(parse_bootstrap(cluster.bootstrap))) as opened:
        yield opened


def whole(client: ClusterClient, topic: str, partition: int = 0) -> OffsetRange:
    extent = client.extents(client.topics([topic]))[topic]
    return OffsetRange(topic, extent.topic_id, partition, extent.earliest[partition], extent.latest[partition])


def never(loss: Loss) -> None:
    raise DataLost(str(loss))


def read(client: ClusterClient, wanted: OffsetRange, on_loss: OnLoss = never) -> list[tuple[int, bytes]]:
    return [
        (row["offset"], row["value"]) for columns in read_range(client, wanted, on_loss) for row in columns.to_pylist()
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read(client: ClusterClient, topics: Topics, codec: str) -> None:
    topics.create(f"codec-{codec}", compression_type=codec if codec != "none" else "uncompressed")
    values = [b"%d" % each * 20 for each in range(300)]
    topics.fill(f"codec-{codec}", values, batch_records=50)
    assert read(client, whole(client, f"codec-{codec}")) == list(enumerate(values))


def test_what_compaction_left_is_read_and_its_holes_are_no_records(client: ClusterClient, topics: Topics) -> None:
    topics.create("compacted", **{name.replace(".", "_"): value for name, value in COMPACTED.items()})
    filler = random.Random(0).randbytes(1000)
    for number in range(4):
        topics.fill("compacted", [filler] * 700, key=b"key-%d" % number)
    wanted = whole(client, "compacted")
    assert wanted.size == 2800
    deadline = time.monotonic() + 60
    while len(found := read(client, wanted)) == 2800:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    while (later := read(client, wanted)) != found:  # it goes on cleaning for a while
        found = later
        time.sleep(1)
    offsets = [offset for offset, _ in found]
    assert offsets == sorted(set(offsets))
    # The newest of each key is left, wherever holes are.
    assert {699, 1399, 2099, 2799} <= set(offsets)
    # A range within a hole, and one that ends in it.
    hole = next(offset for offset in range(2800) if offset not in offsets)
    assert read(client, replace(wanted, start=hole, end=hole + 1)) == []
    assert [offset for offset, _ in read(client, replace(wanted, end=hole + 1))] == [
        offset for offset in offsets if offset <= hole
    ]


def test_the_gateway_is_killed_in_mid_read(cluster: RunningCluster, topics: Topics) -> None:
    topics.create("killed")
    values = [b"%d" % each * 100 for each in range(3000)]
    topics.fill("killed", values, batch_records=20)
    settings = ClientSettings(parse_bootstrap(cluster.bootstrap), fetch_bytes_max=64 * 1024)
    with ClusterClient(settings) as client:
        reading = read_range(client, whole(client, "killed"), never)
        rows = next(reading).to_pylist()
        cluster.kill("gateway")
        restarting = threading.Timer(1.0, cluster.start, ("gateway",))
        restarting.start()
        for columns in reading:
            rows += columns.to_pylist()
        restarting.join()
    assert [(row["offset"], row["value"]) for row in rows] == list(enumerate(values))


def test_what_was_deleted_before_and_while_it_is_read(client: ClusterClient, topics: Topics) -> None:
    topics.create("deleted")
    topics.fill("deleted", [b"%d" % each for each in range(20)], batch_records=5)
    wanted = whole(client, "deleted")
    topics.delete_records("deleted", 0, 12)
    with pytest.raises(DataLost, match="deleted-0: offsets 0 to 11 are gone"):
        read(client, wanted)
    losses: list[Loss] = []
    assert [offset for offset, _ in read(client, wanted, losses.append)] == list(range(12, 20))
    assert losses == [Loss("deleted", wanted.topic_id, 0, 0, 12, LossReason.RETENTION)]


def test_a_topic_made_again_while_it_is_read(client: ClusterClient, topics: Topics) -> None:
    topics.create("swapped")
    topics.fill("swapped", [b"old"] * 5)
    wanted = whole(client, "swapped")
    topics.delete("swapped")
    topics.create("swapped")
    topics.fill("swapped", [b"new"] * 5)
    with pytest.raises(DataLost, match="topic swapped was deleted and recreated"):
        read(client, wanted)
    losses: list[Loss] = []
    assert read(client, wanted, losses.append) == []
    assert [loss.reason for loss in losses] == [LossReason.RECREATED]


def test_a_range_beyond_the_end_is_waited_for_and_then_lost(client: ClusterClient, topics: Topics) -> None:
    topics.create("ahead")
    topics.fill("ahead", [b"x"] * 3)
    beyond = replace(whole(client, "ahead"), end=9)
    impatient = ClientSettings(client.settings.bootstrap, api_timeout_ms=300, fetch_wait_ms_max=100)
    with ClusterClient(impatient) as short:
        losses: list[Loss] = []
        assert len(read(short, beyond, losses.append)) == 3
    assert [(loss.start, loss.end, loss.reason) for loss in losses] == [(3, 9, LossReason.TRUNCATED)]


def test_progress_is_a_consumer_groups(client: ClusterClient, topics: Topics) -> None:
    topics.create("told", 2)
    positions = {"told": TopicPositions("", {0: 5, 1: 6}), "gone": TopicPositions("", {0: 1})}
    commit_progress(client, "told-group", positions)
    both = [TopicPartition("told", 0), TopicPartition("told", 1)]
    assert committed_progress(client, "told-group", both) == {both[0]: 5, both[1]: 6}
    assert committed_progress(client, "another", both) == {}


def test_progress_of_a_group_with_members_is_refused(client: ClusterClient, topics: Topics) -> None:
    from confluent_kafka import Consumer

    topics.create("taken")
    member = Consumer({"bootstrap.servers": topics.bootstrap, "group.id": "taken-group"})
    member.subscribe(["taken"])
    while not member.assignment():
        member.poll(0.2)
    with pytest.raises(RequestRefused, match="progress of group taken-group"):
        commit_progress(client, "taken-group", {"taken": TopicPositions("", {0: 0})})
    member.close()


def test_samples_tell_bytes_per_offset(client: ClusterClient, topics: Topics) -> None:
    topics.create("sampled")
    topics.fill("sampled", [bytes(100)] * 50, batch_records=10)
    topics.fill("sampled", [bytes(10_000)] * 10, batch_records=5)
    samples = sample(client, {TopicPartition("sampled", 0): [0, 50], TopicPartition("nowhere", 0): []})
    small, large = samples[TopicPartition("sampled", 0)]
    assert (small.offset, large.offset) == (0, 50)
    assert 100 <= small.bytes_per_offset <= 130
    assert 10_000 <= large.bytes_per_offset <= 10_100


def test_samples_of_batches_that_are_larger_than_a_sample(client: ClusterClient, topics: Topics) -> None:
    topics.create("large", 3)
    for partition in range(3):
        topics.fill("large", [random.Random(partition).randbytes(200_000)] * 3, partition=partition, batch_records=1)
    samples = sample(client, {TopicPartition("large", partition): [0, 2] for partition in range(3)})
    assert [len(each) for each in samples.values()] == [2, 2, 2]
    assert all(200_000 <= one.bytes_per_offset <= 201_000 for each in samples.values() for one in each)


def test_a_topic_deleted_between_planning_and_reading_is_a_loss_and_no_silence(
    cluster: RunningCluster, client: ClusterClient, topics: Topics
) -> None:
    topics.create("vanishing")
    topics.fill("vanishing", [b"x"] * 3)
    wanted = whole(client, "vanishing")
    topics.delete("vanishing")
    losses: list[Loss] = []
    quick = ClientSettings(client.settings.bootstrap, retry_backoff_max_ms=50)
    with ClusterClient(quick) as task:
        assert read(task, wanted, losses.append) == []
    assert [loss.reason for loss in losses] == [LossReason.DELETED]


def test_an_unreachable_cluster_is_one_error() -> None:
    unreachable = ClientSettings((("127.0.0.1", 1),), api_timeout_ms=200)
    reason = r"within 200 ms .* Connection refused"
    with ClusterClient(unreachable) as client, pytest.raises(ClusterUnreachable, match=reason):
        client.topics()
