"""OffsetCommit, OffsetFetch, OffsetDelete: what the gateway refuses by its metadata, and what the coordinator says."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.channel.generated.packing import MalformedMessage
from barnabas.channel.messages import CoordinateResponse, GroupAnswer
from barnabas.cluster.acls import ResourceType
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import encode_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tests.unit.gateway.groups import by_partition, group_world
from tests.unit.gateway.permissions import allow_if
from tests.unit.gateway.world import TOPIC_ID, Client

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
OTHER_ID = b"of no topic here"
NO_ID = bytes(16)


def deny(monkeypatch: pytest.MonkeyPatch, denied: ResourceType) -> None:
    allow_if(monkeypatch, lambda _, resource: resource[0] is not denied)


# --- OffsetCommit ----------------------------------------------------------------------------------------------------


def commit(client: Client, topics: dict[Any, list[int]], version: int = 9) -> OffsetCommitRequest:
    request = OffsetCommitRequest(
        "g",
        3,
        "m-1",
        topics=[
            OffsetCommitRequestTopic(
                "" if version >= 10 else name,
                name if version >= 10 else NO_ID,
                [OffsetCommitRequestPartition(index, 70 + index, 5, "note") for index in partitions],
            )
            for name, partitions in topics.items()
        ],
    )
    client.ask(request, ApiKey.OFFSET_COMMIT, version)
    return request


def committed(*partitions: int, error_code: int = 0, name: str = "t") -> OffsetCommitResponse:
    reported = [OffsetCommitResponsePartition(index, error_code) for index in partitions]
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name, NO_ID, reported)])


def commit_errors(client: Client) -> dict[tuple[str, bytes, int], int]:
    return {
        (topic.name, topic.topic_id, each.partition_index): each.error_code
        for topic in client.answers[-1].topics
        for each in topic.partitions
    }


@pytest.mark.parametrize("version", range(2, 10))
def test_a_commit_goes_as_it_came(version: int) -> None:
    world = group_world()
    client = world.client()
    request = commit(client, {"t": [0, 1]}, version)
    assert bytes(world.logstore.group_calls[0].body) == encode_body(request, version)
    assert world.logstore.group_calls[0].api_version == version
    world.logstore.group_answer(committed(0, 1))
    assert commit_errors(client) == {("t", NO_ID, 0): 0, ("t", NO_ID, 1): 0}


@pytest.mark.parametrize("version", range(2, 10))
def test_what_is_not_there_is_refused_and_the_rest_is_committed(version: int) -> None:
    world = group_world()
    client = world.client()
    commit(client, {"t": [0, 7], "gone": [0]}, version)
    asked = world.logstore.group_request()
    assert (asked.group_id, asked.generation_id_or_member_epoch, asked.member_id) == ("g", 3, "m-1")
    assert [(each.name, [part.partition_index for part in each.partitions]) for each in asked.topics] == [("t", [0])]
    kept = asked.topics[0].partitions[0]
    assert (kept.committed_offset, kept.committed_metadata) == (70, "note")
    assert kept.committed_leader_epoch == (5 if version >= 6 else -1)
    world.logstore.group_answer(committed(0))
    assert commit_errors(client) == {("t", NO_ID, 0): 0, ("t", NO_ID, 7): UNKNOWN, ("gone", NO_ID, 0): UNKNOWN}
    assert len(client.answers[-1].topics) == 2


def test_by_id_names_are_put_in_and_ids_back() -> None:
    world = group_world()
    client = world.client()
    commit(client, {TOPIC_ID: [0, 7], OTHER_ID: [0, 1]}, version=10)
    assert world.logstore.group_calls[0].api_version == 9
    assert [each.name for each in world.logstore.group_request().topics] == ["t"]
    world.logstore.group_answer(committed(0, error_code=ErrorCode.OFFSET_METADATA_TOO_LARGE))
    unknown = ErrorCode.UNKNOWN_TOPIC_ID
    assert commit_errors(client) == {
        ("", TOPIC_ID, 0): ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ("", TOPIC_ID, 7): UNKNOWN,
        ("", OTHER_ID, 0): unknown,
        ("", OTHER_ID, 1): unknown,
    }


@pytest.mark.parametrize(("version", "name", "error"), [(9, "gone", UNKNOWN), (10, OTHER_ID, 100)])
def test_nothing_to_commit_asks_no_broker(version: int, name: Any, error: int) -> None:
    world = group_world()
    client = world.client()
    commit(client, {name: [0]}, version)
    assert list(commit_errors(client).values()) == [error]
    assert not world.logstore.group_calls


@pytest.mark.parametrize("version", [2, 9, 10])
def test_a_commit_to_a_group_in_trouble_says_so_for_each_partition(version: int) -> None:
    world = group_world()
    client = world.client()
    commit(client, {(TOPIC_ID if version >= 10 else "t"): [0, 1]}, version)
    world.logstore.group_answer(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert list(commit_errors(client).values()) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 2
    assert {topic.topic_id for topic in client.answers[-1].topics} == {TOPIC_ID if version >= 10 else NO_ID}


def test_a_commit_of_nothing_is_for_the_coordinator_to_judge() -> None:
    world = group_world()
    client = world.client()
    commit(client, {})
    world.logstore.group_answer(OffsetCommitResponse())
    assert commit_errors(client) == {}


def test_commits_have_to_be_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = group_world()
    client = world.client()
    with monkeypatch.context() as patch:
        deny(patch, ResourceType.GROUP)
        commit(client, {"t": [0], "gone": [0]})
    assert set(commit_errors(client).values()) == {ErrorCode.GROUP_AUTHORIZATION_FAILED}
    assert len(commit_errors(client)) == 2
    deny(monkeypatch, ResourceType.TOPIC)
    commit(client, {"t": [0]})
    assert commit_errors(client) == {("t", NO_ID, 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert not world.logstore.group_calls


def test_an_answer_that_is_none_breaks_the_stream_and_not_the_client() -> None:
    world = group_world()
    client = world.client()
    commit(client, {TOPIC_ID: [0]}, version=10)
    answer = GroupAnswer(world.logstore.group_calls[0].request_id, body=b"\x00\x00")
    with pytest.raises(MalformedMessage):
        world.logstore.coordinate(CoordinateResponse(answers=[answer]))
    world.logstore.down()
    world.pass_ms(5_100)
    assert list(commit_errors(client).values()) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


# --- OffsetFetch -----------------------------------------------------------------------------------------------------


def old_fetch(client: Client, topics: dict[str, list[int]] | None, version: int) -> None:
    asked = None if topics is None else [OffsetFetchRequestTopic(*each) for each in topics.items()]
    client.ask(OffsetFetchRequest("g", asked, require_stable=version >= 7), ApiKey.OFFSET_FETCH, version)


def new_fetch(client: Client, groups: dict[str, dict[Any, list[int]] | None], version: int) -> None:
    asked = [
        OffsetFetchRequestGroup(
            group_id,
            topics=None
            if topics is None
            else [
                OffsetFetchRequestTopics("" if version >= 10 else name, name if version >= 10 else NO_ID, partitions)
                for name, partitions in topics.items()
            ],
        )
        for group_id, topics in groups.items()
    ]
    client.ask(OffsetFetchRequest(groups=asked, require_stable=True), ApiKey.OFFSET_FETCH, version)


def fetched(topics: dict[str, dict[int, int]], group_id: str = "g", error_code: int = 0) -> OffsetFetchResponseGroup:
    reported = [
        OffsetFetchResponseTopics(
            name, NO_ID, [OffsetFetchResponsePartitions(index, offset, 5, "note") for index, offset in offsets.items()]
        )
        for name, offsets in topics.items()
    ]
    return OffsetFetchResponseGroup(group_id, reported, error_code)


def offsets(group: Any) -> dict[Any, tuple[int, int]]:
    return {
        (topic.name, each.partition_index): (each.committed_offset, each.error_code)
        for topic in group.topics
        for each in topic.partitions
    }


@pytest.mark.parametrize("version", range(1, 8))
def test_older_clients_ask_for_one_group(version: int) -> None:
    world = group_world()
    client = world.client()
    old_fetch(client, {"t": [0, 1], "gone": [4]}, version)
    assert world.logstore.group_calls[0].api_version == 8
    asked = world.logstore.group_request()
    assert asked.require_stable == (version >= 7)
    ((group_id, topics),) = [(group.group_id, group.topics) for group in asked.groups]
    assert (group_id, [(each.name, each.partition_indexes) for each in topics]) == ("g", [("t", [0, 1]), ("gone", [4])])
    world.logstore.group_answer(OffsetFetchResponse(groups=[fetched({"t": {0: 70, 1: -1}, "gone": {4: 3}})]))
    answer = client.answers[-1]
    assert offsets(answer) == {("t", 0): (70, 0), ("t", 1): (-1, 0), ("gone", 4): (3, 0)}
    first = answer.topics[0].partitions[0]
    assert (first.metadata, first.committed_leader_epoch) == ("note", 5 if version >= 5 else -1)
    assert answer.error_code == 0


@pytest.mark.parametrize("version", range(2, 8))
def test_older_clients_ask_for_all_topics(version: int) -> None:
    world = group_world()
    client = world.client()
    old_fetch(client, None, version)
    assert world.logstore.group_request().groups[0].topics is None
    world.logstore.group_answer(OffsetFetchResponse(groups=[fetched({"t": {0: 70}, "gone": {4: 3}})]))
    assert offsets(client.answers[-1]) == {("t", 0): (70, 0), ("gone", 4): (3, 0)}


@pytest.mark.parametrize("version", range(1, 11))
@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR])
def test_an_error_of_a_fetch_stands_where_the_version_has_it(version: int, code: ErrorCode) -> None:
    world = group_world()
    client = world.client()
    if version < 8:
        old_fetch(client, {"t": [0, 1]}, version)
    else:
        new_fetch(client, {"g": {(TOPIC_ID if version >= 10 else "t"): [0, 1]}}, version)
    world.logstore.group_answer(error_code=code)
    answer = client.answers[-1]
    if version == 1:
        assert offsets(answer) == {("t", 0): (-1, code), ("t", 1): (-1, code)}
    elif version < 8:
        assert (answer.error_code, answer.topics) == (code, [])
    else:
        assert [(group.group_id, group.error_code, group.topics) for group in answer.groups] == [("g", code, [])]


def test_groups_are_asked_of_their_own_coordinators() -> None:
    world = group_world(1, 2)
    client = world.client()
    (first, third), (second, _) = by_partition(2, 2)
    new_fetch(client, {first: None, second: {"t": [0]}, third: {"t": [1]}}, version=9)
    one, two = world.logstores[1], world.logstores[2]
    assert [group.group_id for group in one.group_request().groups] == [first, third]
    assert [group.group_id for group in two.group_request().groups] == [second]
    assert (one.group_calls[0].partition, two.group_calls[0].partition) == (0, 1)
    two.group_answer(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert not client.answers
    refused = fetched({}, third, ErrorCode.UNKNOWN_MEMBER_ID)
    one.group_answer(OffsetFetchResponse(groups=[fetched({"t": {0: 7}}, first), refused]))
    assert [(group.group_id, group.error_code, offsets(group)) for group in client.answers[-1].groups] == [
        (first, 0, {("t", 0): (7, 0)}),
        (second, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, {}),
        (third, ErrorCode.UNKNOWN_MEMBER_ID, {}),
    ]


def test_topics_by_id_are_fetched_by_name() -> None:
    world = group_world()
    client = world.client()
    new_fetch(client, {"g": {TOPIC_ID: [0], OTHER_ID: [3]}}, version=10)
    assert world.logstore.group_calls[0].api_version == 9
    assert [each.name for each in world.logstore.group_request().groups[0].topics] == ["t"]
    world.logstore.group_answer(OffsetFetchResponse(groups=[fetched({"t": {0: 7}})]))
    (group,) = client.answers[-1].groups
    assert {
        (topic.topic_id, each.partition_index): each.error_code for topic in group.topics for each in topic.partitions
    } == {
        (OTHER_ID, 3): ErrorCode.UNKNOWN_TOPIC_ID,
        (TOPIC_ID, 0): 0,
    }


def test_all_topics_by_id_are_those_that_have_one() -> None:
    world = group_world()
    client = world.client()
    new_fetch(client, {"g": None}, version=10)
    world.logstore.group_answer(OffsetFetchResponse(groups=[fetched({"t": {0: 7}, "gone": {0: 7}})]))
    (group,) = client.answers[-1].groups
    assert [topic.topic_id for topic in group.topics] == [TOPIC_ID]


@pytest.mark.parametrize("version", [1, 5, 9])
def test_a_fetch_that_is_lost_changed_nothing(version: int) -> None:
    """Consumers before Kafka 3.9 take COORDINATOR_NOT_AVAILABLE here for the end."""
    world = group_world()
    client = world.client()
    for _ in range(2):
        if version < 8:
            old_fetch(client, {"t": [0]}, version)
        else:
            new_fetch(client, {"g": {"t": [0]}}, version)
        if world.logstore.group_calls:
            world.logstore.down()
        answer = client.answers[-1]
        reported = answer.groups[0] if version >= 8 else answer
        code = offsets(reported)["t", 0][1] if version == 1 else reported.error_code
        assert code == ErrorCode.NOT_COORDINATOR


def test_a_group_that_the_coordinator_leaves_out_is_not_taken_for_one_without_offsets() -> None:
    world = group_world()
    client = world.client()
    new_fetch(client, {"g": {"t": [0]}}, version=9)
    world.logstore.group_answer(OffsetFetchResponse(groups=[]))
    assert [group.error_code for group in client.answers[-1].groups] == [ErrorCode.NOT_COORDINATOR]


def test_a_fetch_of_no_group_is_answered() -> None:
    client = group_world().client()
    new_fetch(client, {}, version=9)
    assert client.answers[-1].groups == []


def test_fetches_have_to_be_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = group_world()
    client = world.client()
    with monkeypatch.context() as patch:
        deny(patch, ResourceType.GROUP)
        new_fetch(client, {"g": {"t": [0]}}, version=9)
    assert [group.error_code for group in client.answers[-1].groups] == [ErrorCode.GROUP_AUTHORIZATION_FAILED]
    deny(monkeypatch, ResourceType.TOPIC)
    new_fetch(client, {"g": {"t": [0]}}, version=9)
    world.logstore.group_answer(OffsetFetchResponse(groups=[fetched({})]))
    assert offsets(client.answers[-1].groups[0]) == {("t", 0): (-1, ErrorCode.TOPIC_AUTHORIZATION_FAILED)}
    new_fetch(client, {"g": None}, version=9)
    world.logstore.group_answer(OffsetFetchResponse(groups=[fetched({"t": {0: 7}})]))
    assert offsets(client.answers[-1].groups[0]) == {}


# --- OffsetDelete ----------------------------------------------------------------------------------------------------


def delete(client: Client, topics: dict[str, list[int]]) -> None:
    asked = [
        OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(index) for index in partitions])
        for name, partitions in topics.items()
    ]
    client.ask(OffsetDeleteRequest("g", asked), ApiKey.OFFSET_DELETE, 0)


def deleted(client: Client) -> dict[tuple[str, int], int]:
    return {
        (topic.name, each.partition_index): each.error_code
        for topic in client.answers[-1].topics
        for each in topic.partitions
    }


def test_offsets_of_partitions_that_there_are_can_be_deleted() -> None:
    world = group_world()
    client = world.client()
    delete(client, {"t": [0, 1, 9], "gone": [0]})
    asked = world.logstore.group_request()
    assert [(each.name, [part.partition_index for part in each.partitions]) for each in asked.topics] == [("t", [0, 1])]
    subscribed = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    reported = [OffsetDeleteResponsePartition(0, 0), OffsetDeleteResponsePartition(1, subscribed)]
    world.logstore.group_answer(OffsetDeleteResponse(topics=[OffsetDeleteResponseTopic("t", reported)]))
    assert deleted(client) == {("t", 0): 0, ("t", 1): subscribed, ("t", 9): UNKNOWN, ("gone", 0): UNKNOWN}
    assert len(client.answers[-1].topics) == 2


def test_an_error_of_the_group_is_the_answer_to_a_deletion() -> None:
    world = group_world()
    client = world.client()
    delete(client, {"t": [0, 9]})
    world.logstore.group_answer(OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND))
    delete(client, {"t": [0, 9]})
    world.logstore.group_answer(error_code=ErrorCode.NOT_COORDINATOR)
    codes = [(answer.error_code, answer.topics) for answer in client.answers]
    assert codes == [(ErrorCode.GROUP_ID_NOT_FOUND, []), (ErrorCode.NOT_COORDINATOR, [])]


def test_deletions_of_nothing_that_there_is_are_refused_each(monkeypatch: pytest.MonkeyPatch) -> None:
    world = group_world()
    client = world.client()
    delete(client, {"gone": [0]})
    world.logstore.group_answer(OffsetDeleteResponse())
    assert deleted(client) == {("gone", 0): UNKNOWN}
    deny(monkeypatch, ResourceType.TOPIC)
    delete(client, {"t": [0]})
    world.logstore.group_answer(OffsetDeleteResponse())
    assert deleted(client) == {("t", 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    deny(monkeypatch, ResourceType.GROUP)
    delete(client, {"t": [0]})
    assert client.answers[-1].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert not world.logstore.group_calls


def test_a_deletion_for_a_group_that_is_not_there_says_so_whatever_its_topics() -> None:
    """Kafka asks the coordinator though nothing is left to delete, and an error of the group is the whole answer."""
    world = group_world()
    client = world.client()
    delete(client, {"gone": [0]})
    assert world.logstore.group_request().topics == []
    world.logstore.group_answer(OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND))
    assert (client.answers[-1].error_code, client.answers[-1].topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
