from __future__ import annotations

import pickle

import pytest

from barnabas.cluster.jaas import SCRAM_MODULE
from barnabas_pipeline.core.admission import Limits
from barnabas_pipeline.core.cluster import Topic
from barnabas_pipeline.core.errors import ClusterUnreachable, TopicMissing, WrongOption
from barnabas_pipeline.core.losses import OnDataLoss
from barnabas_pipeline.core.options import Use, includes_headers, read_options, write_options
from barnabas_pipeline.core.positions import TopicPartition
from barnabas_pipeline.core.settings import Isolation
from barnabas_pipeline.core.subscription import End, Place, Subscription

BASE = {"kafka.bootstrap.servers": "one:9092, [::1]:9093", "subscribe": "b, a"}


def test_a_job_of_the_jvm_connector_is_taken_as_it_is() -> None:
    options = read_options(
        BASE
        | {
            "startingoffsets": '{"a": {"0": -2}, "b": {"0": 7}}',
            "maxOffsetsPerTrigger": "1000",
            "minOffsetsPerTrigger": "1000",
            "maxTriggerDelay": "5m",
            "minPartitions": "4",
            "failOnDataLoss": "false",
            "includeHeaders": "TRUE",
            "kafka.isolation.level": "read_committed",
            "kafka.max.poll.records": "500",
            "fetchOffset.numRetries": "3",
            "kafka.group.id": "g",
        },
        Use.STREAM,
    )
    assert options.subscription == Subscription(("a", "b"))
    assert options.starting.offsets == {TopicPartition("a", 0): End.EARLIEST, TopicPartition("b", 0): 7}
    assert options.limits == Limits(1000, None, 1000, 300_000)
    assert (options.partitions_min, options.group_id, options.include_headers) == (4, "g", True)
    assert options.on_data_loss is OnDataLoss.CONTINUE
    assert options.client.isolation is Isolation.READ_COMMITTED
    assert options.client.bootstrap == (("one", 9092), ("::1", 9093))
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("text", "ms"), [("7", 7), ("500ms", 500), ("30s", 30_000), ("15min", 900_000), ("2H", 7_200_000)]
)
def test_a_delay_is_written_as_sparks_durations(text: str, ms: int) -> None:
    given = {"minOffsetsPerTrigger": "5", "maxTriggerDelay": text}
    assert read_options(BASE | given, Use.STREAM).limits.wait_ms_max == ms


def test_defaults_are_the_jvm_connectors() -> None:
    batch, stream = read_options(BASE, Use.BATCH), read_options(BASE, Use.STREAM)
    assert (batch.starting, batch.ending) == (Place(End.EARLIEST), Place(End.LATEST, is_latest_where_no_time=True))
    assert stream.starting == Place(End.LATEST)
    assert stream.limits == Limits(None, None, None, 900_000)
    assert stream.on_data_loss is OnDataLoss.FAIL
    assert not stream.include_headers


@pytest.mark.parametrize(
    ("use", "given", "message"),
    [
        (Use.BATCH, {"subscribePattern": "x"}, "given: subscribe, subscribePattern"),
        (Use.BATCH, {"subscribe": " , "}, "names no topic"),
        (Use.BATCH, {"startingOffset": "latest"}, "did you mean 'startingOffsets'"),
        (Use.BATCH, {"zzz": "1"}, "unknown to format 'barnabas'; known are: subscribe"),
        (Use.BATCH, {"kafka.sasl.kerberos.kinit.cmd": "kinit"}, "is unknown to format 'barnabas'"),
        (Use.BATCH, {"kafka.bootstrap.servers": "host"}, "'host' is not host:port"),
        (Use.BATCH, {"kafka.bootstrap.servers": "host:99999"}, "is not host:port"),
        (Use.BATCH, {"kafka.bootstrap.servers": ""}, "is required"),
        (Use.BATCH, {"kafka.bootstrap.servers": " , "}, "',' names no server"),
        (Use.BATCH, {"startingOffsets": "latest"}, "can't be 'latest'"),
        (Use.BATCH, {"startingOffsets": '{"a": {"0": -1}}'}, "can't be 'latest'"),
        (Use.BATCH, {"endingOffsets": "earliest"}, "can't be 'earliest'"),
        (Use.BATCH, {"maxOffsetsPerTrigger": "5"}, "is for streams"),
        (Use.BATCH, {"minOffsetsPerTrigger": "5"}, "is for streams"),
        (Use.STREAM, {"minOffsetsPerTrigger": "5", "maxTriggerDelay": "soon"}, "a duration like .*, not 'soon'"),
        (Use.STREAM, {"minOffsetsPerTrigger": "5", "maxTriggerDelay": "-1s"}, "a duration like .*, not '-1s'"),
        (Use.STREAM, {"maxTriggerDelay": "1m"}, "set that, too"),
        (
            Use.STREAM,
            {"minOffsetsPerTrigger": "6", "maxOffsetsPerTrigger": "5"},
            "is 6, more than maxOffsetsPerTrigger",
        ),
        (Use.STREAM, {"endingOffsets": "latest"}, "is for batch reads"),
        (Use.STREAM, {"maxOffsetsPerTrigger": "0"}, "must be a whole number above 0, not '0'"),
        (Use.STREAM, {"maxBytesPerTrigger": "1g"}, "must be a whole number above 0"),
        (Use.STREAM, {"failOnDataLoss": "maybe"}, "must be 'true' or 'false', not 'maybe'"),
        (Use.STREAM, {"onDataLoss": "record"}, "needs dataLossTopic"),
        (Use.STREAM, {"dataLossTopic": "x"}, "needs dataLossTopic, the topic to write losses to, and nothing else"),
        (Use.STREAM, {"onDataLoss": "shrug"}, "must be 'fail' or 'record' or 'continue'"),
        (Use.STREAM, {"onDataLoss": "fail", "failOnDataLoss": "true"}, "set only one of them"),
        (Use.STREAM, {"startingOffsets": "soon"}, "must be JSON like"),
        (Use.STREAM, {"startingOffsets": '{"a": {"0": "7"}}'}, "must be JSON like"),
        (Use.STREAM, {"startingOffsets": '{"a": {"0": -3}}'}, "must be JSON like"),
        (Use.STREAM, {"startingTimestamp": "yesterday"}, "milliseconds since 1970"),
    ],
)
def test_what_is_wrong_is_one_sentence(use: Use, given: dict[str, str], message: str) -> None:
    with pytest.raises(WrongOption, match=message):
        read_options(BASE | given, use)


@pytest.mark.parametrize("text", ["[", "[]", "{}", '{"a": []}', '{"a": [-1]}', '{"a": ["0"]}'])
def test_an_assignment_that_is_none(text: str) -> None:
    with pytest.raises(WrongOption, match="option 'assign' must be JSON"):
        read_options({"kafka.bootstrap.servers": "a:1", "assign": text}, Use.BATCH)


def test_a_pattern_that_is_none() -> None:
    with pytest.raises(WrongOption, match="is not a valid pattern"):
        read_options({"kafka.bootstrap.servers": "a:1", "subscribePattern": "("}, Use.BATCH)


def test_times_come_before_offsets() -> None:
    given = {"startingTimestamp": "5", "startingOffsetsByTimestamp": '{"a": {"0": 6}}', "startingOffsets": "earliest"}
    assert read_options(BASE | given, Use.STREAM).starting.time_ms == 5
    del given["startingTimestamp"]
    assert read_options(BASE | given, Use.STREAM).starting.times_ms == {TopicPartition("a", 0): 6}


def topic(name: str, partitions: int, is_internal: bool = False) -> Topic:
    return Topic(name, "", is_internal, dict.fromkeys(range(partitions), 0))


def test_topics_are_selected_by_name_by_pattern_or_by_partition() -> None:
    found = {each.name: each for each in (topic("a", 2), topic("ab", 1), topic("__consumer_offsets", 1, True))}
    assert list(Subscription(("a", "x")).select(found)) == ["a"]
    assert list(Subscription(pattern=".*").select(found)) == ["a", "ab"]
    assert list(Subscription(pattern="a").select(found)) == ["a"]
    assigned = Subscription(("a",), assigned={"a": (1,)})
    assert assigned.select(found)["a"].leaders == {1: 0}
    with pytest.raises(TopicMissing, match="has 2 partitions, but not 5"):
        Subscription(("a",), assigned={"a": (5,)}).select(found)
    with pytest.raises(TopicMissing, match="no topic x in the cluster at c:1"):
        Subscription(("a", "x")).check_all_there({"a": found["a"]}, "c:1")


def test_a_writer_is_idempotent_whatever_else_is_set() -> None:
    options = write_options({"kafka.bootstrap.servers": "a:1", "topic": "t", "kafka.compression.type": "zstd"})
    assert options.topic == "t"
    assert options.producer == {
        "bootstrap.servers": "a:1",
        "compression.type": "zstd",
        "enable.idempotence": "true",
        "log_level": "2",
        "partitioner": "murmur2_random",
    }
    with pytest.raises(WrongOption, match="can't be set"):
        write_options({"kafka.bootstrap.servers": "a:1", "kafka.enable.idempotence": "false"})
    with pytest.raises(WrongOption, match="did you mean 'topic'"):
        write_options({"kafka.bootstrap.servers": "a:1", "topics": "t"})


def test_a_writer_with_a_transactional_id_writes_in_transactions() -> None:
    options = write_options(SERVERS | {"kafka.transactional.id": "job"})
    assert options.transactional_id == "job"
    assert "transactional.id" not in options.producer
    assert options.producer["transaction.timeout.ms"] == "900000"
    timed = write_options(SERVERS | {"kafka.transactional.id": "job", "kafka.transaction.timeout.ms": "1000"})
    assert timed.producer["transaction.timeout.ms"] == "1000"
    assert write_options(SERVERS).transactional_id is None
    with pytest.raises(WrongOption, match="must not be empty"):
        write_options(SERVERS | {"kafka.transactional.id": " "})


def test_a_writer_may_be_given_another_partitioner_and_log_level() -> None:
    given = {"kafka.Partitioner": "consistent_random", "kafka.log_level": "7"}
    options = write_options({"kafka.bootstrap.servers": "a:1", **given})
    assert (options.producer["partitioner"], options.producer["log_level"]) == ("consistent_random", "7")


def test_headers_are_for_the_schema_before_anything_is_read() -> None:
    assert includes_headers({"INCLUDEHEADERS": "true"})
    assert not includes_headers({})


def test_errors_survive_the_way_from_a_worker() -> None:
    error = pickle.loads(pickle.dumps(ClusterUnreachable("no answer")))
    assert isinstance(error, ClusterUnreachable)
    assert str(error) == "no answer"


SERVERS = {"kafka.bootstrap.servers": "a:1"}
SECURE = {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.jaas.config": f'{SCRAM_MODULE} required username="a" password="p";',
    "kafka.ssl.truststore.location": "/ca.crt",
    "kafka.ssl.truststore.type": "PEM",
}


def test_a_secure_cluster_is_read_by_the_properties_of_kafkas_clients() -> None:
    settings = read_options(BASE | SECURE, Use.BATCH).client
    assert {f"kafka.{name}": value for name, value in settings.security} == SECURE
    assert "ScramLoginModule" not in repr(settings), "it has the password"


def test_a_secure_cluster_is_written_by_librdkafkas_names() -> None:
    producer = write_options(SERVERS | SECURE).producer
    assert producer["security.protocol"] == "SASL_SSL"
    assert producer["sasl.mechanisms"] == "SCRAM-SHA-512"
    assert (producer["sasl.username"], producer["sasl.password"]) == ("a", "p")
    assert producer["ssl.ca.location"] == "/ca.crt"
    assert not producer.keys() & {"sasl.jaas.config", "ssl.truststore.type", "ssl.truststore.location"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kafka.sasl.jaas.config": "com.example.Login required;"}, "kafka.sasl.jaas.config"),
        ({"kafka.ssl.keystore.type": "JKS"}, "kafka.ssl.keystore.type=JKS"),
    ],
)
def test_what_librdkafka_can_not_have_is_named(given: dict[str, str], message: str) -> None:
    with pytest.raises(WrongOption, match=message):
        write_options(SERVERS | SECURE | given)
