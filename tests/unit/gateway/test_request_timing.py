"""Where a request's time goes: to one hop after the other, all of it, and what is slow shows where it is slow."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from barnabas.channel.messages import (
    AppendResult,
    Credit,
    ExchangeResponse,
    OffsetAnswer,
    Outcome,
)
from barnabas.channel.timing import Timed, Times
from barnabas.cluster.messages import CreateTopicResult, CreateTopicsResponse
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import encode_request_header
from barnabas.wire.message_set import encode_message
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas_gateway.core.timing.hops import HOP_NAMES, Hop
from barnabas_gateway.core.timing.request_metrics import LOOK_AGAIN_AFTER, TIMED_AGAIN_US, TIMED_EVERY
from barnabas_gateway.core.timing.request_timing import RequestTiming
from tests.unit.gateway.world import World, topic

USUAL_US = {
    "request_queue": 40,
    "gateway": 25,
    "channel": 20,
    "logstore_queue": 30,
    "logstore_work": 50,
    "purgatory": 300,
    "response_queue": 7,
    "response_send": 60,
}
"""Where a produce of the story spends its time; all different, so that no two can be mistaken for each other."""

Hops = dict[str, int]


def hops_of(world: World, correlation_id: int) -> Hops:
    """The time of a request in each hop, from its line in the log of slow requests."""
    world.turn()
    (line,) = [line for line in world.logs if line.fields.get("correlation_id") == correlation_id]
    assert line.event == "slow request"
    hops = {
        name: line.fields[f"{name}_us"]
        for name in (each.replace("-", "_") for each in HOP_NAMES)
        if f"{name}_us" in line.fields
    }
    assert sum(map(int, hops.values())) == line.fields["total_us"]
    return {name: int(value) for name, value in hops.items()}


def produce_story(usual_us: Hops) -> Hops:
    """A produce with acks=all that waits wherever one can wait."""
    world = World(pods=("p-0",), request_log_slow_ms=0)
    world.logstore.down()
    world.logstore.up(Credit(2, 1 << 21))
    client = world.client()
    asked = ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=-1)])])
    client.ask(asked, ApiKey.LIST_OFFSETS, 7)
    # Behind the barrier. The first one's answer will be late; the second one is the one that is looked at.
    client.produce(0, acks=-1, version=10)
    client.produce(0, acks=-1, version=11)
    world.clock_us += usual_us["request_queue"]
    query = world.logstore.offset_queries.pop()
    world.logstore.timed.clear()
    world.logstore.say(ExchangeResponse(offset_answers=[OffsetAnswer(query.request_id)]))
    assert len(world.logstore.appends) == 1, "there is no credit for both"
    world.clock_us += usual_us["gateway"]
    world.logstore.grant(100, 1 << 21)
    world.clock_us += usual_us["channel"] + usual_us["logstore_queue"] + usual_us["logstore_work"]
    late, looked_at = world.logstore.appends
    result = AppendResult(looked_at.request_id, base_offset=7, leader_epoch=5, required_offset=8)
    times = Times(looked_at.request_id, usual_us["logstore_queue"], usual_us["logstore_work"])
    world.logstore.times.append(times)
    world.logstore.say(ExchangeResponse(append_results=[result]))
    world.clock_us += usual_us["purgatory"]
    (entry,) = world.pod.produces
    world.pod.complete(entry.entry_id, Outcome.SATISFIED)
    world.clock_us += usual_us["response_queue"]
    client.takes_answers = False
    world.logstore.say(ExchangeResponse(append_results=[AppendResult(late.request_id, base_offset=6, committed=True)]))
    world.clock_us += usual_us["response_send"]
    client.leave_unread(0)
    del client.answers[0]
    assert client.error_codes() == [[ErrorCode.NONE], [ErrorCode.NONE]]
    return hops_of(world, client.correlation_ids[-1])


def test_every_hop_gets_its_own_time() -> None:
    assert produce_story(USUAL_US) == USUAL_US


@pytest.mark.parametrize("slow", USUAL_US)
def test_a_slow_hop_shows_in_that_hop_and_in_no_other(slow: str) -> None:
    assert produce_story(USUAL_US | {slow: 1_000_000}) == USUAL_US | {slow: 1_000_000}


def without_mark(hop: int) -> Callable[[RequestTiming, int], int]:
    enter = RequestTiming.enter

    def mutant(self: RequestTiming, entered: int) -> int:
        return enter(self, self.hop if entered == hop else entered)

    return mutant


@pytest.mark.parametrize("hop", [Hop.GATEWAY, Hop.CHANNEL, Hop.PURGATORY, Hop.RESPONSE_QUEUE, Hop.RESPONSE_SEND])
def test_a_mark_that_is_missing_is_seen(hop: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RequestTiming, "enter", without_mark(hop))
    assert produce_story(USUAL_US) != USUAL_US


def test_a_mark_that_takes_time_twice_breaks_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    enter = RequestTiming.enter

    def mutant(self: RequestTiming, hop: int) -> int:
        self.hops_us[hop] += 1
        return enter(self, hop)

    monkeypatch.setattr(RequestTiming, "enter", mutant)
    with pytest.raises(AssertionError, match="some time went to no hop, or to two"):
        produce_story(USUAL_US)


# --- other ways than that of a produce ---


def test_a_fetch_that_waits_is_read_twice() -> None:
    world = World(pods=("p-0",), request_log_slow_ms=0)
    client = world.client()
    client.fetch(0)
    world.clock_us += 100
    world.logstore.took(10, 60)
    world.logstore.read_result(b"")
    world.clock_us += 400
    world.pod.complete(world.pod.fetches[0].entry_id, Outcome.SATISFIED)
    world.clock_us += 200
    world.logstore.took(20, 70)
    world.logstore.read_result(b"records")
    expected = {"channel": 30 + 110, "logstore_queue": 30, "logstore_work": 130, "purgatory": 400}
    assert hops_of(world, 1) == expected


def test_a_poll_that_finds_its_wait_parked_waits_in_purgatory_too() -> None:
    world = World(pods=(), request_log_slow_ms=0)
    client = world.client()
    client.fetch(0, max_wait_ms=40)
    world.logstore.took(0, 0)
    world.logstore.read_result(b"")
    world.clock_us += 40_000
    world.pass_ms(60)
    world.clock_us += 5
    world.logstore.read_result(b"")
    assert hops_of(world, 1) == {"purgatory": 40_000, "channel": 5}


def test_what_waits_for_the_controller_and_for_what_came_of_it() -> None:
    world = World(request_log_slow_ms=0)
    client = world.client()
    client.ask(MetadataRequest([MetadataRequestTopic(name="new")]), ApiKey.METADATA, 9)
    world.clock_us += 300
    world.controller_answers(CreateTopicsResponse([CreateTopicResult("new", b"n" * 16, 0)], world.revision + 1))
    world.clock_us += 11
    world.update(topic(), topic("new", b"n" * 16))
    assert client.answers
    assert hops_of(world, 1) == {"controller": 311}


def test_a_conversion_is_a_hop() -> None:
    world = World(request_log_slow_ms=0)
    client = world.client()
    client.produce(records=encode_message(0, 1, b"k", b"v", timestamp_ms=5), version=2)
    world.clock_us += 3_000
    world.convert()
    world.clock_us += 90
    world.logstore.append_result(committed=True)
    assert hops_of(world, 1) == {"conversion": 3_000, "channel": 90}


def test_a_logstore_that_knows_nothing_of_times_leaves_all_of_it_to_the_channel() -> None:
    """As the last version's do."""
    world = World(request_log_slow_ms=0)
    world.client().produce()
    world.clock_us += 90
    world.logstore.append_result(committed=True)
    assert hops_of(world, 1) == {"channel": 90}


def test_durations_that_are_longer_than_the_wait_are_cut_to_it() -> None:
    world = World(request_log_slow_ms=0)
    world.client().produce()
    world.clock_us += 90
    world.logstore.took(50, 60)
    world.logstore.append_result(committed=True)
    assert hops_of(world, 1) == {"logstore_queue": 30, "logstore_work": 60}


def test_of_several_logstores_the_last_one_to_answer_counts() -> None:
    world = World(topic(leaders=(1, 2)), nodes=(1, 2), request_log_slow_ms=0)
    world.client().produce(0, 1)
    world.clock_us += 90
    world.logstores[1].took(50, 40)
    world.logstores[1].append_result(committed=True)
    world.clock_us += 10
    world.logstores[2].took(5, 15)
    world.logstores[2].append_result(committed=True)
    assert hops_of(world, 1) == {"channel": 80, "logstore_queue": 5, "logstore_work": 15}


def test_what_a_leader_held_is_a_wait_like_that_in_purgatory() -> None:
    world = World(request_log_slow_ms=0)
    world.client().produce(acks=-1)
    world.clock_us += 900
    world.logstore.took(5, 15, 700)
    world.logstore.append_result(committed=True)
    assert hops_of(world, 1) == {"channel": 180, "logstore_queue": 5, "logstore_work": 15, "purgatory": 700}


def test_of_several_logstores_the_last_one_to_be_asked_began_the_wait() -> None:
    world = World(topic(leaders=(1, 2)), nodes=(1, 2), request_log_slow_ms=0)
    world.logstores[2].down()
    world.logstores[2].up(Credit(0, 0))
    world.client().produce(0, 1)
    world.clock_us += 70
    world.logstores[2].grant(10, 1 << 21)
    world.clock_us += 20
    world.logstores[1].append_result(committed=True)
    world.logstores[2].append_result(committed=True)
    assert hops_of(world, 1) == {"gateway": 70, "channel": 20}


# --- which are timed ---


def timed_of(world: World, requests: int) -> list[Timed]:
    for _ in range(requests):
        world.clients[1].produce()
    return world.logstore.timed


def test_rare_requests_are_all_timed() -> None:
    world = World()
    world.client()
    for _ in range(5):
        assert len(timed_of(world, 1)) == 1
        world.logstore.took(0, 0)
        world.logstore.append_result(committed=True)
        world.clock_us += TIMED_AGAIN_US


def test_of_requests_that_wait_for_each_other_one_in_each_few_milliseconds_is_timed() -> None:
    world = World()
    world.client()
    between_us = TIMED_AGAIN_US // 40
    for _ in range(200):
        timed_of(world, 1)
        world.logstore.append_result(committed=True)
        world.clock_us += between_us
    numbers = [timed.request_id for timed in world.logstore.timed]
    assert len(numbers) == 5
    assert all(40 <= later - earlier <= 40 + LOOK_AGAIN_AFTER for earlier, later in pairwise(numbers))


def test_of_many_under_way_one_and_a_small_part_of_the_others_is_timed() -> None:
    world = World()
    world.client()
    assert len(timed_of(world, 2 * TIMED_EVERY)) == 2
    while world.logstore.appends:
        world.logstore.append_result(committed=True)
    # Both were overtaken by many: the next one is due when so many have come since the second, and then it is alone.
    for timed in (3, 4):
        assert len(timed_of(world, 1)) == timed
        world.logstore.append_result(committed=True)
        world.clock_us += TIMED_AGAIN_US


def test_what_was_overtaken_by_many_is_not_followed_by_another_at_once() -> None:
    world = World()
    world.client()
    assert len(timed_of(world, 10)) == 1
    while world.logstore.appends:
        world.logstore.append_result(committed=True)
    assert len(timed_of(world, 10)) == 1


def test_nothing_is_timed_where_metrics_are_off() -> None:
    world = World(metrics_enable=False)
    world.client()
    assert timed_of(world, 3) == []
    assert world.processor.metrics.apis[ApiKey.PRODUCE].kinds[11].requests == 0


def test_a_client_that_goes_leaves_nothing_timed_behind() -> None:
    world = World()
    client = world.client()
    client.produce()
    client.close()
    world.clock_us += TIMED_AGAIN_US
    world.client().produce()
    assert len(world.logstore.timed) == 2


def test_an_answer_that_its_client_never_takes_is_given_up_with_the_connection() -> None:
    world = World()
    client = world.client()
    client.takes_answers = False
    client.produce()
    world.logstore.append_result(committed=True)
    times = world.processor.metrics.apis[ApiKey.PRODUCE].times
    assert times.total.count == 0
    client.close()
    assert times.total.count == 1


def test_a_request_without_an_answer_is_over_when_it_is_done() -> None:
    world = World(request_log_slow_ms=0)
    client = world.client()
    client.produce(acks=0)
    world.clock_us += 90
    world.logstore.append_result(committed=True)
    assert hops_of(world, 1) == {"channel": 90}


# --- what is traced ---


def test_the_context_of_a_traced_request_is_sent_along_to_every_service() -> None:
    world = World(pods=("p-0",), traces_sample_every=1)
    client = world.client()
    client.produce(acks=-1)
    (timed,) = world.logstore.timed
    assert (timed.trace_id, timed.span_id) == (b"\x01" * 16, b"\x01" * 8)
    world.logstore.append_result()
    (traced,) = world.pod.traced
    assert traced == Timed(world.pod.produces[0].entry_id, timed.trace_id, timed.span_id)
    world.pod.complete(traced.request_id, Outcome.SATISFIED)
    (finished,) = world.processor.metrics.traces
    assert finished.trace is not None
    assert finished.trace.trace_id == timed.trace_id


def test_so_many_as_are_asked_for_are_traced() -> None:
    world = World(traces_sample_every=10)
    client = world.client()
    for _ in range(100):
        client.produce()
        world.logstore.append_result(committed=True)
    assert sum(1 for each in world.logstore.timed if each.trace_id) == 10


def test_the_hops_of_a_trace_follow_each_other_without_a_gap() -> None:
    world = World(pods=("p-0",), traces_sample_every=1)
    world.clock_us = 1_000
    world.client().produce(acks=-1)
    world.clock_us += 100
    world.logstore.took(20, 30)
    world.logstore.append_result()
    world.clock_us += 300
    world.pod.complete(world.pod.produces[0].entry_id, Outcome.SATISFIED)
    (finished,) = world.processor.metrics.traces
    assert finished.trace is not None
    assert finished.trace.hops == [(Hop.CHANNEL, 1_000, 1_100), (Hop.PURGATORY, 1_100, 1_400)]


def test_a_line_about_a_traced_request_names_its_trace() -> None:
    world = World(traces_sample_every=1)
    world.client().produce(acks=0)
    world.logstore.append_result(error_code=ErrorCode.NOT_ENOUGH_REPLICAS)
    (line,) = world.logs
    assert line.event == "connection closed: a produce with acks=0 failed"
    assert line.fields["trace_id"] == "01" * 16


# --- samples ---


def samples_of(world: World) -> dict[tuple[str, ...], Any]:
    return {(sample.family.name, *sample.labels): sample.value for sample in world.processor.request_meter.samples()}


def test_kafkas_names_add_up_to_the_total() -> None:
    world = World(pods=("p-0",))
    world.client().produce(acks=-1)
    world.clock_us += 100
    world.logstore.took(20, 30)
    world.logstore.append_result()
    world.clock_us += 300
    world.pod.complete(world.pod.produces[0].entry_id, Outcome.SATISFIED)
    samples = samples_of(world)
    sums = {
        name: samples[f"kafka_network_requestmetrics_{name}timems", "Produce"]
        for name in ("total", "local", "remote", "requestqueue", "responsequeue", "responsesend", "throttle")
    }
    assert {name: histogram.sum for name, histogram in sums.items()} == {
        "total": 400,
        "local": 100,
        "remote": 300,
        "requestqueue": 0,
        "responsequeue": 0,
        "responsesend": 0,
        "throttle": 0,
    }
    assert {histogram.count for histogram in sums.values()} == {1}
    hops = [value for key, value in samples.items() if key[0] == "barnabas_request_hop_ms"]
    assert len(hops) == len(HOP_NAMES)
    assert {histogram.count for histogram in hops} == {1}
    assert sum(histogram.sum for histogram in hops) == 400


def test_requests_bytes_and_errors_are_all_counted() -> None:
    world = World()
    client = world.client()
    client.produce(version=10)
    frame = client.frame(MetadataRequest([MetadataRequestTopic(name="absent")], False), ApiKey.METADATA, 9)
    world.logstore.append_result(error_code=ErrorCode.NOT_ENOUGH_REPLICAS)
    client.send(frame)
    client.produce(version=10)
    client.produce(version=11)
    world.logstore.append_result(committed=True)
    samples = samples_of(world)
    assert samples["kafka_network_requestmetrics_requestspersec", "Produce", "10"] == 2
    assert samples["kafka_network_requestmetrics_requestspersec", "Produce", "11"] == 1
    assert samples["barnabas_request_bytes", "Metadata"] == len(frame) - 4
    errors = {key[1:]: value for key, value in samples.items() if key[0].endswith("errorspersec")}
    assert errors == {
        ("Produce", "NONE"): 1,
        ("Produce", "NOT_ENOUGH_REPLICAS"): 1,
        ("Metadata", "NONE"): 0,
        ("Metadata", "UNKNOWN_TOPIC_OR_PARTITION"): 1,
    }
    client.close()
    samples = samples_of(world)
    assert samples["kafka_network_requestmetrics_errorspersec", "Produce", "NONE"] == 1, "one was not answered"


def test_versions_that_are_not_served_make_no_counter_fall() -> None:
    """Newer clients begin with one. The error was counted and the request was not: one success less each time."""
    world = World()
    client = world.client()
    client.ask(ApiVersionsRequest(), ApiKey.API_VERSIONS, 0)
    for version in (99, 100):
        header = encode_request_header(ApiKey.API_VERSIONS, version, 1, None)
        client.send(len(header).to_bytes(4, "big") + header)
    samples = samples_of(world)
    errors = {key[2]: value for key, value in samples.items() if key[0].endswith("errorspersec")}
    assert errors == {"NONE": 1, "UNSUPPORTED_VERSION": 2}
    assert [key[2] for key in samples if key[0].endswith("requestspersec")] == ["0"]
