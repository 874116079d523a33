"""OffsetCommit, OffsetFetch and OffsetDelete: who may, what is kept, and the answers."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.leave_group import MemberIdentity
from barnabas.wire.messages.offset_commit import OffsetCommitResponse
from barnabas.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from barnabas_logstore.core.coordinator.groups.config import GroupConfig
from barnabas_logstore.core.coordinator.groups.records import OffsetCommitValue
from tests.unit.logstore.coordinator.support import FakeLog, World, commit_request


class TestWhoMayCommit:
    def error(self, world: World, **changes: Any) -> ErrorCode:
        return world.commit_error(world.commit_offset(5, **changes))

    def test_anybody_while_there_is_no_group_and_while_it_is_empty(self) -> None:
        world = World()
        assert self.error(world) == ErrorCode.NONE
        assert self.error(world) == ErrorCode.NONE
        assert self.error(world, group_id="") == ErrorCode.NONE

    def test_with_a_generation_no_commit_is_taken_while_there_is_no_group(self) -> None:
        world = World()
        assert self.error(world, generation_id=1, version=9) == ErrorCode.GROUP_ID_NOT_FOUND
        assert self.error(world, generation_id=1, version=8) == ErrorCode.ILLEGAL_GENERATION

    def test_only_members_of_the_generation_while_it_is_not_empty(self) -> None:
        world = World()
        (member,) = world.stable_group(1)
        member_id = member.member_id
        for changes, error in (
            ({"generation_id": 1, "member_id": member_id}, ErrorCode.NONE),
            ({}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"generation_id": 1}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"generation_id": 1, "member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"member_id": member_id}, ErrorCode.ILLEGAL_GENERATION),
            ({"generation_id": 0, "member_id": member_id}, ErrorCode.ILLEGAL_GENERATION),
            ({"generation_id": 2, "member_id": member_id}, ErrorCode.ILLEGAL_GENERATION),
            ({"instance_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ):
            assert self.error(world, **changes) == error

    def test_a_static_member_that_another_has_replaced_is_fenced(self) -> None:
        world = World()
        (member,) = world.stable_group(1, instances=True)
        by_it = {"generation_id": 1, "member_id": member.member_id, "instance_id": "instance 0"}
        assert self.error(world, **by_it) == ErrorCode.NONE
        world.join(group_instance_id="instance 0")
        assert self.error(world, **by_it) == ErrorCode.FENCED_INSTANCE_ID

    def test_members_while_all_join_again_but_not_while_others_sync(self) -> None:
        world = World()
        leader, follower = world.stable_group(2)
        again = world.join(leader.member_id)
        by_follower = {"generation_id": 1, "member_id": follower.member_id}
        assert self.error(world, **by_follower) == ErrorCode.NONE
        world.join(follower.member_id)
        assert world.joined(again).generation_id == 2
        assert self.error(world, **by_follower) == ErrorCode.ILLEGAL_GENERATION
        by_follower["generation_id"] = 2
        assert self.error(world, **by_follower) == ErrorCode.REBALANCE_IN_PROGRESS

    def test_with_a_generation_an_empty_group_takes_no_commit(self) -> None:
        world = World()
        (member,) = world.stable_group(1)
        world.leave(MemberIdentity(member.member_id))
        assert self.error(world, generation_id=2, member_id=member.member_id) == ErrorCode.UNKNOWN_MEMBER_ID
        assert self.error(world) == ErrorCode.NONE


class TestCommit:
    @pytest.mark.parametrize("version", range(2, 10))
    def test_is_found_again_in_every_version_and_by_the_next_coordinator(self, version: int) -> None:
        world = World()
        assert world.commit_error(world.commit_offset(5, version=version)) == ErrorCode.NONE
        assert world.fetch_offset() == 5
        world.reload()
        assert world.fetch_offset() == 5

    def test_is_answered_when_it_is_committed(self) -> None:
        world = World()
        world.log.commits_at_once = False
        request = world.commit_offset(5)
        assert not world.is_answered(request)
        world.commit()
        assert world.commit_error(request) == ErrorCode.NONE

    def test_versions_that_name_topics_by_id_are_not_for_coordinators(self) -> None:
        world = World()
        assert world.error_of(world.commit_offset(5, version=10)) == ErrorCode.INVALID_REQUEST

    @pytest.mark.parametrize(("characters", "error"), [(4_096, 0), (4_097, ErrorCode.OFFSET_METADATA_TOO_LARGE)])
    def test_metadata_has_an_end(self, characters: int, error: int) -> None:
        world = World()
        assert world.commit_error(world.commit_offset(5, metadata="é" * characters)) == error
        assert world.fetch_offset() == (-1 if error else 5)

    @pytest.mark.parametrize(("characters", "error"), [(2_048, 0), (2_049, ErrorCode.OFFSET_METADATA_TOO_LARGE)])
    def test_a_character_of_two_utf_16_units_counts_twice(self, characters: int, error: int) -> None:
        world = World()
        assert world.commit_error(world.commit_offset(5, metadata="\N{DROMEDARY CAMEL}" * characters)) == error
        assert world.fetch_offset() == (-1 if error else 5)

    def test_metadata_of_a_megabyte_makes_no_group(self) -> None:
        world = World()
        request = world.commit_offset(5, metadata="x" * 32_767)
        assert world.commit_error(request) == ErrorCode.OFFSET_METADATA_TOO_LARGE
        assert not list(world.groups)

    def test_metadata_that_no_record_can_hold_though_the_limit_would_allow_it(self) -> None:
        world = World(GroupConfig(offset_metadata_max_bytes=100_000))
        assert world.commit_error(world.commit_offset(5, metadata="x" * 32_767)) == ErrorCode.NONE

    def test_null_metadata_is_none(self) -> None:
        world = World()
        world.commit_offset(5, metadata=None)
        _, value = world.log.entries()[-1]
        assert value == OffsetCommitValue(5, 3, "", world.wall_ms)

    def test_one_partition_refused_leaves_the_others_alone(self) -> None:
        world = World()
        request = commit_request(5, metadata="x" * 5_000)
        request.topics += commit_request(6, partition=1).topics
        request.topics[0].partitions += request.topics.pop().partitions
        reported = world.ask(request, 9, OffsetCommitResponse)
        assert [(each.partition_index, each.error_code) for each in reported.topics[0].partitions] == [
            (0, ErrorCode.OFFSET_METADATA_TOO_LARGE),
            (1, ErrorCode.NONE),
        ]
        assert (world.fetch_offset(), world.fetch_offset(partition=1)) == (-1, 6)

    def test_a_record_larger_than_a_batch(self) -> None:
        world = World(log=FakeLog(bytes_max=1_000))
        request = world.commit_offset(5, metadata="x" * 1_000)
        assert world.commit_error(request) == ErrorCode.INVALID_COMMIT_OFFSET_SIZE

    def test_more_than_a_batch_holds_goes_into_several(self) -> None:
        world = World(log=FakeLog(bytes_max=1_000))
        request = commit_request(5, metadata="x" * 300)
        for partition in range(1, 10):
            request.topics[0].partitions += (
                commit_request(5, partition=partition, metadata="x" * 300).topics[0].partitions
            )
        reported = world.ask(request, 9, OffsetCommitResponse)
        assert {each.error_code for each in reported.topics[0].partitions} == {ErrorCode.NONE}
        world.reload()
        assert [world.fetch_offset(partition=partition) for partition in range(10)] == [5] * 10

    def test_a_group_id_as_long_as_it_can_be(self) -> None:
        world = World()
        assert world.commit_error(world.commit_offset(5, group_id="x" * 32_767)) == ErrorCode.NONE
        assert world.fetch_offset(group_id="x" * 32_767) == 5
        world.reload()
        assert world.fetch_offset(group_id="x" * 32_767) == 5

    @pytest.mark.parametrize("refusal", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR])
    def test_a_log_that_refuses_changes_nothing(self, refusal: ErrorCode) -> None:
        world = World()
        world.commit_offset(5)
        world.log.refusal = refusal
        reported = world.commit_error(world.commit_offset(6))
        is_storage = refusal == ErrorCode.KAFKA_STORAGE_ERROR
        assert reported == (ErrorCode.NOT_COORDINATOR if is_storage else ErrorCode.COORDINATOR_NOT_AVAILABLE)
        assert world.fetch_offset() == 5


class TestFetch:
    def test_waits_for_what_it_would_tell(self) -> None:
        """A reader that has seen an offset never sees an older one."""
        world = World()
        world.commit_offset(5)
        world.log.commits_at_once = False
        world.commit_offset(6)
        topics = [OffsetFetchRequestTopics("topic", partition_indexes=[0])]
        request = world.send(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("group", topics=topics)]), 9)
        assert not world.is_answered(request)
        world.commit()
        assert world.body_of(request, OffsetFetchResponse).groups[0].topics[0].partitions[0].committed_offset == 6

    def test_what_a_new_leader_has_found_uncommitted_is_returned_when_it_is_committed(self) -> None:
        world = World()
        world.log.commits_at_once = False
        world.commit_offset(5)
        world.lose()
        world.lead()
        topics = [OffsetFetchRequestTopics("topic", partition_indexes=[0])]
        request = world.send(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("group", topics=topics)]), 9)
        assert not world.is_answered(request)
        world.commit()
        assert world.body_of(request, OffsetFetchResponse).groups[0].topics[0].partitions[0].committed_offset == 5

    @pytest.mark.parametrize("version", range(1, 8))
    def test_one_group_before_v8(self, version: int) -> None:
        world = World()
        world.commit_offset(5, metadata="note")
        request = OffsetFetchRequest(
            "group", [OffsetFetchRequestTopic("topic", [0, 1]), OffsetFetchRequestTopic("x", [0])]
        )
        reported = world.ask(request, version, OffsetFetchResponse)
        assert [
            (topic.name, each.committed_offset, each.metadata) for topic in reported.topics for each in topic.partitions
        ] == [
            ("topic", 5, "note"),
            ("topic", -1, ""),
            ("x", -1, ""),
        ]
        assert {each.committed_leader_epoch for each in reported.topics[0].partitions} == (
            {3, -1} if version >= 5 else {-1}
        )

    @pytest.mark.parametrize("version", range(2, 8))
    def test_all_of_a_group(self, version: int) -> None:
        world = World()
        for topic, partition in (("a", 0), ("a", 3), ("b", 1)):
            world.commit_offset(5, topic=topic, partition=partition)
        reported = world.ask(OffsetFetchRequest("group", None), version, OffsetFetchResponse)
        found = [(topic.name, each.partition_index) for topic in reported.topics for each in topic.partitions]
        assert found == [("a", 0), ("a", 3), ("b", 1)]

    @pytest.mark.parametrize("version", [8, 9])
    def test_several_groups_some_of_which_are_not_there(self, version: int) -> None:
        world = World()
        world.commit_offset(5)
        request = OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup("group", topics=None),
                OffsetFetchRequestGroup("", topics=None),
                OffsetFetchRequestGroup("none", topics=[OffsetFetchRequestTopics("topic", partition_indexes=[0])]),
            ]
        )
        reported = world.ask(request, version, OffsetFetchResponse)
        assert [(each.group_id, each.error_code, len(each.topics)) for each in reported.groups] == [
            ("group", 0, 1),
            ("", 0, 0),
            ("none", 0, 1),
        ]
        assert reported.groups[2].topics[0].partitions[0].committed_offset == -1


class TestDelete:
    def delete(self, world: World, *, group_id: str = "group", topic: str = "topic") -> OffsetDeleteResponse:
        topics = [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(0), OffsetDeleteRequestPartition(9)])]
        return world.ask(OffsetDeleteRequest(group_id, topics), 0, OffsetDeleteResponse)

    def test_of_an_empty_group_what_is_there(self) -> None:
        world = World()
        world.commit_offset(5)
        world.commit_offset(6, topic="other")
        reported = self.delete(world)
        assert [each.error_code for each in reported.topics[0].partitions] == [ErrorCode.NONE, ErrorCode.NONE]
        world.reload()
        assert (world.fetch_offset(), world.fetch_offset(topic="other")) == (-1, 6)

    def test_of_no_group(self) -> None:
        world = World()
        assert self.delete(world).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert self.delete(world, group_id="").error_code == ErrorCode.INVALID_GROUP_ID

    def test_of_consumers_only_topics_that_none_of_them_reads(self) -> None:
        world = World()
        (member,) = world.stable_group(1)
        for topic in ("topic", "other"):
            world.commit_offset(5, topic=topic, generation_id=1, member_id=member.member_id)
        reported = self.delete(world)
        assert [each.error_code for each in reported.topics[0].partitions] == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC] * 2
        assert [each.error_code for each in self.delete(world, topic="other").topics[0].partitions] == [0, 0]
        assert (world.fetch_offset(), world.fetch_offset(topic="other")) == (5, -1)

    def test_of_members_that_are_no_consumers_nothing(self) -> None:
        world = World()
        world.stable_group(1, protocol_type="connect")
        assert self.delete(world).error_code == ErrorCode.NON_EMPTY_GROUP

    def test_a_log_that_refuses(self) -> None:
        world = World()
        world.commit_offset(5)
        world.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        assert self.delete(world).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert world.fetch_offset() == 5


class TestDeletedTopics:
    def test_their_offsets_go_with_them(self) -> None:
        world = World()
        world.commit_offset(5)
        world.commit_offset(6, topic="other")
        world.delete_topics("topic")
        world.turn()
        world.reload()
        assert (world.fetch_offset(), world.fetch_offset(topic="other")) == (-1, 6)

    def test_as_soon_as_that_can_be_written(self) -> None:
        world = World()
        world.commit_offset(5)
        world.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        world.delete_topics("topic")
        world.turn()
        assert not world.coordinator.has_work, "nothing can be done by trying again at once"
        world.log.refusal = ErrorCode.NONE
        world.turn()
        assert world.fetch_offset() == -1

    def test_many_groups_are_looked_at_over_several_steps(self) -> None:
        world = World()
        for number in range(1_200):
            world.commit_offset(5, group_id=f"group {number}")
        groups = world.groups
        world.delete_topics("topic", "another")
        world.turn()
        assert 0 < len(groups) < 1_200
        assert world.coordinator.has_work
        world.delete_topics("one more")
        for _ in range(10):
            world.turn()
        assert len(groups) == 0
        world.reload()
        assert len(world.groups) == 0

    def test_as_soon_as_the_log_is_read(self) -> None:
        world = World()
        world.commit_offset(5)
        world.lose()
        world.lead(loads=False)
        world.delete_topics("topic")
        world.load()
        assert world.fetch_offset() == -1
