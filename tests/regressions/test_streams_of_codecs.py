"""Compressed batches in every odd form: those that Java's consumers can't read were taken (dependent blocks of lz4, two
frames), and some that they read were refused (two headers of snappy-java, zeros behind gzip).
"""

from __future__ import annotations

import pytest

from barnabas.cluster.topic_config import TopicConfig
from barnabas.runtime.compression import CODECS
from barnabas.wire.errors import ErrorCode
from barnabas.wire.message_set import encode_message
from barnabas.wire.record_batch import Compression, decode_records
from barnabas_gateway.core.backends.up_conversion import UpConverted, up_convert
from barnabas_logstore.core.storage.batches.batch_opening import open_batch
from barnabas_logstore.core.storage.effect_results import Refusal
from barnabas_logstore.core.storage.effects import ValidateBatchEffect
from tests.unit.logstore.service.support import EXCHANGE, READ, WALL_MS, Host, fetch, topic
from tests.unit.logstore.storage.javas_batches import CASES, IS_READ, frame, kafka_says
from tests.unit.wire.golden import HAS_KAFKA, WITHOUT_KAFKA

OF_LZ4 = [name for name, case in CASES.items() if case.codec == Compression.LZ4]
PLAIN = CASES["lz4: plain"]
UNCOMPRESSED = TopicConfig(compression_type="uncompressed")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", ["producer", "uncompressed"])
def test_an_opened_batch_is_taken_if_javas_consumers_read_it(name: str, target: str) -> None:
    case = CASES[name]
    outcome = open_batch(memoryview(case.batch), "orders-0", TopicConfig(compression_type=target), WALL_MS, CODECS)
    if case.kafka == IS_READ:
        assert isinstance(outcome, memoryview), outcome
        if target == "uncompressed":
            assert [record.offset for record in decode_records(outcome)] == list(range(case.records_count))
        else:
            assert outcome == case.batch
    else:
        assert isinstance(outcome, Refusal)
        assert outcome.error == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("name", OF_LZ4)
def test_lz4_is_taken_by_the_same_rule_where_nothing_requires_opening(name: str) -> None:
    host = Host()
    host.greet(EXCHANGE, READ)
    host.lead(topic())
    case = CASES[name]
    if case.kafka == IS_READ:
        assert host.append(case.batch).error_code == ErrorCode.NONE
        assert host.read(fetch()).partitions[0].records[21:] == case.batch[21:]
    elif name not in OPENS_BADLY:
        assert host.append(case.batch).error_code == ErrorCode.INVALID_RECORD


OPENS_BADLY = {
    "lz4: a wrong checksum of a block",
    "lz4: a corrupt block",
    "lz4: an empty frame first",
    "lz4: a block that opens to more than the size",
}
"""Only who opens them finds out (ADR 0008), unless something follows the frame."""


@pytest.mark.parametrize("name", sorted(OPENS_BADLY))
def test_what_only_opening_finds_out_is_refused_there(name: str) -> None:
    outcome = open_batch(memoryview(CASES[name].batch), "orders-0", TopicConfig(), WALL_MS, CODECS)
    assert isinstance(outcome, Refusal)


def test_a_whole_frame_is_not_opened() -> None:
    host = Host()
    host.greet(EXCHANGE, READ)
    host.lead(topic())
    host.holds_effects = True
    host.send(host.append_request(PLAIN.batch))
    host.turn()
    assert not any(isinstance(effect, ValidateBatchEffect) for effect in host.held)
    host.run_effects()
    host.send(host.append_request(CASES["lz4: something behind"].batch))
    host.turn()
    assert [type(effect) for effect in host.held] == [ValidateBatchEffect]


INNER = {magic: encode_message(0, magic, None, b"value", timestamp_ms=WALL_MS) for magic in (0, 1)}


@pytest.mark.parametrize("magic", INNER)
@pytest.mark.parametrize(
    ("flags", "optional", "behind", "is_read"),
    [
        pytest.param(0x60, b"", b"", True, id="plain"),
        pytest.param(0x60, b"", b"something", True, id="something behind"),
        pytest.param(0x40, b"", b"", False, id="dependent blocks"),
        pytest.param(0x61, bytes(4), b"", False, id="a dictionary"),
    ],
)
def test_old_formats_are_taken_by_the_same_rule(
    magic: int, flags: int, optional: bytes, behind: bytes, *, is_read: bool
) -> None:
    payload = frame(flags, blocks=(INNER[magic],), optional=optional) + behind
    outcome = up_convert(encode_message(0, magic, None, payload, timestamp_ms=WALL_MS, compression=3), CODECS)
    assert isinstance(outcome, UpConverted) == is_read
    if isinstance(outcome, UpConverted):
        opened = open_batch(memoryview(outcome.records), "t-0", UNCOMPRESSED, WALL_MS, CODECS)
        assert isinstance(opened, memoryview)
        assert [record.value for record in decode_records(opened)] == [b"value"]


@pytest.mark.java
@pytest.mark.skipif(not HAS_KAFKA, reason=WITHOUT_KAFKA)
def test_kafka_still_says_so() -> None:
    assert kafka_says() == {name: case.kafka for name, case in CASES.items()}
