"""Three members joined a group, each with a subscription of 90 MiB, which a request may have. The leader's answer had
to contain all of them in its generation: more than a message of the data channel holds. The gateway's end of the stream
broke by it, and with it every call of every group that was on it; the leader came again, and it broke again.

An answer that no message holds is UNKNOWN_SERVER_ERROR, only for its own caller. And several large ones of one turn are
several messages.
"""

from __future__ import annotations

import pytest

from barnabas.channel.generated.packing import pack_coordinate_response, scan_coordinate_response
from barnabas.channel.messages import CoordinateResponse, GroupAnswer
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas_logstore.core.coordinator.runtime import inbox
from tests.unit.logstore.service.group_host import GROUP, GroupHost, coordinated, offsets_topic

METADATA_BYTES = 900


def leading() -> GroupHost:
    host = GroupHost()
    host.lead(offsets_topic())
    return host


def join(host: GroupHost) -> int:
    """Of a new member, by a version that gives no ids beforehand."""
    protocols = [JoinGroupRequestProtocol("range", bytes(METADATA_BYTES))]
    return host.call(JoinGroupRequest(GROUP, 10_000, 20_000, "", None, "consumer", protocols), 3)


def test_a_member_whose_answer_fits_no_message_is_refused_and_the_others_have_their_generation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inbox, "ANSWER_BYTES_MAX", 2 * METADATA_BYTES)
    host = leading()
    requests = [join(host) for _ in range(3)]
    host.settle()
    host.later(1)
    reported = [host.collect_of(each) for each in requests]
    assert reported[0] == ErrorCode.UNKNOWN_SERVER_ERROR
    assert [(each.error_code, each.generation_id) for each in reported[1:]] == [(ErrorCode.NONE, 1)] * 2
    assert host.ask(DescribeGroupsRequest([GROUP]), 5).groups[0].error_code == ErrorCode.NONE


def test_many_large_answers_of_one_turn_are_many_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "MESSAGE_BYTES_MAX", 2 * METADATA_BYTES)
    host = leading()
    groups = [f"{number}{'x' * METADATA_BYTES}" for number in range(7)]
    requests = [host.call(DescribeGroupsRequest([group]), 5) for group in groups]
    messages = coordinated(host.turn())
    assert [len(each.answers) for each in messages] == [2, 2, 2, 1]
    assert [each.credit is not None for each in messages] == [True, False, False, False]
    assert [host.answer_of(each).groups[0].group_id for each in requests] == groups


def test_the_channel_has_a_word_for_it() -> None:
    response = CoordinateResponse(answers=[GroupAnswer(7, ErrorCode.UNKNOWN_SERVER_ERROR)])
    assert scan_coordinate_response(pack_coordinate_response(response)) == response
