"""The topic of the audit: what is written to it, when it is written again, and that it is bounded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from barnabas.cluster.access.operator_calls import OperatorCall
from barnabas.cluster.controller_calls.method import Change
from barnabas.cluster.messages import CreateTopicsRequest, NewTopic
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_topics import CreatableTopic
from barnabas.wire.messages.create_topics import CreateTopicsRequest as WireCreateTopics
from barnabas.wire.record_batch import crc_is_valid, decode_records
from barnabas_gateway.core.model.audit import changes_asked_for
from barnabas_gateway.core.requests.audit_topic import DELIVERY_MS_MAX, WAITING_BYTES_MAX
from tests.unit.gateway.world import World, topic

FIELDS = {"principal": "User:alice", "verdict": "denied", "limit_key": "x"}


def world(**config: Any) -> World:
    return World(topic("audit"), audit_topic="audit", **config)


def written(at: World) -> list[dict[str, Any]]:
    """The records of the oldest append."""
    append = at.logstore.appends[0]
    assert append.acks == -1
    assert crc_is_valid(append.records)
    return [json.loads(record.value or b"") for record in decode_records(append.records)]


def outcomes(at: World) -> dict[str, int]:
    return {sample.labels[0]: int(sample.value) for sample in at.processor.audit_topic.samples()}  # type: ignore[arg-type]


def add(at: World, event: str = "authorization denied", **fields: str) -> None:
    at.processor.audit_topic.add_record(event, FIELDS | fields)


def test_records_of_a_moment_are_one_batch() -> None:
    at = world()
    add(at)
    add(at, "authenticated", client_id="x" * 5000 + "\ud800")
    assert not at.logstore.appends
    at.pass_ms(200)
    first, second = written(at)
    assert first["event"] == "authorization denied"
    assert first["principal"] == "User:alice"
    assert first["gateway_id"] == at.processor.config.gateway_id
    assert first["time"].endswith("+00:00")
    assert "limit_key" not in first
    assert len(second["client_id"]) == 1024
    at.logstore.append_result(committed=True)
    at.pass_ms(5000)
    assert not at.logstore.appends
    assert outcomes(at) == {"written": 2, "dropped": 0}


def test_what_a_controller_has_recorded_is_its_own_record() -> None:
    at = world()
    call = OperatorCall(
        1_700_000_000_000, "controller-1", "alice", "ipv4:127.0.0.1:1", "/x/DeleteTopic", "denied", "role"
    )
    at.processor.audit_topic.add_operator_call(call)
    at.pass_ms(200)
    assert written(at) == [
        {
            "time": "2023-11-14T22:13:20.000+00:00",
            "service": "controller",
            "controller_id": "controller-1",
            "event": "operator's call",
            "principal": "alice",
            "peer": "ipv4:127.0.0.1:1",
            "operation": "/x/DeleteTopic",
            "verdict": "denied",
            "reason": "role",
        }
    ]
    at.logstore.append_result(committed=True)
    assert outcomes(at) == {"written": 1, "dropped": 0}


def test_without_the_key_nothing_is_kept() -> None:
    at = World(topic("audit"))
    add(at)
    at.processor.audit_topic.add_operator_call(OperatorCall(0, "controller-1", "alice", "x", "x", "allowed"))
    at.pass_ms(1000)
    assert not at.logstore.appends
    assert not list(at.processor.audit_topic.samples())


@pytest.mark.parametrize("error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_what_was_perhaps_not_written_is_sent_again(error: ErrorCode) -> None:
    at = world()
    add(at)
    at.pass_ms(200)
    at.logstore.append_result(base_offset=-1, error_code=int(error), leader_epoch=-1)
    add(at, "authenticated")
    at.pass_ms(1000)
    assert [each["event"] for each in written(at)] == ["authorization denied"]
    at.logstore.append_result(committed=True)
    at.pass_ms(1000)
    assert [each["event"] for each in written(at)] == ["authenticated"]
    at.logstore.append_result(committed=True)
    assert outcomes(at) == {"written": 2, "dropped": 0}


def test_a_batch_that_is_refused_is_dropped_and_logged() -> None:
    at = world()
    add(at)
    at.pass_ms(200)
    at.logstore.append_result(base_offset=-1, error_code=int(ErrorCode.MESSAGE_TOO_LARGE))
    assert outcomes(at) == {"written": 0, "dropped": 1}
    assert [line.event for line in at.logs] == ["records of the audit dropped"]
    at.pass_ms(5000)
    assert not at.logstore.appends, "what is dropped makes no record"


def test_without_the_topic_records_wait_and_are_dropped_in_the_end() -> None:
    at = World(topic("other"), audit_topic="audit")
    add(at)
    at.pass_ms(5000)
    at.update(topic("audit"))
    at.pass_ms(5000)
    assert len(written(at)) == 1
    at.logstore.append_result(committed=True)
    at.update(topic("other"))
    add(at)
    at.pass_ms(DELIVERY_MS_MAX + 5000)
    assert outcomes(at) == {"written": 1, "dropped": 1}


def test_memory_is_bounded_while_the_leader_is_away() -> None:
    at = world()
    at.logstore.down()
    for _ in range(5000):
        add(at, resource="r" * 1000)
    assert outcomes(at)["dropped"] > 3000
    at.pass_ms(1000)
    at.logstore.up()
    total = 0
    for _ in range(20):
        at.pass_ms(3000)
        if at.logstore.appends:
            assert len(at.logstore.appends) == 1, "one batch at a time"
            total += len(at.logstore.appends[0].records)
            at.logstore.append_result(committed=True)
    assert WAITING_BYTES_MAX // 2 < total < WAITING_BYTES_MAX
    assert sum(outcomes(at).values()) == 5000


def test_a_commit_is_waited_for_in_purgatory() -> None:
    at = world(pods=("p",))
    add(at)
    at.pass_ms(200)
    at.logstore.append_result()
    assert len(at.pod.produces) == 1
    assert outcomes(at)["written"] == 0


def test_a_change_whose_answer_is_lost_is_recorded_and_goes_to_the_topic() -> None:
    at = world()
    client = at.client()
    wire = WireCreateTopics([CreatableTopic("t", 1, 1)], 1000)
    client.ask(wire, ApiKey.CREATE_TOPICS, 7)
    at.turn()
    at.controller_answers(None)
    assert [(line.event, line.fields["verdict"], line.fields["resource"]) for line in at.logs] == [
        ("topic perhaps created", "unknown", "t")
    ]
    at.logs.clear()
    client.ask(wire, ApiKey.CREATE_TOPICS, 7)
    at.turn()
    at.pass_ms(5000)
    assert [line.fields["verdict"] for line in at.logs] == ["unknown"], "the timeout is over, the call is not"
    assert [each["verdict"] for each in written(at)] == ["unknown"]


def test_what_is_only_validated_is_no_change() -> None:
    asked = CreateTopicsRequest([NewTopic("t", 1, 1)], 1000)
    assert list(changes_asked_for(asked)) == [Change("topic created", "t")]


def test_a_batch_that_failed_while_its_leader_is_asked_ends_once() -> None:
    at = world(pods=("p-0",))
    at.expects_fault = True
    add(at)
    at.pass_ms(200)
    at.logstore.append_result(required_offset=8)
    at.pod.down()
    (asked,) = at.processor.logstores.find_logstore(1).queries.in_flight.values()
    asked.asker.failed(RuntimeError("a bug"))
    assert outcomes(at) == {"written": 0, "dropped": 1}
    add(at, "authenticated")
    at.logstore.state_answer(high_watermark=8)
    assert outcomes(at) == {"written": 0, "dropped": 1}
    at.pass_ms(200)
    assert [each["event"] for each in written(at)] == ["authenticated"]
    at.logstore.append_result(committed=True)
    assert outcomes(at) == {"written": 1, "dropped": 1}
    assert len(at.contained) == 1
