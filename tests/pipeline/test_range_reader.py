"""A range read from a leader that answers by script: what a cluster seldom does, and what a reader makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="no pyarrow here (make pipeline-test)")

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from barnabas.wire.record_batch import Record, build_batch
from barnabas_pipeline.core.cluster import Topic
from barnabas_pipeline.core.errors import CorruptBatch, TopicMissing
from barnabas_pipeline.core.losses import Loss, LossReason
from barnabas_pipeline.core.ranges import OffsetRange
from barnabas_pipeline.core.settings import ClientSettings
from barnabas_pipeline.kafka import reading
from barnabas_pipeline.kafka.cluster_client import ClusterClient, Retry
from barnabas_pipeline.kafka.reading import read_range

ID = "JmEXb4Q3S0yLrxLOBtXlYw"
SETTINGS = ClientSettings((("x", 1),), api_timeout_ms=60_000, retry_backoff_ms=1, retry_backoff_max_ms=1)
WANTED = OffsetRange("orders", ID, 0, 0, 4)


def answer(records: bytes = b"", code: int = 0, high_watermark: int = 0) -> FetchResponse:
    part = PartitionData(0, code, high_watermark, records=records)
    return FetchResponse(responses=[FetchableTopicResponse("orders", partitions=[part])])


def batch(offset: int, *values: bytes) -> bytes:
    return build_batch([Record(None, value) for value in values], base_offset=offset)


@dataclass
class Script:
    """Stands for the client and its one connection. The clock moves on by a second at each look at it, or by what is
    in `pauses`."""

    answers: list[FetchResponse | None]
    topics_there: list[dict[str, Topic]] = field(default_factory=list)
    settings: ClientSettings = SETTINGS
    now: float = 0.0
    asked: list[int] = field(default_factory=list)
    others_asked: int = 0

    def client(self) -> Any:
        return self

    def leader(self, partition: object) -> Script:
        del partition
        if self.answers and self.answers[0] is None:
            self.answers.pop(0)
            raise TopicMissing("orders-0 does not exist")
        return self

    def version_of(self, key: object) -> int:
        del key
        return 17

    def send(self, request: Any, version_max: int) -> None:
        del version_max
        self.asked.append(request.topics[0].partitions[0].fetch_offset)

    def receive(self, answer_type: object) -> FetchResponse:
        del answer_type
        found = self.answers.pop(0)
        assert found is not None
        return found

    def retrying(self, what: str, attempt: Callable[[], Any]) -> Any:
        del what
        while True:
            try:
                return attempt()
            except Retry:
                continue

    def check(self, code: int, what: str) -> None:
        ClusterClient.check(self, code, what)  # type: ignore[arg-type]

    def forget(self, topic: str) -> None:
        pass

    def ask_another(self) -> None:
        self.others_asked += 1

    def topics(self, names: Iterable[str] | None = None) -> dict[str, Topic]:
        del names
        return self.topics_there.pop(0) if self.topics_there else {"orders": Topic("orders", ID, False, {0: 1})}


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    reported = SimpleNamespace(now=0.0, naps=0)

    def monotonic() -> float:
        reported.now += 1
        return float(reported.now)

    def sleep(seconds: float) -> None:
        reported.now += seconds
        reported.naps += 1

    monkeypatch.setattr(reading, "time", SimpleNamespace(monotonic=monotonic, sleep=sleep))
    return reported


def read(script: Script, losses: list[Loss]) -> list[bytes]:
    rows = read_range(script, WANTED, losses.append)  # type: ignore[arg-type]
    return [value for columns in rows for value in columns.column("value").to_pylist()]


def test_who_reads_slowly_does_not_take_a_short_pause_for_a_loss(clock: Any) -> None:
    script = Script([answer(batch(0, b"a", b"b")), answer(), answer(batch(2, b"c", b"d"))])
    losses: list[Loss] = []
    found = []
    for columns in read_range(script, WANTED, losses.append):  # type: ignore[arg-type]
        found += columns.column("value").to_pylist()
        clock.now += 3600  # an hour with what came first
    assert (found, losses) == ([b"a", b"b", b"c", b"d"], [])


def test_a_log_that_ends_for_longer_than_the_timeout_has_lost_its_end() -> None:
    losses: list[Loss] = []
    assert read(Script([answer(batch(0, b"a")), *[answer(high_watermark=1)] * 100]), losses) == [b"a"]
    assert [(loss.start, loss.end, loss.reason) for loss in losses] == [(1, 4, LossReason.TRUNCATED)]


def test_a_hole_at_the_end_of_a_compacted_log_is_no_loss() -> None:
    losses: list[Loss] = []
    assert read(Script([answer(batch(0, b"a")), *[answer(high_watermark=4)] * 100]), losses) == [b"a"]
    assert losses == []


def test_an_answer_without_partitions_is_asked_for_again() -> None:
    """A broker that throttles a client answers so."""
    losses: list[Loss] = []
    throttled = FetchResponse(throttle_time_ms=5, responses=[])
    assert read(Script([throttled, answer(batch(0, b"a", b"b", b"c", b"d"))]), losses) == [b"a", b"b", b"c", b"d"]


def test_what_lies_behind_the_range_is_not_looked_at() -> None:
    broken = bytearray(batch(4, b"e"))
    broken[-1] ^= 1
    losses: list[Loss] = []
    assert read(Script([answer(batch(0, b"a", b"b", b"c", b"d") + bytes(broken))]), losses) == [b"a", b"b", b"c", b"d"]


def test_a_batch_that_does_not_reach_the_position_is_not_fetched_for_ever() -> None:
    """The CRC does not cover a base offset: one that has lost its highest bits lies before what was asked for."""
    script = Script([answer(batch(0, b"a", b"b")), *[answer(batch(0, b"c", b"d"))] * 100])
    with pytest.raises(CorruptBatch, match="offsets 0 to 1 lies where offset 2 or a later one"):
        read(script, [])
    assert script.asked == [0, 2]


@pytest.mark.parametrize("offsets", [(0, 1), (0, 8, 2), (0, 3, 1), (0, 8, 10, 2)])
def test_a_base_offset_out_of_order_is_no_silence(offsets: tuple[int, ...]) -> None:
    """One that is too large would have what lies behind it passed over; one that is too small, doubled."""
    data = b"".join(batch(offset, b"x", b"y") for offset in offsets)
    with pytest.raises(CorruptBatch, match="has to follow"):
        read(Script([answer(data)]), [])


def test_a_range_within_a_batch_and_holes_between_batches_are_in_order() -> None:
    data = build_batch([Record(None, b"%d" % each) for each in range(5)], base_offset=0) + batch(9, b"9", b"10")
    wanted = OffsetRange("orders", ID, 0, 3, 10)
    rows = read_range(Script([answer(data)]), wanted, [].append)  # type: ignore[arg-type]
    assert [each for columns in rows for each in columns.column("value").to_pylist()] == [b"3", b"4", b"9"]


def test_a_topic_that_one_broker_has_not_heard_of_is_asked_for_again() -> None:
    losses: list[Loss] = []
    script = Script([None, answer(code=ErrorCode.UNKNOWN_TOPIC_ID), None, answer(batch(0, b"a", b"b", b"c", b"d"))])
    script.topics_there = [{}]
    assert read(script, losses) == [b"a", b"b", b"c", b"d"]
    assert losses == []


def test_a_topic_that_seems_gone_while_the_next_fetch_is_sent_is_asked_for_again() -> None:
    losses: list[Loss] = []
    script = Script([answer(batch(0, b"a", b"b")), None, answer(batch(2, b"c", b"d"))])
    assert read(script, losses) == [b"a", b"b", b"c", b"d"]
    assert losses == []


def test_a_topic_that_is_gone_before_it_is_read_is_a_loss() -> None:
    """And not by the word of one broker alone, which may be behind."""
    losses: list[Loss] = []
    script = Script([None] * 20)
    assert read(script, losses) == []
    assert script.others_asked == 4
    assert [(loss.start, loss.reason) for loss in losses] == [(0, LossReason.DELETED)]


def test_a_topic_that_is_gone_while_it_is_read_is_a_loss() -> None:
    losses: list[Loss] = []
    script = Script([answer(batch(0, b"a")), *[answer(code=ErrorCode.UNKNOWN_TOPIC_ID)] * 20], [{}] * 50)
    assert read(script, losses) == [b"a"]
    assert [(loss.start, loss.reason) for loss in losses] == [(1, LossReason.DELETED)]
